r"""One infinitely wide layer, integrated directly.

Averages $\langle f\rangle_K$ over $z\sim N(0,K)$ by a Gauss-Legendre rule on each half-line, and finite
differences instead of differentiated formulas. Slow and plain: a second derivation of what the theory
computes by other means.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

from finitewidth.architecture.activations import as_activation

Function = Callable[[np.ndarray], np.ndarray]

_REACH, _NODES = 12.0, 120


def _rule() -> tuple[np.ndarray, np.ndarray]:
    unit, weight = np.polynomial.legendre.leggauss(_NODES)
    u = _REACH * (unit + 1) / 2
    w = _REACH / 2 * weight * np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
    return np.concatenate([-u[::-1], u]), np.concatenate([w[::-1], w])


_U, _W = _rule()


def plain_function(activation: str) -> Function:
    """The activation as a function of numpy arrays."""
    function = as_activation(activation)
    return {"tanh": np.tanh, "sin": np.sin}.get(activation, lambda z: np.asarray(function(jnp.asarray(z))))


def second_moment(function: Function, K: float) -> float:
    """<f^2> over z ~ N(0, K)."""
    return float(_W @ function(np.sqrt(K) * _U) ** 2)


def pair_moment(function: Function, cosine: float, other: Function | None = None) -> float:
    """<f(z_a) g(z_b)> over two standard normal numbers with this correlation; g is f unless given."""
    sine = np.sqrt(max(1 - cosine**2, 0.0))
    below = (other or function)(cosine * _U[:, None] + sine * _U[None, :]) @ _W
    return float((_W * function(_U)) @ below)


def variance_map(function: Function, C_b: float, C_W: float, K: float) -> float:
    """The variance one layer above a layer of variance K."""
    return C_b + C_W * second_moment(function, K)


def variance_flow(
    function: Function, C_b: float, C_W: float, K: float, depth: int
) -> Float[np.ndarray, " depth"]:
    """K^(1), ..., K^(depth), starting from K."""
    flow = np.empty(depth)
    for l in range(depth):
        flow[l] = K
        K = variance_map(function, C_b, C_W, K)
    return flow


def parallel_response(function: Function, C_W: float, K: float) -> float:
    """Change of the variance above per change of the variance below, as the change tends to zero."""
    steps = 0.08 * K / 2.0 ** np.arange(5)
    change = [second_moment(function, K + h) - second_moment(function, K - h) for h in steps]
    return _limit(steps**2, C_W * np.array(change) / (2 * steps))


def curvature(function: Function, C_W: float, K: float) -> float:
    """Second derivative of the variance map, from second differences."""
    steps = 0.2 * K / 2.0 ** np.arange(5)
    middle = second_moment(function, K)
    bend = [second_moment(function, K + h) - 2 * middle + second_moment(function, K - h) for h in steps]
    return _limit(steps**2, C_W * np.array(bend) / steps**2)


def perpendicular_response(function: Function, C_W: float, K: float) -> float:
    """Squared difference of two inputs above per squared difference below, as it tends to zero.

    Two inputs of variance K whose difference has variance D: their mean has variance K - D/4 and is
    independent of the difference.
    """
    separations = 0.04 * K / 2.0 ** np.arange(6)
    above = [_separation_above(function, K, D) for D in separations]
    return _limit(separations, C_W * np.array(above) / separations)


def critical_variance(activation: str, low: float, high: float) -> float:
    """The K between the bounds at which <sigma sigma''> vanishes, where both responses agree."""
    function = as_activation(activation)
    curved = jax.vmap(jax.grad(jax.grad(function)))

    def imbalance(K: float) -> float:
        z = jnp.sqrt(K) * _U
        return float(_W @ np.asarray(function(z) * curved(z)))

    return float(root_scalar(imbalance, bracket=(low, high), xtol=1e-14).root)


def _limit(step: np.ndarray, value: np.ndarray) -> float:
    """Limit at zero of a series in powers of the step."""
    return float(np.polynomial.polynomial.polyfit(step / step[0], value, len(step) - 1)[0])


def _separation_above(function: Function, K: float, D: float) -> float:
    mean = np.sqrt(K - D / 4) * _U[:, None]
    half = np.sqrt(D) / 2 * _U[None, :]
    return float(_W @ (function(mean + half) - function(mean - half)) ** 2 @ _W)
