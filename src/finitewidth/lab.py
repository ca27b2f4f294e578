"""`finitewidth.lab`: the laboratory of the course."""

from finitewidth import course
from finitewidth.course import __all__ as __all__

__path__: list[str] = []  # packages that stood below it are found by `_base.moved`


def __getattr__(name: str) -> object:
    return getattr(course, name)
