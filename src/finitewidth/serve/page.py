"""A page of the lab: one idea, its controls, what the theory says and what networks do."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from finitewidth.serve.state import Control, State

Picture = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Figure:
    """One picture. It is computed again only when a control it depends on has moved."""

    name: str
    title: str
    depends: tuple[str, ...]
    draw: Callable[[State], Picture]
    tall: bool = False


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Real networks: pieces of result, each in well under a second, until all are there."""

    figure: str
    label: str
    depends: tuple[str, ...]
    pieces: Callable[[State], Iterator[Picture]]


@dataclasses.dataclass(frozen=True)
class Page:
    slug: str
    title: str
    idea: str
    formula: str
    controls: tuple[Control, ...]
    figures: tuple[Figure, ...]
    code: Callable[[State], str]
    experiment: Experiment | None = None
    claims: tuple[str, ...] = ()
    warm: Callable[[], None] | None = None
