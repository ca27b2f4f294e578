"""Which solver fits into the memory there is, and how much each needs."""

import os
from pathlib import Path
from typing import NamedTuple

from finitewidth._base.checks import is_number

SOLVERS = ("auto", "direct", "iterative", "nystrom")
# Matrices of all pairs of training rows in double precision that live at the same time: two kernels, the
# eigenvectors and the scratch of their routine, and rows of test points. Cautious where no covariance is
# wanted: there five are enough.
_MATRICES = 7
_SHARE = 0.7
_LARGEST_RANK, _LEAST_RANK = 2_000, 250
TILE = 2048


class Budget(NamedTuple):
    """What an iterative solver may use: bytes, rank of the preconditioner, points in a tile."""

    bytes: int
    rank: int
    tile: int


def available_bytes() -> int:
    """Seven tenths of the memory that is free, or of what the limit of a container leaves."""
    free = _meminfo("MemAvailable")
    limit, used = (_number(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None:
        # Pages of files count as used there, and are given back when they are needed.
        free = min(free, max(limit - used + _file_pages(), 0))
    return int(_SHARE * free)


def check_memory(memory: object) -> int:
    """A bound in bytes; free memory decides where there is none."""
    if memory is None:
        return available_bytes()
    if not (is_number(memory) and memory > 0):
        raise ValueError(f"memory must be a number of bytes above zero, or None, got {memory!r}.")
    return int(memory)


def direct_bytes(train: int, test: int, *, covariance: bool = True) -> int:
    """What the direct solver holds at its peak; fewer where variances are enough."""
    return 8 * (_MATRICES * train**2 + 4 * train * test + (3 * test**2 if covariance else 0))


def chosen_solver(
    solver: str, train: int, test: int, memory: float | int | None, *, covariance: bool = True
) -> tuple[str, str]:
    """ "direct", "iterative" or "nystrom", and why.

    The direct solver keeps to a bound that was given; without one it tries what it is asked to.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}.")
    needed = direct_bytes(train, test, covariance=covariance)
    bound = check_memory(memory)
    if solver == "direct" and memory is not None and needed > bound:
        raise MemoryError(
            f"the direct solver needs {_size(needed)} for {train:,} training and {test:,} test rows, and the "
            f"bound is {_size(bound)}: give more, or leave the choice of the solver to the program."
        )
    if solver != "auto":
        return solver, "as asked"
    if needed <= bound:
        return "direct", f"its matrices take {_size(needed)} of {_size(bound)}"
    return "iterative", f"matrices in memory would take {_size(needed)} of {_size(bound)}"


def iterative_budget(n: int, features: int, outputs: int, itemsize: int, threads: int, memory: int) -> Budget:
    """The largest preconditioner that the bound leaves room for.

    Inputs and what is prepared of them, one factor of the preconditioner, nine vectors for each output in
    double precision, and three tiles for each thread live in memory; tiles on disk do not count.
    """
    tile = min(TILE, n)
    least = min(_LEAST_RANK, n)
    rank = max(min(n // 10, _LARGEST_RANK), least)

    def needed(rank: int, tile: int) -> int:
        fixed = 3 * itemsize * n * features + 72 * n * outputs
        return fixed + itemsize * n * (rank + 256) + 3 * threads * 8 * tile**2

    while tile > 256 and needed(least, tile) > memory:
        tile //= 2
    if needed(least, tile) > memory:
        raise MemoryError(
            f"{n:,} rows need {_size(needed(least, tile))} of memory beside their kernels, and the bound is "
            f"{_size(memory)}: give more, or fewer rows."
        )
    room = (memory - needed(least, tile)) // (itemsize * n)
    return Budget(memory, min(rank, least + room), tile)


def _size(bytes: int) -> str:
    return f"{bytes / 1e9:.3g} GB" if bytes >= 1e8 else f"{bytes / 1e6:.3g} MB"


def _meminfo(name: str) -> int:
    path = Path("/proc/meminfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _number(path: Path) -> int | None:
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text.isdigit() else None


def _file_pages() -> int:
    path = Path("/sys/fs/cgroup/memory.stat")
    found = dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}
    return int(found.get("file", 0))
