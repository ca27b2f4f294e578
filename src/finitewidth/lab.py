"""`finitewidth.lab`: the laboratory of the course."""

from finitewidth.course import *  # noqa: F403

__path__: list[str] = []  # packages that stood below it are found by `_base.moved`
