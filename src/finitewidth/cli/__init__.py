"""The `finitewidth` command."""

import typer

from finitewidth.cli.console import fail
from finitewidth.cli.kernel import kernel
from finitewidth.cli.lab import lab
from finitewidth.cli.predict import predict
from finitewidth.cli.train_ensemble import train_ensemble
from finitewidth.cli.tune import tune

app = typer.Typer(
    name="finitewidth",
    help="The distribution of trained networks: kernels, critical points, and every theorem as a check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(predict)
app.command()(tune)
app.command()(kernel)
app.add_typer(lab)
app.command("train-ensemble")(train_ensemble)


def main() -> None:
    """Run the command; a wrong input becomes one sentence and exit code 2, never a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        fail(str(error))
