"""Where independent pieces of work run: threads of this process, or the workers of a Dask cluster.

A piece of work is a function and one small item. What it needs and what it makes lies in files that every
worker can reach, so that no array travels and nothing is lost with a worker.
"""

import asyncio
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

_CONNECT_SECONDS = 10
# The scheduler gives a task up when so many workers have died under it; the client then hands it in again.
_MOST_DEATHS = 5
_WAITING = 2_000


class Engine(ABC):
    """Runs a function on many items, `count` of them at a time; results come in any order."""

    count: int

    @abstractmethod
    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[Any]:
        """Yield `function(item, *shared)` for every item, as they are finished.

        The first error of the function ends the run: what was not begun by then never begins.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of threads or of the connection."""

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Threads(Engine):
    """Threads of this process; one for each core unless told otherwise."""

    def __init__(self, count: int | None = None):
        self.count = count or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self.count)

    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[Any]:
        waiting = iter(items)
        running = set()
        try:
            while True:
                # Two for each thread: an error stops the run soon.
                for item in waiting:
                    running.add(self._pool.submit(function, item, *shared))
                    if len(running) >= 2 * self.count:
                        break
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        finally:
            # What is under way still writes: an error is told when nothing does any more.
            wait([future for future in running if not future.cancel()])

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class DaskCluster(Engine):
    """The workers of a Dask scheduler, however they were started.

    Every task has a key of its own. A task whose workers die is handed in again, a few times.
    """

    def __init__(self, address: str, seconds: float | int = _CONNECT_SECONDS):
        self.address = address
        self._client = _client(address, seconds)
        self.count = sum(self._client.nthreads().values())

    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[Any]:
        from distributed import CancelledError, KilledWorker, as_completed
        from distributed.comm.core import CommClosedError

        run, waiting = uuid.uuid4().hex[:12], iter(enumerate(items))
        pending: dict[str, tuple[Any, Any]] = {}
        deaths: dict[str, int] = {}

        def submit(number: Any, item: Any) -> Any:
            future = self._client.submit(
                function, item, *shared, key=f"finitewidth-{run}-{number}", pure=False, retries=2
            )
            pending[future.key] = (future, item)
            return future

        first = [submit(number, item) for (number, item), _ in zip(waiting, range(_WAITING), strict=False)]
        finished = as_completed(first, loop=self._client.loop, raise_errors=False)
        try:
            for future in finished:
                _, item = pending.pop(future.key)
                try:
                    result = future.result()
                except CommClosedError:
                    pending.clear()
                    raise self._lost() from None
                except (KilledWorker, CancelledError) as error:
                    if self._client.status != "running" or "connection-lost" in str(error):
                        pending.clear()
                        raise self._lost() from None
                    again = deaths.get(repr(item), 0) + 1
                    deaths[repr(item)] = again
                    if again > _MOST_DEATHS:
                        raise RuntimeError(
                            f"{again} times the workers at {self.address} died under one piece of work, "
                            f"{item!r}: they may have too little memory for it."
                        ) from None
                    finished.add(submit(f"{uuid.uuid4().hex[:8]}-again", item))
                    continue
                for number, following in waiting:
                    finished.add(submit(number, following))
                    break
                yield result
        finally:
            if pending and self._client.status == "running":
                self._client.cancel([future for future, _ in pending.values()])

    def _lost(self) -> ConnectionError:
        return ConnectionError(
            f"the connection to the scheduler at {self.address} was lost; what was finished is kept: run it "
            "again with a scheduler that answers."
        )

    def close(self) -> None:
        self._client.close(timeout=2)


def engine_of(scheduler: str | None) -> Engine:
    """Threads, or the cluster at this address, such as tcp://10.0.0.1:8786."""
    return Threads() if scheduler is None else DaskCluster(scheduler)


def check_scheduler(scheduler: str | None) -> None:
    """Refuse an address where no scheduler with workers answers, before work is done that it would lose."""
    if scheduler is not None:
        engine_of(scheduler).close()


def _client(address: str, seconds: float | int) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise ModuleNotFoundError("a scheduler needs Dask: pip install 'finitewidth[scale]'.") from None
    try:
        # In a thread of its own, since a notebook's thread runs a loop already.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _greet(address, seconds)).result()
        client = Client(address, timeout=seconds, name="finitewidth", set_as_default=False)
    except Exception as error:
        # Whatever answers there may not speak Dask's language: its errors are of every kind.
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} within {seconds:g} seconds ({type(error).__name__}): "
            "start one with `dask scheduler`, or leave the scheduler out."
        ) from None
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        client.close(timeout=2)
        raise ConnectionError(
            f"the scheduler at {address} has no workers: start some with `dask worker {address}`."
        ) from None
    return client


async def _greet(address: str, seconds: float | int) -> None:
    """Ask a scheduler who it is: a client that fails on its way waits 20 seconds more when it is deleted."""
    from distributed import rpc

    scheduler = rpc(address, timeout=seconds)
    try:
        await asyncio.wait_for(scheduler.identity(), seconds)
    finally:
        await scheduler.close_rpc()
