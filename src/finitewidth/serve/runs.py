"""One process trains for all visitors: a short queue, a time limit, a memory limit, and results kept."""

import asyncio
import collections
import contextlib
import multiprocessing as mp
import os
import threading
import time
from collections.abc import AsyncIterator

MOST_WAITING = 8
SECONDS = 60.0
GRACE = 15.0
MEMORY = 3 * 2**30
KEPT = 32


class Busy(Exception):
    """Too many runs are waiting."""


class Runs:
    def __init__(self):
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.number = 0
        self.kept: collections.OrderedDict[tuple, list[dict]] = collections.OrderedDict()
        self.process = None

    def start(self) -> None:
        """A fresh worker; the old one, if any, is killed."""
        from finitewidth.serve.worker import main

        context = mp.get_context("spawn")
        self.stop()
        self.pipe, theirs = context.Pipe()
        self.stopped = context.Value("q", self.number)
        self.process = context.Process(target=main, args=(theirs, self.stopped), daemon=True)
        self.process.start()
        theirs.close()
        self.inbox: asyncio.Queue = asyncio.Queue()
        loop, pipe, inbox = asyncio.get_running_loop(), self.pipe, self.inbox

        def read() -> None:
            with contextlib.suppress(EOFError, OSError, RuntimeError):
                while True:
                    message = pipe.recv()
                    loop.call_soon_threadsafe(inbox.put_nowait, message)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(inbox.put_nowait, ("gone", 0, None))

        threading.Thread(target=read, daemon=True).start()

    def stop(self) -> None:
        if self.process is not None and self.process.is_alive():
            self.process.kill()
            self.process.join(5)

    def memory(self) -> int:
        with contextlib.suppress(OSError), open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0

    async def events(self, slug: str, state: dict) -> AsyncIterator[dict]:
        """What the visitor's stream says. Leaving the iterator, for any reason, stops the run."""
        key = (slug, *sorted(state.items()))
        if key in self.kept:
            for event in self.kept[key]:
                yield event
            return
        if self.waiting >= MOST_WAITING:
            raise Busy
        self.waiting += 1
        try:
            if self.turn.locked():
                yield {"waiting": self.waiting - 1}
            await self.turn.acquire()
        finally:
            self.waiting -= 1
        try:
            async for event in self._run(slug, state, key):
                yield event
        finally:
            self.turn.release()

    async def _run(self, slug: str, state: dict, key: tuple) -> AsyncIterator[dict]:
        if self.process is None or not self.process.is_alive():
            self.start()
        self.number += 1
        number, began, events, finished = self.number, time.monotonic(), [], False
        self.pipe.send((number, slug, state))
        yield {"started": True}
        try:
            while True:
                try:
                    kind, whose, value = await asyncio.wait_for(self.inbox.get(), 0.5)
                except TimeoutError:
                    if self.memory() > MEMORY:
                        self.start()
                        yield {"error": f"the run needed more than {MEMORY >> 30} GB and was ended."}
                        return
                    if time.monotonic() - began > SECONDS + GRACE:
                        self.start()
                        yield {"error": f"the run took longer than {SECONDS:.0f} s and was ended."}
                        return
                    yield {"alive": round(time.monotonic() - began, 1)}
                    continue
                if kind == "gone":
                    finished = True
                    self.start()
                    yield {"error": "the training process ended unexpectedly."}
                    return
                if whose != number:
                    continue
                if kind == "piece":
                    events.append({"piece": value})
                    yield events[-1]
                    if time.monotonic() - began > SECONDS:
                        self.stopped.value = number
                else:
                    finished = True
                    events.append({"end": value} if kind == "end" else {"error": value})
                    if value == "done":
                        self.kept[key] = events
                        while len(self.kept) > KEPT:
                            self.kept.popitem(last=False)
                    yield events[-1]
                    return
        finally:
            if not finished:
                self.stopped.value = max(self.stopped.value, number)
