"""Labels in the basis of the singular vectors of the inputs."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.checks import as_columns, as_numbers

# Singular values below this share of the largest are zero.
_RANK = 1e-10


class Design(NamedTuple):
    r"""Inputs $X=U\,\mathrm{diag}(d)\,V^T$ and labels, rotated so that each mode is met once.

    `d` are the singular values that are not zero, `basis` the directions V of the inputs, `labels` the labels
    $U^Ty$, and `rest` the squared length of the labels beyond the modes. A constant that is fitted takes one
    point: `points` counts what is left, and `center`, `offset` are the means of inputs and labels.
    """

    constant: bool
    d: Float[np.ndarray, " rank"]
    basis: Float[np.ndarray, "features rank"]
    labels: Float[np.ndarray, " rank"]
    rest: float
    points: int
    center: Float[np.ndarray, " features"]
    offset: float

    @property
    def features(self) -> int:
        """The number of inputs n_0."""
        return len(self.center)

    @property
    def interpolant(self) -> Float[np.ndarray, " features"]:
        """The weights of least length that fit the labels as well as can be."""
        return self.basis @ (self.labels / self.d)

    def on_modes(
        self, x: Float[np.ndarray, "test features"]
    ) -> tuple[Float[np.ndarray, "test features"], Float[np.ndarray, "test rank"]]:
        """Inputs from their centre, and their parts along the modes."""
        moved = x - self.center
        return moved, moved @ self.basis


def design(x, y, *, constant: bool = False) -> Design:
    """The modes of inputs (points, features) with labels (points,), with or without a constant of its own."""
    x = as_matrix("x", x)
    y = as_columns("y", y, len(x), np.dtype(float))
    if y.shape[1] != 1:
        raise ValueError(f"y has {y.shape[1]} columns; the exact law is of one output: fit one at a time.")
    y = y[:, 0]
    center = x.mean(axis=0) if constant else np.zeros(x.shape[1])
    offset = float(y.mean()) if constant else 0.0
    moved, left = x - center, y - offset
    U, d, Vt = np.linalg.svd(moved, full_matrices=False)
    kept = d > _RANK * max(d.max(initial=0.0), np.finfo(float).tiny)
    labels = U[:, kept].T @ left
    rest = max(float(left @ left - labels @ labels), 0.0)
    return Design(constant, d[kept], Vt[kept].T, labels, rest, len(x) - constant, center, offset)


def as_matrix(name: str, x) -> Float[np.ndarray, "points features"]:
    """Finite inputs (points, features) in double precision."""
    x = np.asarray(as_numbers(name, x), dtype=float)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"{name} must have shape (points, features), none of them 0, got {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(
            f"{name} holds NaN or infinite values in {np.sum(~np.isfinite(x).all(axis=1))} rows."
        )
    return x
