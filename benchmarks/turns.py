"""Two programs measured in turns, so that a change in the machine's load meets both alike.

Each contestant is a long-lived process that answers JSON requests line by line: `serve` is its side
of the conversation, `Contestant` the side of the benchmark. Only the standard library is used,
since `serve` also runs in the peers' environments.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent


class Timing(NamedTuple):
    """Seconds of repeated runs."""

    seconds: tuple

    @property
    def median(self):
        return statistics.median(self.seconds)

    @property
    def fastest(self):
        return min(self.seconds)

    def __str__(self):
        return (
            f"{show_seconds(self.median)} ({show_seconds(self.fastest)} to {show_seconds(max(self.seconds))})"
        )


def show_seconds(seconds):
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


class Contestant:
    """A process that runs one side of a comparison; use it as a context manager."""

    def __init__(self, python, script):
        self._process = subprocess.Popen(
            [str(python), str(_HERE / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        self._process.wait()

    def ask(self, request, **arguments):
        """Call the handler named `request` on the other side."""
        self._process.stdin.write(json.dumps([request, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args} ended during {request!r}.")
        return json.loads(answer)


def take_turns(*contestants, turns):
    """Time the prepared job of every contestant `turns` times, one after the other."""
    seconds = [[] for _ in contestants]
    for _ in range(turns):
        for own, contestant in zip(seconds, contestants, strict=True):
            own.append(contestant.ask("run"))
    return [Timing(tuple(own)) for own in seconds]


def serve(handlers):
    """Answer requests until the input ends; whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request, arguments = json.loads(line)
        answers.write(json.dumps(handlers[request](**arguments)) + "\n")
        answers.flush()
