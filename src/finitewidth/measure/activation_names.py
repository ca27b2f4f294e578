"""Which activation a function of one number is, from its values: it may be written in many ways."""

import numpy as np
from scipy import special

GRID = np.linspace(-8.0, 8.0, 129)
# Coefficients may be rounded to half precision, and GELU has a common approximation by tanh.
_TOLERANCE = 1e-3

_SELU = 1.6732632423543772
_KNOWN = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "gelu": lambda z: z * special.ndtr(z),
    "silu": lambda z: z * special.expit(z),
    "erf": special.erf,
    "softplus": lambda z: np.logaddexp(z, 0),
    "elu": lambda z: np.where(z > 0, z, np.expm1(z)),
    "selu": lambda z: np.where(z > 0, z, _SELU * np.expm1(z)),
    "relu6": lambda z: np.clip(z, 0, 6),
    "hard_tanh": lambda z: np.clip(z, -1, 1),
    "hard_sigmoid": lambda z: np.clip(z / 6 + 0.5, 0, 1),
    "hard_swish": lambda z: z * np.clip(z / 6 + 0.5, 0, 1),
    "mish": lambda z: z * np.tanh(np.logaddexp(z, 0)),
    "softsign": lambda z: z / (1 + np.abs(z)),
    "sin": np.sin,
    "cos": np.cos,
}


def activation_name(values: np.ndarray) -> str | None:
    """The activation phi for which these values on the grid are a phi(z) + c, or None."""
    if values.dtype == bool or np.shape(values) != GRID.shape:
        return None
    size = np.ptp(values)
    if not np.isfinite(size) or size == 0:
        return None
    for name, phi in _KNOWN.items():
        if _distance(values, phi(GRID)) < _TOLERANCE * size:
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
