"""Finds the claims: every module of a chapter's package lists its own as `CLAIMS`."""

import dataclasses
import difflib
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator

from finitewidth.course._lab.chapters import CHAPTERS
from finitewidth.course._lab.claim import Claim


def claims() -> tuple[Claim, ...]:
    """Every claim of the laboratory, in the order of the book."""
    return _all()


def claim(id: str) -> Claim:
    """The claim with this id."""
    by_id = {c.id: c for c in claims()}
    if id in by_id:
        return by_id[id]
    closest = difflib.get_close_matches(id, by_id, n=3, cutoff=0.0)
    raise ValueError(f"there is no claim {id!r}; the closest are {', '.join(closest)}.")


def chapter_claims(name: str) -> tuple[Claim, ...]:
    """The claims of a chapter, called as in the book or as its folder; empty if no chapter is called so."""
    wanted = _plain(name)
    titles = [title for folder, title in CHAPTERS.items() if wanted in (_plain(folder), _plain(title))]
    return tuple(c for c in claims() if c.chapter in titles)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


@functools.cache
def _all() -> tuple[Claim, ...]:
    return tuple(claim for chapter in CHAPTERS for claim in _found(chapter))


def _found(chapter: str) -> Iterator[Claim]:
    """The claims of a chapter, its modules by name; they learn the chapter's title from where they are."""
    package = importlib.import_module(f"finitewidth.course.{chapter}.claims")
    for name in sorted(
        module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")
    ):
        module = importlib.import_module(f"{package.__name__}.{name}")
        yield from (dataclasses.replace(claim, chapter=CHAPTERS[chapter]) for claim in module.CLAIMS)
