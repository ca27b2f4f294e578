"""What `finitewidth kernel` reads and prints."""

from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.cli.console import note
from finitewidth.large.tiles import KernelTile
from finitewidth.statistics.wide.inputs import as_inputs
from finitewidth.tables.inputs import inputs_of
from finitewidth.tables.reading import read_table


class KernelSummary:
    """Ranges of the kernels, gathered tile by tile."""

    def __init__(self):
        self.ranges: dict[str, tuple[float, float]] = {}

    def add(self, tile: KernelTile, symmetric: bool) -> None:
        """Widen the ranges by one tile."""
        parts = {"NNGP K": tile.nngp, "NTK Theta": tile.ntk}
        if symmetric and tile.rows == tile.columns:
            parts |= {"K diagonal": np.diag(tile.nngp), "Theta diagonal": np.diag(tile.ntk)}
        for name, values in parts.items():
            low, high = self.ranges.get(name, (np.inf, -np.inf))
            self.ranges[name] = min(low, float(values.min())), max(high, float(values.max()))

    def table(self, net: Layer, first: np.ndarray, second, out: Path, seconds: float) -> Table:
        """The ranges, with the hyperparameters and the file below them."""
        net, columns = dense_stack(net), len(first) if second is None else len(second)
        table = Table(title=f"{net.activation.name}, depth {net.depth}: {len(first)} x {columns} kernels")
        table.add_column("")
        table.add_column("smallest", justify="right")
        table.add_column("largest", justify="right")
        for name, (low, high) in self.ranges.items():
            table.add_row(name, f"{low:.6g}", f"{high:.6g}")
        table.caption = Text(
            f"C_b = {float(net.C_b[0]):.6g}, C_W = {float(net.C_W[0]):.6g}; "
            f"{seconds:.1f} s, {out.stat().st_size / 1e6:.1f} MB in {out}"
        )
        return table


def load_inputs(
    inputs: str, test: str | None, target: str | None, dtype: str | None, net: Layer
) -> tuple[np.ndarray, np.ndarray | None]:
    """The inputs in a file and the test inputs, checked, in the precision asked for."""
    table = read_table(inputs)
    first = inputs_of(table, target)
    for remark in first.notes:
        note(remark)
    further = None if test is None else first.further(read_table(test, like=table))
    precise = lambda x: x if dtype is None else x.astype(dtype)
    return (
        np.asarray(as_inputs(inputs, precise(first.x), net)),
        None if further is None else np.asarray(as_inputs(str(test), precise(further), net)),
    )
