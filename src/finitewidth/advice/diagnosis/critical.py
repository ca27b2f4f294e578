r"""What one layer of a critical network would do to the signals and gradients that were measured.

A layer whose preactivations have the mean square K hands on $C_b+C_W\,g(K)$, and a gradient grows by
$C_W\,h(K)$ on its way back, with $g=\langle\sigma^2\rangle_K$ and $h=\langle\sigma'^2\rangle_K$. At the
critical point of the activation both factors approach one with depth.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from finitewidth.architecture.activations import ACTIVATION_NAMES, as_activation
from finitewidth.architecture.critical_point import critical_point, layer_response
from finitewidth.measure.sites import Site


class Factors(NamedTuple):
    """What a layer multiplies squares with: those of signals forwards, of gradients backwards."""

    forward: float
    backward: float


ONE = Factors(1.0, 1.0)


def critical_factors(activation: str | None, mean_square: float) -> Factors:
    """The factors of a critical layer, or one where the activation is unknown or has no critical point."""
    if activation not in ACTIVATION_NAMES or not 0 < mean_square < np.inf:
        return ONE
    function = as_activation(activation)
    point = critical_point(function)
    if not point.exists:
        return ONE
    response = layer_response(function, jnp.asarray(float(mean_square)))
    forward = (point.C_b + point.C_W * float(response.g)) / mean_square
    return Factors(forward, point.C_W * float(response.h))


def follows(below: Site, above: Site) -> bool:
    """Whether the activation of one dense layer is all that stands between it and the next."""
    if below.kind != "dense" or above.kind != "dense" or below.activation not in ACTIVATION_NAMES:
        return False
    if below.leaving.shape != above.entering.shape:
        return False
    expected = np.asarray(as_activation(below.activation)(jnp.asarray(below.leaving)))
    # Frameworks approximate some activations, such as gelu, to about a thousandth.
    return bool(np.linalg.norm(expected - above.entering) <= 0.01 * np.linalg.norm(expected))
