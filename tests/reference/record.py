"""The numbers of the laboratory, kept and compared: a change that should change none of them can show it.

    python tests/reference/record.py keep before          every claim at quick scale and seed 3; every picture
    python tests/reference/record.py keep after           the same, in another tree
    python tests/reference/record.py compare before after what differs, and by how much; nothing is allowed

A name after the folders limits both to claims and pages whose names contain it. Claims take half an hour.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

SEED = 3
# What differs between two runs of the same code.
_OF_THE_RUN = ("date", "versions", "seconds", "cpu_seconds")


def plain(thing: Any) -> Any:
    """Arrays as lists, so that JSON keeps every digit."""
    if isinstance(thing, dict):
        return {str(name): plain(part) for name, part in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain(part) for part in thing]
    return plain(np.asarray(thing).tolist()) if hasattr(thing, "shape") else thing


def claims(part: str) -> dict[str, Any]:
    """The records of all claims whose id contains this part."""
    from finitewidth import lab
    from finitewidth.course._lab.runner import record

    found = {}
    for claim in lab.claims():
        if part in claim.id:
            print(claim.id, flush=True)
            kept = record(lab.run(claim, seed=SEED))
            found[claim.id] = plain({name: kept[name] for name in kept if name not in _OF_THE_RUN})
    return found


def pictures(part: str) -> dict[str, Any]:
    """Every picture in the default state of its page, and the first piece of its experiment."""
    from finitewidth.course._server.pages import PAGES
    from finitewidth.course._server.state import defaults

    found = {}
    for slug, page in PAGES.items():
        if part in slug:
            print(slug, flush=True)
            state = defaults(page.controls)
            found[slug] = {figure.name: plain(figure.picture(state)) for figure in page.figures}
            if page.experiment is not None:
                asked = {name: state[name] for name in page.experiment.depends}
                found[slug]["pieces"] = plain(list(itertools.islice(page.experiment.pieces(asked), 1)))
    return found


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Where two records differ, one line each."""
    if isinstance(before, dict) and isinstance(after, dict):
        lost = [
            f"{place}/{name}: only {'before' if name in before else 'after'}"
            for name in before.keys() ^ after
        ]
        both = (differences(before[name], after[name], f"{place}/{name}") for name in before.keys() & after)
        return lost + list(itertools.chain.from_iterable(both))
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        parts = (
            differences(*pair, f"{place}[{i}]") for i, pair in enumerate(zip(before, after, strict=True))
        )
        return list(itertools.chain.from_iterable(parts))
    return [] if before == after or (before != before and after != after) else [f"{place}: {before} {after}"]


def main(what: str, *folders: str) -> int:
    """Keep or compare; the exit code is 1 if anything differs."""
    if what == "keep":
        folder, part = Path(folders[0]), folders[1] if len(folders) > 1 else ""
        folder.mkdir(parents=True, exist_ok=True)
        for name, found in (("claims", claims(part)), ("pictures", pictures(part))):
            (folder / f"{name}.json").write_text(json.dumps(found))
        return 0
    part = folders[2] if len(folders) > 2 else ""
    found = []
    for name in ("claims", "pictures"):
        before, after = (json.loads((Path(folder) / f"{name}.json").read_text()) for folder in folders[:2])
        chosen = [one for one in before.keys() | after.keys() if part in one]
        different = {one: differences(before.get(one), after.get(one)) for one in sorted(chosen)}
        print(f"{name}: {sum(map(bool, different.values()))} of {len(chosen)} differ")
        found += [f"{one}{line}" for one, lines in different.items() for line in lines]
    print(*found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
