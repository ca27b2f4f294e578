"""How far an input is from the nearest boundary of its region."""

from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from finitewidth.measure.regions.execution import execute
from finitewidth.measure.regions.network import piecewise_linear
from finitewidth.measure.regions.points import Points


def boundary_distance(
    model: Any, x: Any, *, within: Any = None, params: PyTree | None = None
) -> Float[np.ndarray, " points"]:
    """Distance from each input to the nearest boundary of its region, exactly, in any dimension.

    In its region every neuron is an affine function g of the input, and the region is where all of them keep
    their signs. So the distance is the least |g(x)| / |grad g| of all neurons.

    Parameters
    ----------
    model
        Any piecewise-linear network, as `piecewise_linear` takes it.
    x
        Inputs (points, ...).
    within
        Directions (directions, ...) that span the moves that are allowed, such as the two of a plane or a
        single one; all moves when left out.
    params
        The weights of a model that does not carry them.
    """
    x = np.asarray(x, float)
    if x.ndim < 2 or not len(x):
        raise ValueError(f"x must be inputs (points, ...), got shape {x.shape}.")
    program = piecewise_linear(model, x.shape[1:], params=params)
    rows = x.reshape(len(x), -1)
    moves = np.eye(rows.shape[1]) if within is None else _orthonormal(within, x.shape[1:])
    found = [
        execute(program, Points(np.full(1, np.inf), len(moves) + 1), np.vstack([moves, row])[None]).cells
        for row in rows
    ]
    return np.concatenate([cells.nearest for cells in found if isinstance(cells, Points)])


def _orthonormal(directions: Any, entering: tuple[int, ...]) -> np.ndarray:
    """Orthonormal directions that span the same space."""
    given = np.asarray(directions, float)
    if given.shape[1:] != entering or not len(given):
        raise ValueError(
            f"within must be directions of shape {('directions', *entering)}, got shape {given.shape}."
        )
    basis, triangle = np.linalg.qr(given.reshape(len(given), -1).T)
    if np.abs(np.diag(triangle)).min() <= 1e-10 * np.abs(triangle).max():
        raise ValueError("the directions of `within` are zero or depend on each other.")
    return basis.T
