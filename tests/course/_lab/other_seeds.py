"""Runs claims at three other seeds: python tests/course/_lab/other_seeds.py [CHAPTER OR ID ...]

Ends with exit code 1 when a claim fails at one of them, or measures the same numbers at two of them although
it does not say that nothing in it is random. Counts are let off: a law that holds gives the same number of
cells or the same rank for all data. Records go to build/lab-seed-N.
"""

import sys
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

SEEDS = (1, 2, 3)
BUILD = Path(__file__).resolve().parents[3] / "build"


def main(names: list[str]) -> int:
    from finitewidth._base.programs import keep_programs
    from finitewidth.cli.claim_processes import default_jobs
    from finitewidth.cli.lab_job import chosen, failures, run_all

    keep_programs(print)
    asked = chosen(names, everything=not names)
    found = {}
    for seed in SEEDS:
        found[seed] = run_all(asked, "quick", seed, BUILD / f"lab-seed-{seed}", default_jobs(len(asked)))
        holding = sum(record["holds"] for record in found[seed])
        seconds = sum(record["cpu_seconds"] for record in found[seed])
        print(f"seed {seed}: {holding} of {len(asked)} claims hold, {seconds:.0f} CPU seconds", flush=True)
        print(*failures(found[seed]), sep="\n", end="\n" if holding < len(asked) else "", flush=True)
    fixed = wired_in(found.values())
    print(
        *(f"{id} measures the same numbers at two seeds" for id in fixed), sep="\n", end="\n" if fixed else ""
    )
    return int(bool(fixed) or not all(record["holds"] for records in found.values() for record in records))


def wired_in(runs: Iterable[Iterable[Mapping[str, Any]]]) -> list[str]:
    """Claims with the same measured numbers at two seeds, though they do not say that nothing is random."""
    found = []
    for records in zip(*runs, strict=True):
        same = any(first["measured"] == second["measured"] for first, second in combinations(records, 2))
        if same and not records[0]["deterministic"] and not _counts(records[0]["measured"]):
            found.append(records[0]["id"])
    return found


def _counts(measured: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether all that was measured are whole numbers."""
    return all(np.all(np.mod(found["value"], 1) == 0) for found in measured.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
