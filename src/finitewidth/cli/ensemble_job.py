"""What `finitewidth train-ensemble` reads, chooses and prints."""

from pathlib import Path

import jax
import numpy as np
from rich.table import Table
from rich.text import Text

from finitewidth.architecture import MLP
from finitewidth.cli.arrays import load_array
from finitewidth.data import BUILT_IN, DataSet, as_classes, as_numbers, built_in, from_table
from finitewidth.networks.ensembles import Ensemble
from finitewidth.networks.tangent_kernel import empirical_ntk


def load_data(data: str, loss: str) -> DataSet:
    """A built-in data set or a table, its labels as the loss wants them."""
    whole = (
        built_in(data) if data in BUILT_IN or "." not in data else from_table(data, load_array(Path(data)))
    )
    if loss == "cross_entropy":
        return as_classes(whole)
    if loss == "mse":
        return as_numbers(whole)
    return whole if not whole.classes else whole._replace(y=whole.y.astype(float)[:, None])


def split(order: np.ndarray, train: int | None, test: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to test on."""
    count = (4 * len(order)) // 5 if train is None else train
    rest = len(order) - count if test is None else test
    if count < 1 or rest < 1 or count + rest > len(order):
        raise ValueError(
            f"--train {count} and --test {rest} points do not fit a data set of {len(order)} points."
        )
    return order[:count], order[count : count + rest]


def below_the_limit(net: MLP, key: jax.Array, x: np.ndarray) -> float:
    """Half of the largest stable step of one network, from the NTK of at most 500 training points."""
    shown = x[:500]
    kernel = np.asarray(empirical_ntk(net, net.init(key, x.shape[1]), shown))
    n_out, n = kernel.shape[0], kernel.shape[2]
    largest = np.linalg.eigvalsh(kernel.swapaxes(1, 2).reshape(n_out * n, n_out * n))[-1]
    # Beyond the points shown, the sum over points grows in proportion.
    return float(len(shown) / (len(x) * largest))


def ensemble_table(ensemble: Ensemble, whole: DataSet, test_rows: np.ndarray, learning_rate: float) -> Table:
    """Losses, errors and the spread of the networks."""
    table = Table(title=Text(f"{len(ensemble.outputs)} networks on {whole.name}"))
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
    return table
