"""The initialisation to recommend: critical where possible, else the one that keeps gradients."""

import math
from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from finitewidth.architecture.activations import Activation
from finitewidth.architecture.critical_point import critical_point, layer_response


class Choice(NamedTuple):
    """Recommended bias and weight variances, and the reason in words."""

    C_b: float
    C_W: float
    reason: str


def recommended_initialisation(activation: Activation) -> Choice:
    """The critical point, or else the edge of chaos with the smallest bias variance."""
    point = critical_point(activation)
    if point.exists:
        return Choice(point.C_b, point.C_W, f"critical point ({point.universality_class}): {point.reason}")
    edge = _edge_of_chaos(activation)
    if edge is None:
        raise ValueError(
            f"activation {activation.name!r} has no critical point ({point.reason}) and no initialisation "
            "with C_b >= 0 keeps its gradients; pass C_b and C_W, or choose another activation."
        )
    return edge


def _edge_of_chaos(activation: Activation) -> Choice | None:
    """chi_perp = 1 at a fixed point K: C_W = 1/h(K), C_b = K - g(K)/h(K) at its first zero."""

    def bias(log_K):
        response = layer_response(activation, jnp.exp(jnp.asarray(log_K, dtype=float)))
        return np.exp(log_K) - np.asarray(response.g) / np.asarray(response.h)

    log_grid = np.linspace(np.log(1e-4), np.log(1e3), 200)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = bias(log_grid)
    crossing = np.flatnonzero((values[:-1] < 0) & (values[1:] >= 0))
    if not crossing.size:
        return None
    i = crossing[0]
    K = math.exp(cast(float, brentq(bias, log_grid[i], log_grid[i + 1])))
    response = layer_response(activation, jnp.asarray(K))
    C_W, chi_parallel = float(1 / response.h), float(response.g_prime / response.h)
    return Choice(
        0.0,
        C_W,
        f"no critical point; gradients are kept (chi_perp = 1) at K* = {K:.4g}, where chi_parallel = "
        f"{chi_parallel:.3g}",
    )
