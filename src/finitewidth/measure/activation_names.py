"""Which activation a function of one number is, from its values: it may be written in many ways."""

import functools

import jax.numpy as jnp
import numpy as np

from finitewidth._base.tracing import outside_tracing
from finitewidth.architecture.activations import BUILT_IN, WITHOUT_KERNELS

GRID = np.linspace(-8.0, 8.0, 129)
# Coefficients may be rounded to half precision, and GELU has a common approximation by tanh.
_TOLERANCE = 1e-3
# A straight line is no activation; steps and absolute values are how masks and sizes are written.
_NOT_LOOKED_FOR = ("linear", "step", "abs")
_LOOKED_FOR = {
    name: row.function for name, row in (BUILT_IN | WITHOUT_KERNELS).items() if name not in _NOT_LOOKED_FOR
}


@functools.cache
def _values(name: str) -> np.ndarray:
    with outside_tracing():
        return np.asarray(_LOOKED_FOR[name](jnp.asarray(GRID)), float)


def activation_name(values: np.ndarray) -> str | None:
    """The activation phi for which these values on the grid are a phi(z) + c, or None."""
    if values.dtype == bool or np.shape(values) != GRID.shape:
        return None
    size = np.ptp(values)
    if not np.isfinite(size) or size == 0:
        return None
    for name in _LOOKED_FOR:
        if _distance(values, _values(name)) < _TOLERANCE * size:
            return name
    # A slope below zero that is neither none nor the slope above: leaky ReLU, of any slope.
    below, above = np.minimum(GRID, 0), np.maximum(GRID, 0)
    slopes = np.linalg.lstsq(np.stack([below, above], 1), values, rcond=None)[0]
    two_lines = slopes[0] * below + slopes[1] * above
    if np.max(np.abs(two_lines - values)) < _TOLERANCE * size and 0 < slopes[0] / slopes[1] < 0.999:
        return "leaky_relu"
    return None


def keeps_sign(values: np.ndarray) -> bool:
    """Whether a function has one sign on the whole grid: a factor of this kind is a weight."""
    return bool(np.min(values) * np.max(values) >= 0)


def _distance(values: np.ndarray, phi: np.ndarray) -> float:
    columns = np.stack([phi, np.ones_like(phi)], 1)
    return float(np.max(np.abs(columns @ np.linalg.lstsq(columns, values, rcond=None)[0] - values)))
