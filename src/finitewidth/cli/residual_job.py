"""What `finitewidth tune --residual` does and prints."""

import json
import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from finitewidth.advice.tuning.residual import ResidualTuning, tune_residual
from finitewidth.advice.tuning.residual_code import Framework
from finitewidth.cli.console import messages, output, say

_PROGRAMS: tuple[tuple[str, str, Framework], ...] = (
    ("pytorch", "pytorch", "pytorch"),
    ("jax", "flax and optax", "flax"),
)


def tune_residual_network(
    activation: str,
    blocks: int,
    width: int,
    x: Any,
    norm: Any,
    n_in: int | None,
    n_out: int,
    optimizer: Any,
    scaling: Any,
    as_json: bool,
    plot: Path | None,
    code: str,
) -> None:
    """Advise, print and draw."""
    advice = tune_residual(activation, blocks, width, x, norm=norm, n_in=n_in, n_out=n_out)
    programs = {
        title: advice.code(framework, optimizer, scaling)
        for name, title, framework in _PROGRAMS
        if code in (name, "both")
    }
    if as_json:
        print(json.dumps(advice.to_dict() | {"code": programs}, indent=2))
    else:
        print_residual_tuning(advice, advice.rates(optimizer, scaling), output)
        for title, text in programs.items():
            output.print(Panel(Syntax(text, "python", background_color="default"), title=title))
    if plot is not None:
        from finitewidth.advice.tuning.figures import save_figure
        from finitewidth.advice.tuning.residual_figure import residual_tuning_figure

        save_figure(residual_tuning_figure(advice), plot)
        say(messages, f"picture: {plot}")


def print_residual_tuning(advice: ResidualTuning, rates: dict[str, float], output: Console) -> None:
    """The advice with its reasons, learning rates by group, and what defaults would do."""
    placed = {"none": "no norm", "pre": "pre-norm", "post": "post-norm"}[advice.norm]
    shape = f"{advice.blocks} residual blocks of {advice.width}"
    table = Table(title=f"{advice.activation.name}, {shape}, {placed}")
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("why")
    points = f"{advice.points} point{'s' if advice.points > 1 else ''}"
    table.add_row("branch scale", f"{advice.branch_scale:.4g}", advice.reasons["branch scale"])
    table.add_row("C_b", f"{advice.C_b:.6g}", "variance of the biases in the branches")
    table.add_row("C_W", f"{advice.C_W:.6g}", "variance of the weights in the branches, times fan-in")
    table.add_row("", "", advice.reasons["initialisation"])
    why = f"2 / lambda_max of the NTK, {points}, sum of squares"
    table.add_row("largest eta", f"{advice.eta_max:.4g}", why)
    depth = advice.depth
    if depth is None:
        table.add_row("fluctuation", "-", advice.verdict)
    else:
        most = "any" if math.isinf(depth.most_blocks) else f"{depth.most_blocks:.0f}"
        table.add_row("most blocks", most, advice.verdict)
        table.add_row(
            "least width", f"{depth.least_width}", f"for {advice.blocks} blocks, by the same measure"
        )
        table.add_row(
            "signal varies", f"{depth.signal:.3g}", "relative variance between networks, V / (n K^2)"
        )
        table.add_row("NTK varies", f"{depth.ntk:.3g}", "the same of the NTK at one input")
    for name, rate in rates.items():
        table.add_row(f"rate: {name}", f"{rate:.4g}", "")
    output.print(table)
    signals = Table(title="Across the blocks, infinite width")
    for column in ("initialisation", "stream variance, last / first", "squared gradient, first / last"):
        signals.add_column(column, justify="left" if column == "initialisation" else "right")
    for name, s in advice.signals.items():
        growth, back = s.variance[-1] / s.variance[0], s.gradient[0] / s.gradient[-1]
        signals.add_row(name, f"{growth:.3g}", f"{back:.3g}")
    output.print(signals)
