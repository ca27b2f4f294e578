"""Runs claims in several processes at once."""

import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from finitewidth._base.engines import DaskCluster
from finitewidth.cli.errors import show_warning
from finitewidth.course._lab.claim import Claim, Scale
from finitewidth.course._lab.registry import claim
from finitewidth.course._lab.runner import from_worker, record, run_claim, run_on_worker, save

# A process keeps what it compiles; new ones after so many claims each keep the memory at a few gigabytes.
# The executor's own `max_tasks_per_child` can wait for ever for the new ones in Python 3.11.
_CLAIMS_PER_PROCESS = 30


def default_jobs(claims: int) -> int:
    """One for every four claims, which pay for its start; at most one a core, and four for their memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(4, cores, claims // 4))


def records_of(
    chosen: Sequence[Claim], scale: Scale, seed: int, out: Path, jobs: int, teeth: bool = False
) -> Iterator[dict[str, Any]]:
    """Run claims, save each, and give its record as soon as it is there."""
    # Processes find a claim by its id, which somebody's own have not.
    own = [c for c in chosen if not c.chapter]
    chosen = [c for c in chosen if c.chapter]
    if min(jobs, len(chosen)) <= 1:
        own, chosen = [*own, *chosen], []
    yield from (_saved(c, scale, seed, out, teeth) for c in own)
    most = _CLAIMS_PER_PROCESS * jobs
    for start in range(0, len(chosen), most):
        yield from _in_processes(chosen[start : start + most], scale, seed, out, jobs, teeth)


def _in_processes(
    chosen: Sequence[Claim], scale: Scale, seed: int, out: Path, jobs: int, teeth: bool
) -> Iterator[dict[str, Any]]:
    """Run claims in processes that end with them."""
    older = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(chosen)), multiprocessing.get_context("spawn"), _start)
    try:
        running = [pool.submit(_run_by_id, c.id, scale, seed, out, teeth) for c in chosen]
        for done in as_completed(running):
            yield done.result()
    except BrokenProcessPool:
        raise ValueError(
            "a process that ran claims was ended from outside, perhaps for lack of memory; try --jobs 1."
        ) from None
    finally:
        # Nobody waits for claims that are still running when another one raised an error or Ctrl-C came.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - older:
            process.terminate()


def records_of_cluster(
    chosen: Sequence[Claim], scale: Scale, seed: int, out: Path, scheduler: str, teeth: bool = False
) -> Iterator[dict[str, Any]]:
    """The same on the workers of a Dask cluster; this process saves."""
    own = [c.id for c in chosen if not c.chapter]
    if own:
        raise ValueError(f"{own[0]} is a claim of your own, which the workers of a cluster cannot find.")
    with DaskCluster(scheduler) as cluster:
        for found in cluster.map(run_on_worker, [c.id for c in chosen], scale, seed, teeth):
            outcome = from_worker(found)
            save(outcome, out)
            yield record(outcome)


def _start() -> None:
    """Ctrl-C is for the process that started this one; warnings look as they do there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.showwarning = show_warning


def _run_by_id(id: str, scale: Scale, seed: int, out: Path, teeth: bool) -> dict[str, Any]:
    return _saved(claim(id), scale, seed, out, teeth)


def _saved(claim: Claim, scale: Scale, seed: int, out: Path, teeth: bool) -> dict[str, Any]:
    outcome = run_claim(claim, scale, seed, teeth)
    save(outcome, out)
    return record(outcome)
