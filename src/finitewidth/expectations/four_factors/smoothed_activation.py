r"""Averages of an activation and its derivatives over a neuron's own noise, as tables.

$G_k(m)=\langle\sigma^{(k)}(m+\sqrt v\,\xi)\rangle$ on a uniform grid of m, for any v, comes from one table
of $\sigma^{(k)}$ by multiplying its Fourier transform with that of the Gaussian. Between the entries $G_k$ is
the quintic polynomial with the right value, slope $G_{k+1}$ and curvature $G_{k+2}$ at both ends.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import Elementwise
from finitewidth.expectations.four_factors.axis_rules import HIGHEST
from finitewidth.expectations.four_factors.derivative_moments import tower

_ORDERS = HIGHEST + 2
_FINEST = 2.0**-7
_STRIDES = (32, 16, 8, 4, 2)
# Below this many spacings a Gaussian is not resolved by the table.
_RESOLVED = 2.5
# Interpolation errors add up over four factors, which may be small where they are averaged.
_SHARE = 0.01


class ActivationTable(NamedTuple):
    """sigma and its derivatives up to the fifth at `start + spacing * i`, as a Fourier transform too."""

    start: float
    spacing: float
    values: Float[np.ndarray, "orders entries"]
    spectrum: np.ndarray

    @classmethod
    def of(cls, function: Elementwise, reach: float, tolerance: float) -> "ActivationTable":
        """As coarse as the tolerance allows, for preactivations up to `reach`."""
        finest = _FINEST
        while True:
            half = 2 ** int(np.ceil(np.log2(reach / finest + max(_STRIDES))))
            z = finest * np.arange(-half, half)
            fine = np.asarray(tower(function, z, _ORDERS))
            for stride in _STRIDES:
                if _midpoint_error(fine, stride, finest) <= _SHARE * tolerance:
                    values = fine[:, ::stride]
                    return cls(float(z[0]), stride * finest, values, np.fft.rfft(values))
            if finest < 1e-4:
                raise ValueError(
                    f"averages of four factors do not reach accuracy {tolerance:.1e} by interpolating the "
                    "activation; ask for less, or use a smoother activation."
                )
            finest /= 4

    @property
    def least_variance(self) -> float:
        """Smaller ones than this the table cannot smooth by."""
        return (_RESOLVED * self.spacing) ** 2

    def smoothed(self, variance: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s entries orders"]:
        """G_k for every variance: zero, or at least `least_variance`."""
        omega = 2 * np.pi * np.fft.rfftfreq(self.values.shape[1], self.spacing)
        factor = np.exp(-variance[..., None] * omega**2 / 2)
        table = np.fft.irfft(self.spectrum * factor[..., None, :], self.values.shape[1])
        table = np.where((variance > 0)[..., None, None], table, self.values)
        return np.ascontiguousarray(np.swapaxes(table, -1, -2))


def _midpoint_error(fine: Float[np.ndarray, "orders entries"], stride: int, finest: float) -> float:
    h = stride * finest
    left, right = fine[:, :-stride:stride], fine[:, stride::stride]
    middle = fine[: HIGHEST + 1, stride // 2 : -stride : stride]
    guess = [
        (left[k] + right[k]) / 2
        + 5 * h / 32 * (left[k + 1] - right[k + 1])
        + h**2 / 64 * (left[k + 2] + right[k + 2])
        for k in range(HIGHEST + 1)
    ]
    scale = np.abs(fine[: HIGHEST + 1]).max(axis=1)
    error = np.abs(np.array(guess) - middle[:, : left.shape[1]]).max(axis=1)
    return float(np.max(error / np.where(scale > 0, scale, 1.0)))


def interpolated(
    table: Float[Array, "entries orders"], place: Float[Array, " nodes"], spacing: Float[Array, ""]
) -> Float[Array, "4 nodes"]:
    """G_0 to G_3 at `place`, counted in entries of the table."""
    entry = jnp.floor(place).astype(jnp.int32)
    t = place - entry
    left, right = table[entry].T, table[entry + 1].T
    s, h = 1 - t, spacing
    ends = [_end_weights(t, s), _end_weights(s, t)]
    value = lambda k: (
        ends[0][0] * left[k] + h * ends[0][1] * left[k + 1] + h**2 * ends[0][2] * left[k + 2]
        + ends[1][0] * right[k] - h * ends[1][1] * right[k + 1] + h**2 * ends[1][2] * right[k + 2]
    )  # fmt: skip
    return jnp.stack([value(k) for k in range(HIGHEST + 1)])


def _end_weights(t: Float[Array, " nodes"], s: Float[Array, " nodes"]) -> tuple[Array, Array, Array]:
    """Quintic polynomials of t with unit value, slope or curvature at 0, s = 1 - t, and none at 1."""
    cube = s**3
    return cube * (1 + 3 * t + 6 * t**2), cube * t * (1 + 3 * t), cube * t**2 / 2
