"""`finitewidth tune`: how to initialise and train a network."""

import json
from pathlib import Path
from typing import Annotated

import typer

from finitewidth.cli import options
from finitewidth.cli.console import messages, note, output, say
from finitewidth.cli.outputs import check_output


def tune(
    activation: options.Activation,
    depth: Annotated[
        int,
        options.whole_number(
            "--depth", "Number of affine layers; with --residual of blocks.", 1, options.MOST_LAYERS
        ),
    ],
    width: Annotated[
        int, options.whole_number("--width", "Width of the hidden layers.", 1, options.LARGEST_WIDTH)
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="Training inputs: a CSV, TSV, Parquet, XLSX, NPY or NPZ file, or a built-in data set."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="A column of the data that is no input.")] = None,
    n_in: Annotated[
        int | None, options.whole_number("--inputs", "Number of inputs, when there is no data.")
    ] = None,
    n_out: Annotated[int, options.whole_number("--outputs", "Number of outputs.")] = 1,
    bias_variance: Annotated[
        float | None, options.number("--C-b", "Judge your own bias variance instead.", zero=True)
    ] = None,
    weight_variance: Annotated[
        float | None, options.number("--C-W", "Judge your own weight variance times fan-in instead.")
    ] = None,
    residual: Annotated[
        bool, typer.Option("--residual", help="A residual network with one dense layer in every block.")
    ] = False,
    norm: Annotated[
        str, options.one_of("--norm", "Layer norms of a residual network.", ("none", "pre", "post"))
    ] = "none",
    optimizer: Annotated[
        str, options.one_of("--optimizer", "Of the code for a residual network.", ("sgd", "adam", "muon"))
    ] = "sgd",
    scaling: Annotated[
        str, options.one_of("--scaling", "Of its learning rates with width.", ("standard", "mup"))
    ] = "standard",
    as_json: options.Json = False,
    plot: Annotated[Path | None, options.path("--plot", "Where to write a picture, say tune.png.")] = None,
    code: Annotated[
        str, options.one_of("--code", "Code to print.", ("pytorch", "jax", "both", "none"))
    ] = "pytorch",
    traceback: options.Traceback = False,
) -> None:
    """Say how to initialise and train a network, and what the frameworks' defaults would do to it."""
    options.check_variances(bias_variance, weight_variance)
    if residual and bias_variance is not None:
        raise ValueError("--C-b and --C-W judge a network without --residual: leave them out.")
    if not residual and (norm, optimizer, scaling) != ("none", "sgd", "standard"):
        raise ValueError("--norm, --optimizer and --scaling are for residual networks: add --residual.")
    if data is not None and n_in is not None:
        raise ValueError(f"--inputs {n_in} and --data {data} exclude each other: the data have their inputs.")
    if plot is not None:
        from finitewidth.advice.tuning.figures import picture_format

        picture_format(check_output(plot, force=True, option="--plot"))
    from finitewidth.advice.tuning.advice import tune as advise
    from finitewidth.cli.tuning_tables import print_tuning
    from finitewidth.tables.inputs import inputs_of
    from finitewidth.tables.reading import read_table

    inputs = None if data is None else inputs_of(read_table(data), target)
    for remark in () if inputs is None else inputs.notes:
        note(remark)
    x = None if inputs is None else inputs.x
    if residual:
        from finitewidth.cli.residual_job import tune_residual_network

        tune_residual_network(
            activation, depth, width, x, norm, n_in, n_out, optimizer, scaling, as_json, plot, code
        )
        return
    advice = advise(
        activation, depth, width, x, n_in=n_in, n_out=n_out, C_b=bias_variance, C_W=weight_variance
    )
    if as_json:
        print(json.dumps(advice.to_dict(), indent=2))
    else:
        print_tuning(advice, code, output)
    if plot is not None:
        from finitewidth.advice.tuning.figures import save_figure, tuning_figure

        save_figure(tuning_figure(advice), plot)
        say(messages, f"picture: {plot}")
