"""One process trains for all visitors: a short queue, a time limit, a memory limit, and results kept."""

import asyncio
import collections
import contextlib
import multiprocessing as mp
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from finitewidth.course._server.worker import main, page_jobs


class Limits(NamedTuple):
    """What the training process may use.

    A run is asked to stop after `seconds`; a process that has not stopped `grace` seconds later, or that
    holds more than `memory` bytes, is killed and replaced. `waiting` runs may wait; `kept` results are
    remembered.
    """

    seconds: float | int = 60.0
    grace: float | int = 15.0
    memory: int = 3 * 2**30
    waiting: int = 8
    kept: int = 32


class Busy(Exception):
    """Too many runs are waiting."""


class Runs:
    """The training process, the visitors that wait for it, and the results that it has found."""

    def __init__(self, limits: Limits | None = None, jobs: Callable[[], dict] = page_jobs):
        self.limits, self.jobs = limits or Limits(), jobs
        self.turn = asyncio.Lock()
        self.waiting = self.number = self.unfinished = 0
        self.kept: collections.OrderedDict[Any, list[dict]] = collections.OrderedDict()
        self.process: Any = None

    def start(self) -> None:
        """A fresh process; the old one, if any, is killed."""
        self.stop()
        context = mp.get_context("spawn")
        pipe, theirs = context.Pipe()
        self.pipe, self.stopped, self.unfinished = pipe, context.RawValue("q", self.number), 0
        self.process = context.Process(target=main, args=(theirs, self.stopped, self.jobs), daemon=True)
        self.process.start()
        theirs.close()
        self.inbox: asyncio.Queue = asyncio.Queue()
        loop, inbox = asyncio.get_running_loop(), self.inbox

        def read() -> None:
            with contextlib.suppress(EOFError, OSError, RuntimeError):
                while True:
                    loop.call_soon_threadsafe(inbox.put_nowait, pipe.recv())
            pipe.close()
            # RuntimeError: the loop has ended before the process did.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(inbox.put_nowait, ("gone", 0, None))

        threading.Thread(target=read, daemon=True).start()

    def stop(self) -> None:
        """End the process."""
        if self.process is None:
            return
        self.process.kill()
        self.process.join()
        self.process.close()
        self.process = None

    def memory(self) -> int:
        """Bytes that the process holds; 0 where the system does not tell."""
        with contextlib.suppress(OSError), open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0

    async def events(self, name: str, *arguments: Any, key: Any = None) -> AsyncGenerator[dict, None]:
        """What the visitor's stream says. Leaving the iterator, for any reason, stops the run.

        A result with a `key` is kept, and told again to whoever asks for it.
        """
        if key is not None and key in self.kept:
            self.kept.move_to_end(key)
            for event in self.kept[key]:
                yield event
            return
        if self.waiting >= self.limits.waiting:
            raise Busy
        self.waiting += 1
        try:
            if self.turn.locked():
                yield {"waiting": self.waiting}
            await self.turn.acquire()
        finally:
            self.waiting -= 1
        try:
            events = []
            async with contextlib.aclosing(self._run(name, arguments)) as source:
                async for event in source:
                    events.append(event)
                    yield event
                    if key is not None and event == {"end": "done"}:
                        self.kept[key] = [e for e in events if "piece" in e or "end" in e]
                        while len(self.kept) > self.limits.kept:
                            self.kept.popitem(last=False)
        finally:
            self.turn.release()

    async def _run(self, name: str, arguments: tuple) -> AsyncGenerator[dict, None]:
        await self._idle()
        self.number += 1
        number, began = self.number, time.monotonic()
        self.unfinished = number
        self.pipe.send((number, name, arguments))
        yield {"started": True}
        try:
            while self.unfinished == number:
                event = await self._next(number, began)
                if event:
                    yield event
        finally:
            if self.unfinished == number:
                self.stopped.value = number

    async def _next(self, number: int, began: float) -> dict | None:
        """The next event of the run, or that it is still alive; limits are looked at every half second."""
        limits, seconds = self.limits, time.monotonic() - began
        try:
            kind, whose, value = await asyncio.wait_for(self.inbox.get(), 0.5)
        except TimeoutError:
            kind, whose, value = "alive", number, round(seconds, 1)
        if kind == "gone":
            self.start()
            return {"error": "the training process ended unexpectedly."}
        if self.memory() > limits.memory:
            self.start()
            return {"error": f"the run needed more than {limits.memory / 2**30:.3g} GB and was ended."}
        if seconds > limits.seconds + limits.grace:
            self.start()
            return {"error": f"the run took longer than {limits.seconds:.3g} s and was ended."}
        if whose != number:
            return None
        if kind in ("end", "error"):
            self.unfinished = 0
            late = kind == "end" and value == "stopped"
            return {kind: f"the run was stopped after {limits.seconds:.3g} s." if late else value}
        if seconds > limits.seconds:
            self.stopped.value = number
        return {kind: value}

    async def _idle(self) -> None:
        """A process that waits for a job: the run of a visitor who has left may have to end first."""
        if self.process is None or not self.process.is_alive():
            return self.start()
        patience = time.monotonic() + self.limits.grace
        while self.unfinished:
            try:
                kind, whose, _ = await asyncio.wait_for(self.inbox.get(), patience - time.monotonic())
            except TimeoutError:
                return self.start()
            if kind == "gone":
                return self.start()
            if kind in ("end", "error") and whose == self.unfinished:
                self.unfinished = 0
        return None
