"""`finitewidth train-ensemble`: draw and train many networks on one data set."""

from pathlib import Path
from typing import Annotated

import typer

from finitewidth._base.engines import check_scheduler
from finitewidth.algorithms.optimizers import OPTIMIZER_NAMES
from finitewidth.cli import options
from finitewidth.cli.console import messages, output, say
from finitewidth.cli.outputs import check_folder, check_output

# Names of networks.losses and architecture.weights, without their imports.
LOSSES = ("mse", "cross_entropy", "logistic", "exponential")
WEIGHTS = ("gaussian", "uniform", "truncated", "orthogonal")


def train_ensemble(
    data: Annotated[
        str,
        typer.Argument(
            help="A CSV, TSV, Parquet, XLSX, NPY or NPZ file, or a built-in data set, such as diabetes."
        ),
    ],
    out: Annotated[Path, options.path("--out", "Where to write the result, an .npz file.")],
    target: Annotated[str | None, typer.Option(help="The column of labels; the last by default.")] = None,
    hidden: options.Hidden = "64x2",
    activation: options.Activation = "tanh",
    size: Annotated[int, options.whole_number("--size", "Number of networks.", 1, 10**9)] = 64,
    steps: Annotated[int, options.whole_number("--steps", "Optimiser steps.", 1, 10**9)] = 500,
    learning_rate: Annotated[
        float | None,
        options.number(
            "--learning-rate", "Global step; for sgd 1/lambda_max of one network's NTK by default."
        ),
    ] = None,
    optimizer: Annotated[str, options.one_of("--optimizer", "Rule for the steps.", OPTIMIZER_NAMES)] = "sgd",
    loss: Annotated[str, options.one_of("--loss", "What training lowers.", LOSSES)] = "mse",
    parametrisation: Annotated[str, typer.Option(help="ntk, standard, mean-field, mup or mup:BASE.")] = "ntk",
    weights: Annotated[
        str, options.one_of("--weights", "Draw of the initial weights.", WEIGHTS)
    ] = "gaussian",
    batch_size: Annotated[
        int | None, options.whole_number("--batch-size", "Points per step; all by default.")
    ] = None,
    train: Annotated[
        int | None, options.whole_number("--train", "Training points; four fifths by default.")
    ] = None,
    test: Annotated[int | None, options.whole_number("--test", "Test points; the rest by default.")] = None,
    seed: options.Seed = 0,
    directory: Annotated[
        Path | None, options.path("--directory", "Keep finished networks here, to continue later.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, options.whole_number("--checkpoint-every", "Networks between two writes there.")
    ] = None,
    memory: Annotated[int, options.whole_number("--memory", "Memory limit in MB.")] = 1024,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    traceback: options.Traceback = False,
) -> None:
    """Draw and train many networks on one data set, and write their outputs with all settings."""
    if out.suffix != ".npz":
        raise ValueError(f"--out {out} must end in .npz.")
    check_output(out, force, inputs=[Path(data)])
    widths = options.parse_hidden(hidden)
    if learning_rate is None and optimizer != "sgd":
        raise ValueError(f"--learning-rate is needed for the optimizer {optimizer!r}.")
    if directory is not None:
        check_folder(directory, "--directory")
    elif checkpoint_every is not None:
        raise ValueError(f"--checkpoint-every {checkpoint_every} needs a --directory to write to.")
    check_scheduler(scheduler)
    import jax
    import numpy as np

    from finitewidth.architecture.mlp import MLP
    from finitewidth.cli.ensemble_job import below_the_limit, ensemble_table, load_data, load_table, split
    from finitewidth.networks.training.ensembles import train_ensemble as run_ensemble

    table, label = load_table(data, target)
    split_key, ensemble_key = jax.random.split(jax.random.key(seed))
    order = np.asarray(jax.random.permutation(split_key, table.rows))
    train_rows, test_rows = split(order, train, test)
    whole = load_data(table, label, loss, train_rows)
    x, y = whole.x[train_rows], whole.y[train_rows]
    if batch_size is not None and batch_size > len(x):
        raise ValueError(f"--batch-size {batch_size} is more than the {len(x)} training points.")
    n_out = whole.classes or whole.y.shape[1]
    net = MLP(widths, activation, n_out=n_out, parametrisation=parametrisation)
    if learning_rate is None:
        learning_rate = below_the_limit(net, ensemble_key, x)
    ensemble = run_ensemble(
        net,
        ensemble_key,
        size,
        x,
        y,
        whole.x[test_rows],
        steps=steps,
        learning_rate=learning_rate,
        optimizer=optimizer,
        loss=loss,
        batch_size=batch_size,
        weights=weights,
        memory_limit=memory * 2**20,
        directory=directory,
        checkpoint_every=checkpoint_every,
        progress=not quiet,
        scheduler=scheduler,
    )
    source = {"data": whole.name, "seed": seed, "train": train_rows.tolist(), "test": test_rows.tolist()}
    ensemble._replace(settings={**source, **ensemble.settings}).save(out)
    output.print(ensemble_table(ensemble, whole, test_rows, learning_rate))
    say(messages, f"result: {out}")
