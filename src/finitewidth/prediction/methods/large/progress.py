"""What is being done, how far it is, and how long it will still take."""

import time
from collections.abc import Callable

Announce = Callable[[str], None]


def silent(words: str) -> None:
    """Say nothing."""


class Stages:
    """Seconds of each stage, by the clock and by the processor, and words for who watches."""

    def __init__(self, announce: Announce = silent):
        self.announce = announce
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self._name, self._began = "", (0.0, 0.0)

    def begin(self, name: str) -> None:
        """End the stage before, and start one."""
        self.end()
        self._name, self._began = name, (time.perf_counter(), time.process_time())
        self.announce(name)

    def end(self) -> None:
        """End the stage under way."""
        if self._name:
            now = time.perf_counter(), time.process_time()
            for kept, at, began in zip((self.seconds, self.cpu_seconds), now, self._began, strict=True):
                kept[self._name] = kept.get(self._name, 0.0) + at - began
        self._name = ""

    def done(self, share: float, words: str = "") -> None:
        """Say which share of the stage is done."""
        taken = time.perf_counter() - self._began[0]
        left = f", {_clock(taken * (1 - share) / share)} left" if 0 < share < 1 else ""
        self.announce(f"{self._name}: {100 * min(share, 1):.0f} %{left}{words}")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
