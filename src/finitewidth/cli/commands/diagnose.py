"""`finitewidth diagnose`: one page about a network that somebody already has."""

import json
from pathlib import Path
from typing import Annotated

import typer

from finitewidth.algorithms.optimizers import LIMITED
from finitewidth.cli import options
from finitewidth.cli.console import output, say
from finitewidth.report.directory import REPORT, check_directory, held_directory

# Names of measure.labels, without its imports.
LOSSES = ("cross_entropy", "mse")


def diagnose(
    model: Annotated[
        str,
        typer.Argument(
            help="Where your model is made: module:factory or path/to/file.py:factory. The factory returns a "
            "PyTorch module, a JAX model, or a pair of a model and its weights."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="A CSV, TSV, Parquet, XLSX or NPZ file (arrays x and y), or a built-in data set, say digits."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    checkpoint: Annotated[
        Path | None, options.path("--checkpoint", "Trained weights: .pt, or .npz, .msgpack, .eqx for JAX.")
    ] = None,
    start: Annotated[
        Path | None, options.path("--start", "Weights at the start of training, to see what training moved.")
    ] = None,
    learning_rate: Annotated[
        float | None, options.number("--lr", "Your learning rate, for the next steps of training.")
    ] = None,
    optimizer: Annotated[str, options.one_of("--optimizer", "Your optimiser.", LIMITED)] = "sgd",
    momentum: Annotated[
        float, options.number("--momentum", "Its momentum, or Adam's beta 1.", zero=True)
    ] = 0.9,
    loss: Annotated[
        str | None, options.one_of("--loss", "What training lowers; by the target if left out.", LOSSES)
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="Inputs as they are (none), each column to variance one (column), all by one factor "
            "(common), or divided by a number: as your network was trained."
        ),
    ] = "none",
    shape: Annotated[str | None, typer.Option(help="Shape of one input, such as 1x8x8 for images.")] = None,
    points: Annotated[int, options.whole_number("--points", "Rows to look at, at most.", 2)] = 256,
    out: Annotated[
        Path | None, options.path("--out", "Directory for the report; diagnose-NAME by default.")
    ] = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    force: options.Force = False,
    traceback: options.Traceback = False,
) -> None:
    """Say what is wrong with a network of yours, and what to change: signals, steps, kernel, classes."""
    directory = out or Path(f"diagnose-{Path(model.rpartition(':')[0]).stem or 'model'}")
    check_directory(directory, force)
    from finitewidth.advice.diagnosis.result import diagnosis_files
    from finitewidth.cli.diagnosis_job import diagnosis_table, layers_table, run_diagnosis

    with held_directory(directory, force) as write:
        found = run_diagnosis(
            model,
            data,
            target=target,
            checkpoint=checkpoint,
            start=start,
            loss=loss,
            scale=scale,
            shape=shape,
            learning_rate=learning_rate,
            optimizer=optimizer,
            momentum=momentum,
            points=points,
            seed=seed,
        )
        write(diagnosis_files(found))
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
        return
    output.print(layers_table(found))
    output.print(diagnosis_table(found))
    say(output, found.verdict, "verdict:", "bold red" if found.faults else "bold green")
    say(output, f"report: {directory / REPORT}")
