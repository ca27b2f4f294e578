r"""How far a network has moved from where its training began: its tangent kernel, features, weights, gates.

A lazy network fits its data while its kernel $\Theta=JJ^T$ and its features stay; one that learns features
moves both. Every change is $|a_1-a_0|_F/|a_0|_F$, every turn is $1-\cos$ of the angle between the two, which
does not see a change of size.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from finitewidth.measure.layers.signals import HALF_FLAT
from finitewidth.measure.sites import Site
from finitewidth.measure.specimen import Specimen

# Rows of the kernel, points times outputs, beyond which only the first points are taken.
_MOST_ROWS = 400
# A Jacobian of this size is kept whole. A larger one is avoided by fewer points, down to these rows; beyond
# that every column of the kernel takes two products.
_JACOBIAN_BYTES = 2**30
_FEWEST_ROWS = 60


class FeatureChange(NamedTuple):
    """How far what leaves one site has moved."""

    name: str
    """The name of the site."""
    change: float
    """|z_1 - z_0| / |z_0|."""
    turn: float
    """1 - CKA of the two: the Gram matrices of the points compared, whatever rotation lies between them."""


class Laziness(NamedTuple):
    """How far a network has moved since the start of its training."""

    kernel_change: float
    """|K_1 - K_0|_F / |K_0|_F of the tangent kernel."""
    kernel_turn: float
    """1 - <K_0, K_1> / (|K_0| |K_1|): 0 for a kernel that has only grown."""
    weights_change: float
    """|theta_1 - theta_0| / |theta_0|."""
    features: tuple[FeatureChange, ...]
    """Of every site, in the order of the computation."""
    moved_gates: float | None
    """Share of ReLU's inputs, over points and units, that changed sign; None without a ReLU."""
    kernel_points: int
    """On how many points the kernels were compared."""


def laziness(start: Specimen, now: Specimen) -> Laziness:
    """How far a network has moved between two sets of weights, on the same points.

    Parameters
    ----------
    start, now
        The same model with its weights at the start of training and today: `start = now.at(weights)`.
    """
    if start.weights.shape != now.weights.shape or start.points != now.points:
        raise ValueError(
            f"start has {len(start.weights)} weights and {start.points} points, now has {len(now.weights)} "
            f"and {now.points}: compare one model with itself."
        )
    outputs = now.outputs().shape[1]
    points = kernel_points(now)
    before, after = (tangent_kernel(specimen, points) for specimen in (start, now))
    # What flows back is not used.
    nothing = np.zeros((now.points, outputs), now.weights.dtype)
    pairs = list(zip(start.look(nothing), now.look(nothing), strict=True))
    gates = [_signs_changed(*pair) for pair in pairs if pair[1].activation in HALF_FLAT]
    return Laziness(
        kernel_change=_change(before, after),
        kernel_turn=_turn(before, after),
        weights_change=_change(start.weights, now.weights),
        features=tuple(_feature_change(*pair) for pair in pairs),
        moved_gates=float(np.mean(np.concatenate(gates))) if gates else None,
        kernel_points=points,
    )


def kernel_points(specimen: Specimen) -> int:
    """On how many points a tangent kernel is computed: fewer where the Jacobian would be too large."""
    fitting = _JACOBIAN_BYTES // specimen.weights.nbytes
    rows = min(_MOST_ROWS, max(_FEWEST_ROWS, fitting))
    return min(specimen.points, max(2, rows // specimen.outputs().shape[1]))


def tangent_kernel(specimen: Specimen, points: int) -> Float[np.ndarray, "rows rows"]:
    """J J^T of the first points with all their outputs."""
    shown = specimen.on(jax.tree.map(lambda part: part[:points], specimen.x))
    shape = shown.outputs().shape
    if shape[0] * shape[1] * shown.weights.nbytes <= _JACOBIAN_BYTES:
        rows = shown.jacobian().reshape(shape[0] * shape[1], -1).astype(float)
        return rows @ rows.T
    units = np.eye(shape[0] * shape[1]).reshape(-1, *shape)
    columns = [shown.jacobian_product(shown.transposed_jacobian_product(unit)).ravel() for unit in units]
    return np.array(columns, float)


def _feature_change(before: Site, after: Site) -> FeatureChange:
    rows = [site.leaving.reshape(len(site.leaving), -1).astype(float) for site in (before, after)]
    grams = [(row - row.mean(axis=0)) @ (row - row.mean(axis=0)).T for row in rows]
    return FeatureChange(after.name, _change(*rows), _turn(*grams))


def _signs_changed(before: Site, after: Site) -> np.ndarray:
    return ((before.into_activation > 0) != (after.into_activation > 0)).ravel()


def _change(before: np.ndarray, after: np.ndarray) -> float:
    size = float(np.linalg.norm(before))
    return float(np.linalg.norm(np.subtract(after, before, dtype=float))) / size if size > 0 else np.inf


def _turn(before: np.ndarray, after: np.ndarray) -> float:
    sizes = float(np.linalg.norm(before) * np.linalg.norm(after))
    return max(0.0, 1.0 - float(np.vdot(before, after)) / sizes) if sizes > 0 else 1.0
