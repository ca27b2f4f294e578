"""`finitewidth kernel`: kernels of the inputs in a file."""

import time
from pathlib import Path
from typing import Annotated

import typer

from finitewidth.cli import options
from finitewidth.cli.console import messages, output
from finitewidth.cli.outputs import check_output


def kernel(
    inputs: Annotated[
        str,
        typer.Argument(help="Inputs: a CSV, TSV, Parquet, XLSX, NPY or NPZ file, or a built-in data set."),
    ],
    hidden: options.Hidden,
    out: Annotated[Path, options.path("--out", "Where to write the .npz file.")],
    activation: options.Activation = "relu",
    test: Annotated[str | None, typer.Option(help="Test inputs: the kernel is then test by inputs.")] = None,
    target: Annotated[str | None, typer.Option(help="A column that is no input.")] = None,
    bias_variance: options.BiasVariance = None,
    weight_variance: options.WeightVariance = None,
    dtype: Annotated[
        str | None, options.one_of("--dtype", "Precision; as in the file by default.", ("float32", "float64"))
    ] = None,
    tolerance: Annotated[
        float | None, options.number("--tolerance", "Accuracy for activations without a closed form.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    traceback: options.Traceback = False,
) -> None:
    """Compute the NNGP kernel and the NTK of the inputs in a file, in bounded memory."""
    widths = options.parse_hidden(hidden)
    options.check_variances(bias_variance, weight_variance)
    check_output(out, force, inputs=[Path(name) for name in (inputs, test) if name is not None])
    from rich.progress import Progress

    from finitewidth.architecture.mlp import MLP
    from finitewidth.cli.kernel_summary import KernelSummary, load_inputs
    from finitewidth.large.storage import write_kernels
    from finitewidth.large.tiles import KernelTile, tile_count

    net = MLP(widths, activation, bias_variance, weight_variance)
    x, t = load_inputs(inputs, test, target, dtype, net)
    first, second = (x, None) if t is None else (t, x)
    summary = KernelSummary()
    started = time.perf_counter()
    with Progress(console=messages, transient=True, disable=not messages.is_terminal) as progress:
        task = progress.add_task(
            "kernels", total=tile_count(len(first), None if second is None else len(second))
        )

        def on_tile(tile: KernelTile) -> None:
            summary.add(tile, symmetric=second is None)
            progress.advance(task)

        write_kernels(out, net, first, second, tolerance=tolerance, on_tile=on_tile)
    seconds = time.perf_counter() - started
    output.print(summary.table(net, first, second, out, seconds))
