"""What `finitewidth tune` prints."""

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from finitewidth.advice.tuning.advice import Tuning


def print_tuning(advice: Tuning, code: str, output: Console) -> None:
    """The recommended setting, what it does to signals beside the frameworks' defaults, and code."""
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
