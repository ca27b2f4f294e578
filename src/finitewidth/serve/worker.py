"""The process that trains networks. It takes one run at a time and looks between pieces whether to go on."""

import os
import sys


def main(pipe, stopped) -> None:
    os.nice(5)
    sys.stdin.close()
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from finitewidth.serve.pages import PAGES
    from finitewidth.serve.wire import plain

    pipe.send(("ready", 0, None))
    while True:
        try:
            number, slug, state = pipe.recv()
        except EOFError:
            return
        try:
            for piece in PAGES[slug].experiment.pieces(state):
                if stopped.value >= number:
                    break
                pipe.send(("piece", number, plain(piece)))
            pipe.send(("end", number, "stopped" if stopped.value >= number else "done"))
        except Exception as error:  # a run must never take the worker down
            pipe.send(("error", number, f"{type(error).__name__}: {error}"[:300]))
