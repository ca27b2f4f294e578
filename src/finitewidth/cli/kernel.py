"""`finitewidth kernel`: kernels of the inputs in a file."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import Progress
from rich.table import Table

from finitewidth.architecture import MLP
from finitewidth.cli.arrays import check_output, load_array
from finitewidth.cli.console import messages, output, parse_hidden
from finitewidth.scale.storage import write_kernels
from finitewidth.scale.tiles import KernelTile, tile_count
from finitewidth.statistics.inputs import as_inputs


def kernel(
    inputs: Annotated[Path, typer.Argument(help="Inputs, (points, features), as .npy or .csv.")],
    hidden: Annotated[str, typer.Option(help="Hidden layers: 512x10 (ten of 512) or 128,64,32.")],
    out: Annotated[Path, typer.Option(help="Where to write the .npz file.")],
    activation: Annotated[str, typer.Option(help="Name of the activation.")] = "relu",
    test: Annotated[Path | None, typer.Option(help="Test inputs: the kernel is then test by inputs.")] = None,
    bias_variance: Annotated[
        float | None, typer.Option("--C-b", help="Bias variance; critical by default.")
    ] = None,
    weight_variance: Annotated[
        float | None, typer.Option("--C-W", help="Weight variance times fan-in; critical by default.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or float64; that of the file by default.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Accuracy for activations without a closed form.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
) -> None:
    """Compute the NNGP kernel and the NTK of the inputs in a file, in bounded memory."""
    net = MLP(parse_hidden(hidden), activation, bias_variance, weight_variance)
    x = _load(inputs, dtype, net)
    t = None if test is None else _load(test, dtype, net)
    check_output(out, force)
    first, second = (x, None) if t is None else (t, x)
    summary = _Summary()
    started = time.perf_counter()
    with Progress(console=messages, transient=True) as progress:
        task = progress.add_task(
            "kernels", total=tile_count(len(first), None if second is None else len(second))
        )

        def on_tile(tile: KernelTile) -> None:
            summary.add(tile, symmetric=second is None)
            progress.advance(task)

        write_kernels(out, net, first, second, tolerance=tolerance, on_tile=on_tile)
    seconds = time.perf_counter() - started
    output.print(summary.table(net, first, second, out, seconds))


class _Summary:
    """Ranges of the kernels, gathered tile by tile."""

    def __init__(self):
        self.ranges: dict[str, tuple[float, float]] = {}

    def add(self, tile: KernelTile, symmetric: bool) -> None:
        parts = {"NNGP K": tile.nngp, "NTK Theta": tile.ntk}
        if symmetric and tile.rows == tile.columns:
            parts |= {"K diagonal": np.diag(tile.nngp), "Theta diagonal": np.diag(tile.ntk)}
        for name, values in parts.items():
            low, high = self.ranges.get(name, (np.inf, -np.inf))
            self.ranges[name] = min(low, float(values.min())), max(high, float(values.max()))

    def table(self, net: MLP, first: np.ndarray, second, out: Path, seconds: float) -> Table:
        columns = len(first) if second is None else len(second)
        table = Table(title=f"{net.activation.name}, depth {net.depth}: {len(first)} x {columns} kernels")
        table.add_column("")
        table.add_column("smallest", justify="right")
        table.add_column("largest", justify="right")
        for name, (low, high) in self.ranges.items():
            table.add_row(name, f"{low:.6g}", f"{high:.6g}")
        table.caption = (
            f"C_b = {float(net.C_b[0]):.6g}, C_W = {float(net.C_W[0]):.6g}; "
            f"{seconds:.1f} s, {out.stat().st_size / 1e6:.1f} MB in {out}"
        )
        return table


def _load(path: Path, dtype: str | None, net: MLP) -> np.ndarray:
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"--dtype must be float32 or float64, got {dtype!r}.")
    x = load_array(path)
    return np.asarray(as_inputs(str(path), x if dtype is None else x.astype(dtype), net))
