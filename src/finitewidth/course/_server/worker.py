"""The process that trains networks. It takes one job at a time and looks between pieces whether to go on."""

import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from finitewidth.course._server.state import State


def main(pipe: Connection, stopped: Any, jobs: Callable[[], dict[str, Callable]]) -> None:
    """Answer jobs until the server goes away: (number, name, arguments) in, (kind, number, value) out."""
    os.nice(5)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    known = jobs()
    try:
        while True:
            number, name, arguments = pipe.recv()
            for message in _done(known[name], arguments, lambda number=number: stopped.value >= number):
                pipe.send((message[0], number, message[1]))
    except (EOFError, OSError):
        # The server is gone.
        return


def _done(job: Callable, arguments: tuple, stop: Callable[[], bool]) -> Iterator[tuple[str, Any]]:
    """The pieces of a job, then how it ended. A job must never take the process down."""
    try:
        for piece in job(stop, *arguments):
            if stop():
                break
            yield "piece", piece
    except Stopped:
        pass
    except ValueError as error:
        yield "error", str(error)
        return
    except Exception as error:
        yield "error", f"the run failed ({type(error).__name__}: {error})"
        return
    yield "end", "stopped" if stop() else "done"


class Stopped(Exception):
    """The visitor has left while a stage was under way."""


def page_jobs() -> dict[str, Callable]:
    """The jobs of the lab: the experiment of a page, and a report about a visitor's table."""
    from finitewidth._base.programs import release_programs
    from finitewidth.course._server.pages import PAGES
    from finitewidth.course._server.tables import report
    from finitewidth.course._server.wire import plain

    def run(stop: Callable[[], bool], slug: str, state: State) -> Iterator[Any]:
        # Widths, depths and activations have programs of their own, and visitors try many.
        release_programs()
        experiment = PAGES[slug].experiment
        assert experiment is not None
        for piece in experiment.pieces(state):
            yield plain(piece)

    return {"run": run, "report": report}
