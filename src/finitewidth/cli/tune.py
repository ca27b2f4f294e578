"""`finitewidth tune`: how to initialise and train a network."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from finitewidth.cli.arrays import check_output, load_array
from finitewidth.cli.console import messages, output
from finitewidth.tuning import Tuning
from finitewidth.tuning import tune as advise


def tune(
    activation: Annotated[str, typer.Option(help="Name of the activation.")],
    depth: Annotated[int, typer.Option(help="Number of affine layers.")],
    width: Annotated[int, typer.Option(help="Width of the hidden layers.")],
    data: Annotated[
        Path | None, typer.Option(help="Training inputs, (points, features), as .npy or .csv.")
    ] = None,
    n_in: Annotated[
        int | None, typer.Option("--inputs", help="Number of inputs, when there is no data.")
    ] = None,
    n_out: Annotated[int, typer.Option("--outputs", help="Number of outputs.")] = 1,
    bias_variance: Annotated[
        float | None, typer.Option("--C-b", help="Judge your own bias variance instead.")
    ] = None,
    weight_variance: Annotated[
        float | None, typer.Option("--C-W", help="Judge your own weight variance times fan-in instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Where to write a picture, say tune.png.")] = None,
    code: Annotated[str, typer.Option(help="Code to print: pytorch, jax, both or none.")] = "pytorch",
) -> None:
    """Say how to initialise and train a network, and what the frameworks' defaults would do to it."""
    if code not in ("pytorch", "jax", "both", "none"):
        raise ValueError(f"--code must be pytorch, jax, both or none, got {code!r}.")
    if plot is not None:
        check_output(plot, force=True)
    x = None if data is None else load_array(data)
    advice = advise(
        activation, depth, width, x, n_in=n_in, n_out=n_out, C_b=bias_variance, C_W=weight_variance
    )
    if as_json:
        print(json.dumps(advice.to_dict(), indent=2))
    else:
        _print(advice, code)
    if plot is not None:
        from finitewidth.report.figures import save_figure, tuning_figure

        save_figure(tuning_figure(advice), plot)
        messages.print(f"picture: {plot}")


def _print(advice: Tuning, code: str) -> None:
    net = advice.net
    table = Table(
        title=f"{net.activation.name}, depth {net.depth}, width {net.hidden[0] if net.hidden else '-'}"
    )
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("why")
    points = f"{advice.points} point{'s' if advice.points > 1 else ''}"
    table.add_row("C_b", f"{float(net.C_b[0]):.8g}", "variance of the biases")
    table.add_row("C_W", f"{float(net.C_W[0]):.8g}", "variance of the weights times fan-in")
    table.add_row("", "", advice.reason)
    table.add_row("lambda_b", _range(net.lambda_b), "bias learning rates, first to last layer")
    table.add_row("lambda_W", _range(net.lambda_W), "weight learning rates times fan-in: equal NTK shares")
    table.add_row(
        "largest eta", f"{advice.eta_max:.4g}", f"2 / lambda_max of the NTK, {points}, sum of squares"
    )
    table.add_row("depth / width", f"{advice.aspect_ratio:.3g}", advice.verdict)
    table.add_row(
        "best depth / width", f"{advice.optimal_aspect_ratio:.3g}", "outputs share most information"
    )
    output.print(table)
    signals = Table(title="At the last layer, infinite width")
    signals.add_column("initialisation")
    signals.add_column("signal variance", justify="right")
    signals.add_column("gradient at layer 1", justify="right")
    signals.add_column("correlation of orthogonal inputs", justify="right")
    for name, p in advice.signals.items():
        signals.add_row(name, f"{p.variance[-1]:.3g}", f"{p.gradient[0]:.3g}", f"{p.correlation:.4f}")
    output.print(signals)
    for name, text in (("pytorch", advice.pytorch), ("jax", advice.jax)):
        if code in (name, "both"):
            output.print(Panel(Syntax(text, "python", background_color="default"), title=name))


def _range(rates) -> str:
    first, last = float(rates[0]), float(rates[-1])
    return f"{first:.3g}" if first == last else f"{first:.3g} ... {last:.3g}"
