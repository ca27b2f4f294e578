"""`finitewidth.lab`: the laboratory of the course."""

from finitewidth.course import *  # noqa: F403
