"""Checks of a training set."""

import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.checks import as_targets
from finitewidth.statistics.wide.inputs import ArrayLike

Start = Callable[[Array], Array] | tuple[ArrayLike, ArrayLike]


def warn_of_few_rows(y: Float[Array, "train out"]) -> None:
    """Warn of a training set that has an answer but is rarely meant."""
    rows, outputs = y.shape
    if rows == 1:
        warnings.warn(
            "x_train has one row: the prediction is a multiple of its label, at every test point.",
            stacklevel=3,
        )
    elif outputs > rows:
        warnings.warn(
            f"y_train has more outputs (classes) than rows, {outputs} against {rows}: "
            "some classes have no example, or rows and columns were exchanged.",
            stacklevel=3,
        )


def starting_outputs(
    initial: Start, x_train: Float[Array, "train ..."], x_test: Float[Array, "test ..."], out: int
) -> tuple[Float[Array, "train out"], Float[Array, "test out"]]:
    """Outputs of a given starting function on the training and the test points."""
    pair = (initial(x_train), initial(x_test)) if callable(initial) else initial
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        given = f"{len(pair)} arrays" if isinstance(pair, tuple | list) else f"{pair!r}"
        raise ValueError(f"initial must be a function, or its outputs on (x_train, x_test), got {given}.")
    at_train, at_test = (
        as_targets(f, len(x), x_train.dtype, f"initial on {name}")
        for f, x, name in zip(pair, (x_train, x_test), ("x_train", "x_test"), strict=True)
    )
    for f in (at_train, at_test):
        if f.shape[1] != out:
            raise ValueError(f"initial has {f.shape[1]} outputs and y_train has {out}; they must agree.")
    return at_train, at_test


def first_duplicate(x: Float[np.ndarray | Array, "n ..."]) -> tuple[int, int] | None:
    """The first row that repeats an earlier one, as (earlier, later)."""
    rows = np.ascontiguousarray(np.asarray(x) + 0.0).reshape(len(x), -1)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    earlier = first[group]
    later = np.flatnonzero(earlier != np.arange(len(rows)))
    return (int(earlier[later[0]]), int(later[0])) if len(later) else None
