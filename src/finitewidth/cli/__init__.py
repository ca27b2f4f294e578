"""The `finitewidth` command."""

import sys

import click
import typer

from finitewidth.cli.console import fail

app = typer.Typer(
    name="finitewidth",
    help="The distribution of trained networks: kernels, critical initialisation, and every theorem as a check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command; a wrong input becomes one sentence and exit code 2, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except click.exceptions.Abort:
        fail("interrupted.", code=130)
    except click.ClickException as error:
        fail(error.format_message())
    except (ValueError, TypeError, OSError) as error:
        fail(str(error))
    else:
        sys.exit(code if isinstance(code, int) else 0)
