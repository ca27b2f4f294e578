"""One sentence for every error: what was wrong with the input, the system or this program."""

import _thread
import contextlib
import dis
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import NoReturn

import typer

from finitewidth.cli.console import fail, messages, say

BUG = 70  # the exit code that sysexits.h gives to errors of the program itself
INTERRUPTED = 130

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_shown = {"traceback": False}


def show_tracebacks(show: bool = True) -> None:
    """From now on print the traceback of an error before its sentence, or stop doing so."""
    _shown["traceback"] = show


def leave(error: BaseException) -> NoReturn:
    """Print the sentence for an error and exit: 2 for wrong input, 70 for a bug, 130 when interrupted."""
    if _shown["traceback"]:
        traceback.print_exception(error)
    if isinstance(error, typer.TyperException):
        # "Value error, " are pydantic's words, which checks what Typer reads.
        words = " ".join(error.format_message().replace("Value error, ", "").split())
        # Without words the error is a command without arguments, whose help has been printed.
        if not words:
            sys.exit(error.exit_code)
        fail(_as_sentence(words))
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        _leave_at_once()
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


def _leave_at_once() -> NoReturn:
    """Leave after Ctrl-C: Python would wait for compilations and trainings that nobody can stop."""
    say(messages, "interrupted.", "error:", "bold red")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _interrupt() -> None:
    """Do what Ctrl-C does; a signal also wakes a thread that sleeps, where the system has signals."""
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGINT)
    else:
        _thread.interrupt_main()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Repeat a Ctrl-C that came while Python was inside a callback, which swallows exceptions."""
    report = sys.unraisablehook

    def hook(ignored) -> None:
        if ignored.exc_type is KeyboardInterrupt:
            # From another thread a little later, since here it would be swallowed again.
            again = threading.Timer(0.05, _interrupt)
            again.daemon = True
            again.start()
        else:
            report(ignored)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = report


def show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning of the package as one sentence, and others as Python does."""
    if issubclass(category, UserWarning):
        say(messages, str(message), "warning:", "yellow")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


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
