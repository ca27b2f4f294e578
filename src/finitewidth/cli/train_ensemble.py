"""`finitewidth train-ensemble`: draw and train many networks on one data set."""

from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from rich.table import Table

from finitewidth.architecture import MLP
from finitewidth.cli.arrays import check_output, load_array
from finitewidth.cli.console import messages, output, parse_hidden
from finitewidth.data import BUILT_IN, DataSet, as_classes, as_numbers, built_in, from_table
from finitewidth.networks.ensembles import Ensemble
from finitewidth.networks.ensembles import train_ensemble as run_ensemble
from finitewidth.networks.losses import as_loss
from finitewidth.networks.tangent_kernel import empirical_ntk


def train_ensemble(
    data: Annotated[str, typer.Argument(help=f"{', '.join(BUILT_IN)}, or a .csv or .npy table, label last.")],
    out: Annotated[Path, typer.Option(help="Where to write the result, an .npz file.")],
    hidden: Annotated[str, typer.Option(help="Hidden widths: 128x3, or 128,64.")] = "64x2",
    activation: Annotated[str, typer.Option(help="Name of the activation.")] = "tanh",
    size: Annotated[int, typer.Option(help="Number of networks.")] = 64,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 500,
    learning_rate: Annotated[
        float | None, typer.Option(help="Global step; for sgd 1/lambda_max of one network's NTK by default.")
    ] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam, sign or muon.")] = "sgd",
    loss: Annotated[
        str | None, typer.Option(help="mse, cross_entropy, logistic or exponential; mse by default.")
    ] = None,
    parametrisation: Annotated[str, typer.Option(help="ntk, standard, mean-field, mup or mup:BASE.")] = "ntk",
    weights: Annotated[str, typer.Option(help="gaussian, uniform, truncated or orthogonal.")] = "gaussian",
    batch_size: Annotated[int | None, typer.Option(help="Points per step; all by default.")] = None,
    train: Annotated[int | None, typer.Option(help="Training points; four fifths by default.")] = None,
    test: Annotated[int | None, typer.Option(help="Test points; the rest by default.")] = None,
    seed: Annotated[int, typer.Option(help="Decides about the split and all networks.")] = 0,
    directory: Annotated[
        Path | None, typer.Option(help="Keep finished networks here, to continue later.")
    ] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Networks between two writes there.")] = None,
    memory: Annotated[int, typer.Option(help="Memory limit in MB.")] = 1024,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing result.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Draw and train many networks on one data set, and write their outputs with all settings."""
    if out.suffix != ".npz":
        raise ValueError(f"--out {out} must end in .npz.")
    check_output(out, force)
    loss = as_loss("mse" if loss is None else loss).name
    whole = _load(data, loss)
    split_key, ensemble_key = jax.random.split(jax.random.key(seed))
    order = np.asarray(jax.random.permutation(split_key, len(whole.x)))
    train_rows, test_rows = _split(order, train, test)
    x, y = whole.x[train_rows], whole.y[train_rows]
    n_out = whole.classes or whole.y.shape[1]
    net = MLP(parse_hidden(hidden), activation, n_out=n_out, parametrisation=parametrisation)
    if learning_rate is None:
        learning_rate = _below_the_limit(net, ensemble_key, x, optimizer)
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
    )
    source = {"data": whole.name, "seed": seed, "train": train_rows.tolist(), "test": test_rows.tolist()}
    ensemble._replace(settings={**source, **ensemble.settings}).save(out)
    _print(ensemble, whole, test_rows, learning_rate)
    messages.print(f"result: {out}")


def _load(data: str, loss: str) -> DataSet:
    whole = (
        built_in(data) if data in BUILT_IN or "." not in data else from_table(data, load_array(Path(data)))
    )
    if loss == "cross_entropy":
        return as_classes(whole)
    if loss == "mse":
        return as_numbers(whole)
    return whole if not whole.classes else whole._replace(y=whole.y.astype(float)[:, None])


def _split(order: np.ndarray, train: int | None, test: int | None) -> tuple[np.ndarray, np.ndarray]:
    count = (4 * len(order)) // 5 if train is None else train
    rest = len(order) - count if test is None else test
    if count < 1 or rest < 1 or count + rest > len(order):
        raise ValueError(
            f"{count} training and {rest} test points do not fit a data set of {len(order)} points."
        )
    return order[:count], order[count : count + rest]


def _below_the_limit(net: MLP, key: jax.Array, x: np.ndarray, optimizer: str) -> float:
    """Half of the largest stable step of one network, from the NTK of at most 500 training points."""
    if optimizer != "sgd":
        raise ValueError(f"--learning-rate is needed for the optimizer {optimizer!r}.")
    shown = x[:500]
    kernel = np.asarray(empirical_ntk(net, net.init(key, x.shape[1]), shown))
    n_out, n = kernel.shape[0], kernel.shape[2]
    largest = np.linalg.eigvalsh(kernel.swapaxes(1, 2).reshape(n_out * n, n_out * n))[-1]
    # Beyond the points shown, the sum over points grows in proportion.
    return float(len(shown) / (len(x) * largest))


def _print(ensemble: Ensemble, whole: DataSet, test_rows: np.ndarray, learning_rate: float) -> None:
    table = Table(title=f"{len(ensemble.outputs)} networks on {whole.name}")
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_row("learning rate", f"{learning_rate:.4g}")
    table.add_row("training loss, start", f"{ensemble.losses[:, 0].mean():.5g}")
    table.add_row("training loss, end", f"{ensemble.losses[:, -1].mean():.5g}")
    labels = whole.y[test_rows]
    if ensemble.outputs.shape[2] > 1:
        classes = labels if labels.ndim == 1 else labels.argmax(axis=1)
        table.add_row("test accuracy of one network", f"{(ensemble.outputs.argmax(2) == classes).mean():.4f}")
        table.add_row("test accuracy of their mean", f"{(ensemble.mean.argmax(1) == classes).mean():.4f}")
    else:
        error = ensemble.outputs - labels.reshape(1, -1, 1)
        table.add_row("test error of one network", f"{np.sqrt((error**2).mean()):.5g}")
        table.add_row("test error of their mean", f"{np.sqrt((error.mean(0) ** 2).mean()):.5g}")
    table.add_row(
        "spread of the networks",
        f"{ensemble.outputs.std(0, ddof=1).mean() if len(ensemble.outputs) > 1 else 0:.5g}",
    )
    output.print(table)
