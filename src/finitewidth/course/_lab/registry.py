"""Finds the claims: every module of a chapter's package lists its own as `CLAIMS`."""

import dataclasses
import difflib
import functools
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from finitewidth.course._lab.chapters import CHAPTERS
from finitewidth.course._lab.claim import Claim

_ID = re.compile(r'^ +id="([a-z0-9.-]+)",$', re.MULTILINE)


def claims() -> tuple[Claim, ...]:
    """Every claim of the laboratory, in the order of the book."""
    return _all()


def claim(id: str) -> Claim:
    """The claim with this id; only its module is imported if the id stands there as it is."""
    if id in (homes := _homes()):
        for found in _of_module(*homes[id]):
            if found.id == id:
                return found
    by_id = {c.id: c for c in claims()}
    if id in by_id:
        return by_id[id]
    closest = difflib.get_close_matches(id, by_id, n=3, cutoff=0.0)
    raise ValueError(f"there is no claim {id!r}; the closest are {', '.join(closest)}.")


def own_claims(source: str) -> tuple[Claim, ...]:
    """The claim, or the tuple of claims, that somebody has written: "module:NAME" or "path/file.py:NAME"."""
    from finitewidth._base.outside import outside

    found = outside(source, "a claim of your own", "module:NAME or path/to/file.py:NAME", "claim")
    several = found if isinstance(found, tuple | list) else (found,)
    for one in several:
        if not isinstance(one, Claim):
            raise ValueError(f"{source} is no claim: it must be a finitewidth.lab.Claim, or a tuple of them.")
        if one.id in {c.id for c in claims()}:
            raise ValueError(f"{source}: there is a claim {one.id!r} already; give yours another id.")
    return tuple(several)


def chapter_claims(name: str) -> tuple[Claim, ...]:
    """The claims of a chapter, called as in the book or as its folder; empty if no chapter is called so."""
    wanted = _plain(name)
    folders = [folder for folder, title in CHAPTERS.items() if wanted in (_plain(folder), _plain(title))]
    return tuple(c for folder in folders for c in _found(folder))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


@functools.cache
def _all() -> tuple[Claim, ...]:
    found = tuple(claim for chapter in CHAPTERS for claim in _found(chapter))
    twice = [id for id, count in Counter(claim.id for claim in found).items() if count > 1]
    if twice:
        raise ValueError(f"two claims have the id {twice[0]!r}; every claim needs an id of its own.")
    return found


@functools.cache
def _homes() -> dict[str, tuple[str, str]]:
    """Chapter and module of every id that stands in a file as it is; nothing is imported."""
    found = {}
    for file in sorted(Path(str(resources.files("finitewidth.course"))).glob("*/claims/[!_]*.py")):
        for id in _ID.findall(file.read_text(encoding="utf-8")):
            found.setdefault(id, (file.parts[-3], file.stem))
    return found


def _found(chapter: str) -> Iterator[Claim]:
    """The claims of a chapter, its modules by name."""
    package = importlib.import_module(f"finitewidth.course.{chapter}.claims")
    for module in sorted(
        module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")
    ):
        yield from _of_module(chapter, module)


def _of_module(chapter: str, name: str) -> Iterator[Claim]:
    """The claims of a module; they learn the chapter's title from where they are."""
    module = importlib.import_module(f"finitewidth.course.{chapter}.claims.{name}")
    yield from (dataclasses.replace(claim, chapter=CHAPTERS[chapter]) for claim in module.CLAIMS)
