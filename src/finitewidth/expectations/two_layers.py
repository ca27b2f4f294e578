r"""Averages of two Gaussian numbers, exact for functions that are smooth but for a kink at zero.

In polar coordinates of the whitened plane the lines where either number vanishes are rays, so a rule that is
split at them meets smooth functions only:
$\langle F\rangle=\frac1{2\pi}\int d\varphi\int_0^\infty r e^{-r^2/2}F\,dr$.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss

_ANGLES, _RADII, _FARTHEST = 24, 48, 11.0


class PlaneRule(NamedTuple):
    """Nodes (pairs, nodes) of both numbers in units of their deviations, and weights that add up to one."""

    first: Float[np.ndarray, "pairs nodes"]
    second: Float[np.ndarray, "pairs nodes"]
    weights: Float[np.ndarray, "pairs nodes"]


def plane_rule(correlation: Float[np.ndarray, " pairs"]) -> PlaneRule:
    """A rule for pairs of standard Gaussian numbers of given correlations."""
    angle = np.arccos(np.clip(correlation, -1.0, 1.0))
    # u = cos(phi) and v = cos(phi - angle): they vanish a quarter turn from 0 and from the angle.
    zeros = np.stack([np.full_like(angle, np.pi / 2), angle + np.pi / 2], axis=1)
    edges = np.concatenate([zeros, zeros + np.pi, zeros[:, :1] + 2 * np.pi], axis=1)
    nodes, shares = leggauss(_ANGLES)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    phi = (edges[:, :-1, None] + half * (1 + nodes)).reshape(len(angle), -1)
    turn = (half * shares).reshape(len(angle), -1) / (2 * np.pi)
    radii, parts = leggauss(_RADII)
    radii, parts = _FARTHEST / 2 * (1 + radii), _FARTHEST / 2 * parts
    radial = parts * radii * np.exp(-(radii**2) / 2)
    spread = lambda values: (values[:, :, None] * radii).reshape(len(angle), -1)
    weights = (turn[:, :, None] * radial / radial.sum()).reshape(len(angle), -1)
    return PlaneRule(spread(np.cos(phi)), spread(np.cos(phi - angle[:, None])), weights)
