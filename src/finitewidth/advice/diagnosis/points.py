"""Which of the points to look at."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Int


def some_points(x: Any, y: Any, most: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """At most so many points, in a random order; every class keeps its share of them."""
    count = len(jax.tree.leaves(x)[0])
    labels = None if y is None else np.asarray(y)
    if labels is not None and (labels.ndim == 0 or len(labels) != count):
        raise ValueError(f"y has shape {labels.shape} and x has {count} points: give a label for each.")
    rows = rng.permutation(count)
    if labels is not None and labels.ndim == 1 and labels.dtype.kind in "iu":
        rows = rows[np.argsort(_turns(labels[rows]), kind="stable")]
    rows = rows[:most]
    return jax.tree.map(lambda part: part[rows], x), None if y is None else y[rows]


def _turns(labels: Int[np.ndarray, " points"]) -> np.ndarray:
    """When each point's turn comes: the k-th of n in its class after a share k / n of all."""
    turns = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        turns[members] = np.arange(len(members)) / len(members)
    return turns


def check_classes(y: np.ndarray, outputs: int) -> None:
    """Refuse labels of which a class has no sample: nothing could be said about it."""
    empty = np.setdiff1d(np.arange(outputs), y)
    if len(empty):
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise ValueError(
            f"class {empty[0]}{more} of the model's {outputs} has no sample in the data: give points of "
            "every class, or a model with as many outputs as there are classes."
        )
