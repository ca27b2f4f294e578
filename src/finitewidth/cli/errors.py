"""One sentence for every error: what was wrong with the input, the system or this program."""

import contextlib
import dis
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import NoReturn

import typer

from finitewidth._base.characters import printable
from finitewidth.cli.console import fail, messages, say

BUG = 70  # the exit code that sysexits.h gives to errors of the program itself
INTERRUPTED = 128 + signal.SIGINT
# What ends a process politely (Ctrl-C, `kill`, a terminal that is closed), and what usually follows.
_ENDS = {
    signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL,
}  # fmt: skip

# Seconds in which a second signal is taken for the first.
_PATIENCE = 2.0

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_shown = {"traceback": False}


class Ended(BaseException):
    """Another process asked this one to end, by a signal."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def show_tracebacks(show: bool = True) -> None:
    """From now on print the traceback of an error before its sentence, or stop doing so."""
    _shown["traceback"] = show


def leave(error: BaseException) -> NoReturn:
    """Print the sentence for an error and exit: 2 for wrong input, 70 for a bug, 128 + n after signal n."""
    if _shown["traceback"]:
        sys.stderr.write(printable("".join(traceback.format_exception(error))))
    if isinstance(error, typer.TyperException):
        # "Value error, " are pydantic's words, which checks what Typer reads.
        words = " ".join(error.format_message().replace("Value error, ", "").split())
        # Without words the error is a command without arguments, whose help has been printed.
        if not words:
            sys.exit(error.exit_code)
        fail(_as_sentence(words))
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        _leave_at_once("interrupted.", INTERRUPTED)
    if isinstance(error, Ended):
        _leave_at_once(f"ended by {signal.Signals(error.number).name}.", 128 + error.number)
    ours = ValueError | TypeError | OSError | MemoryError | ModuleNotFoundError
    if isinstance(error, ours) and _said_by_us(error.__traceback__):
        fail(str(error))
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else "the system refused: "
        fail(f"{where}{error.strerror[0].lower()}{error.strerror[1:]}.")
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        fail("there is not enough memory for this: use fewer points, networks or neurons.")
    again = "" if _shown["traceback"] else "; run it again with --traceback and report what that prints"
    fail(f"this is a bug in finitewidth, not in your input ({_short(error)}){again}.", BUG)


def _leave_at_once(sentence: str, code: int) -> NoReturn:
    """Leave after a signal: Python would wait for compilations and trainings that nobody can stop."""
    with contextlib.suppress(OSError):
        # The terminal may be what is gone.
        say(messages, sentence, "error:", "bold red")
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the signals that end a process be exceptions, so that what is unfinished gets removed.

    One that came while Python was inside a callback, which swallows exceptions, is repeated.
    """
    report = sys.unraisablehook
    raised = -math.inf

    def end(number: int, frame: FrameType | None) -> None:
        # `timeout` sends a signal twice, and people hit keys twice: the second would stop the removal.
        nonlocal raised
        if time.monotonic() > raised + _PATIENCE:
            raised = time.monotonic()
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)

    def repeat(number: int) -> None:
        # Not in the main thread, where it would be swallowed again. A call of the system that is just
        # beginning sleeps on after the first signal, and wakes at the second.
        while raised == -math.inf:
            time.sleep(0.05)
            signal.pthread_kill(main, number)

    def hook(ignored) -> None:
        nonlocal raised
        if issubclass(ignored.exc_type, KeyboardInterrupt | Ended):
            raised = -math.inf
            number = ignored.exc_value.number if ignored.exc_type is Ended else signal.SIGINT
            threading.Thread(target=repeat, args=[number], daemon=True).start()
        else:
            report(ignored)

    main = threading.main_thread().ident or 0
    # `nohup` and the like have told this process to ignore one of them, and a program may have its own way.
    usual = {number: handler for number, handler in _ENDS.items() if signal.getsignal(number) is handler}
    if threading.get_ident() != main:
        usual = {}
    for number in usual:
        signal.signal(number, end)
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = report
        if raised == -math.inf:
            for number, handler in usual.items():
                signal.signal(number, handler)


def show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning of the package as one sentence, and others as Python does."""
    if issubclass(category, UserWarning):
        say(messages, str(message), "warning:", "yellow")
    else:
        sys.stderr.write(printable(warnings.formatwarning(message, category, filename, lineno, line)))


def _said_by_us(trace: TracebackType | None) -> bool:
    """Whether a `raise` statement of this package made the error, and not Python or another library."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    ours = os.path.abspath(code.co_filename).startswith(_PACKAGE + os.sep)
    return ours and dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def _as_sentence(words: str) -> str:
    return words[0].lower() + words[1:] + ("" if words.endswith((".", "?")) else ".")


def _short(error: BaseException) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}".rstrip(".") if first else type(error).__name__
