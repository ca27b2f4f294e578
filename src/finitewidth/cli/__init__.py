"""The `finitewidth` command.

Nothing here imports JAX: a command imports what it needs when it runs, so that help, completion and the
refusal of wrong options are immediate.
"""

import gc
import io
import os
import sys
import warnings
from typing import Annotated

import typer

from finitewidth._base.programs import keep_programs
from finitewidth.cli.commands import add_commands
from finitewidth.cli.console import note, output, say
from finitewidth.cli.errors import INTERRUPTED, Ended, interruptible, leave, show_tracebacks, show_warning
from finitewidth.cli.help import Group
from finitewidth.cli.options import Traceback

app = typer.Typer(
    name="finitewidth",
    cls=Group,
    help="The distribution of trained networks: kernels, critical points, and every theorem as a check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
add_commands(app)


def _print_version(asked: bool) -> bool:
    if asked:
        import finitewidth

        say(output, f"finitewidth {finitewidth.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """Run the command; a wrong input becomes one sentence and exit code 2, never a traceback."""
    # Imports and traces make millions of objects that live to the end: looking through them for garbage at
    # Python's own pace takes a sixth of a short command.
    gc.set_threshold(200_000, 20, 20)
    show_tracebacks(os.environ.get("FINITEWIDTH_TRACEBACK", "0") not in ("", "0"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets its code instead of an error.
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        keep_programs(note)
        try:
            with interruptible():
                code = app(standalone_mode=False)
        except (Exception, KeyboardInterrupt, Ended) as error:
            leave(error)
    if code == INTERRUPTED:
        # Typer turns Ctrl-C into this exit code without a word.
        leave(KeyboardInterrupt())
    sys.exit(code or 0)
