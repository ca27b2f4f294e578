"""What `finitewidth train-ensemble` reads, chooses and prints."""

import jax
import numpy as np
from rich.table import Table
from rich.text import Text

from finitewidth._base.arrays import as_matrix
from finitewidth.architecture.layer import Layer
from finitewidth.cli.console import note
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.training.ensembles import Ensemble
from finitewidth.tables.built_in_tables import BUILT_IN
from finitewidth.tables.columns import index_column
from finitewidth.tables.inputs import is_plain
from finitewidth.tables.preparation import Preparation
from finitewidth.tables.reading import read_table
from finitewidth.tables.sets import DataSet, as_classes, as_numbers
from finitewidth.tables.study.preparation import chosen_target, with_target
from finitewidth.tables.table import Table as DataTable
from finitewidth.tables.table import is_number


def load_table(data: str, target: str | None) -> tuple[DataTable, str]:
    """The rows of a table whose label is known, and the column that holds it: the last unless named."""
    table = read_table(data)
    notes = list(table.notes)
    if target is None and table.target is None:
        target = list(table.columns)[-1]
        notes.append(f"the last column of {table.name}, {target!r}, is taken for the label.")
    label = chosen_target(table, target, notes)
    table, _ = with_target(table, np.arange(1, table.rows + 1), label, notes)
    for remark in notes:
        note(remark)
    return table, label


def load_data(table: DataTable, label: str, loss: str, train: np.ndarray) -> DataSet:
    """Inputs prepared by the training rows, and labels as the loss wants them.

    Columns of plain numbers in a file enter as they are; those of built-in data sets are standardised.
    """
    features, values = table.without(label, index_column(table.without(label))), table.columns[label]
    if not features.columns:
        raise ValueError(f"{table.name} has no column beside the label {label!r} to learn from.")
    known = table.name in BUILT_IN
    if is_plain(features) and not known:
        x = np.stack(list(features.columns.values()), axis=1)
    else:
        x = Preparation.fit(features.take(train)).apply(features)
    if not is_number(values):
        y = np.unique(values.astype(str), return_inverse=True)[1].astype(np.int64)
    elif known:
        y = ((values - values[train].mean()) / values[train].std())[:, None]
    else:
        y = values[:, None]
    whole = DataSet(table.name, x, y)
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


def below_the_limit(net: Layer, key: jax.Array, x: np.ndarray) -> float:
    """Half of the largest stable step of one network, from the NTK of at most 500 training points."""
    shown = x[:500]
    kernel = np.asarray(empirical_ntk(net, net.init(key, x.shape[1]), shown))
    largest = np.linalg.eigvalsh(as_matrix(kernel))[-1]
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
