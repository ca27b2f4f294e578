r"""What an initialisation does to signals and gradients on their way through the layers."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.critical_point import layer_response
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.statistics.wide.kernels import kernels, trajectory

Initialisation = tuple[np.ndarray, np.ndarray]

_TOLERANCE = 1e-6  # advice is read to three digits


class Propagation(eqx.Module):
    """Mean over the inputs, layer by layer (the last entry is the output).

    Attributes
    ----------
    variance
        Preactivation variance K.
    gradient
        Mean squared back-propagated gradient of the output with respect to a preactivation, summed
        over the layer.
    correlation
        Output correlation of two inputs that were orthogonal.
    """

    variance: Float[np.ndarray, " depth"]
    gradient: Float[np.ndarray, " depth"]
    correlation: float = eqx.field(static=True)


def propagate(net: Layer, x: Float[Array, "n d"]) -> Propagation:
    """Follow signals forwards and gradients backwards through an infinitely wide network."""
    variance, gradient = signal_and_gradient(net, x)
    return Propagation(
        np.asarray(variance.mean(axis=1)),
        np.asarray(gradient.mean(axis=1)),
        _orthogonal_correlation(net, float(jnp.mean(jnp.sum(x**2, axis=1) / x.shape[1]))),
    )


def signal_and_gradient(
    net: Layer, x: Float[Array, "n d"]
) -> tuple[Float[Array, "depth n"], Float[Array, "depth n"]]:
    """Variance K^(l) and gradient factor prod_{l' > l} chi_perp^(l') for every layer and input."""
    K, net = trajectory(net, x).nngp, dense_stack(net)
    chi = net.C_W[1:, None] * layer_response(net.activation, K[:-1].astype(float)).h
    backwards = jnp.cumprod(jnp.concatenate([jnp.ones((1, x.shape[0])), chi[::-1]]), axis=0)
    return K, backwards[::-1]


def _orthogonal_correlation(net: Layer, square: float) -> float:
    """Correlation of the outputs of two orthogonal inputs with the given mean square."""
    pair = np.sqrt(2 * square) * np.eye(2)
    K = np.asarray(kernels(net, pair, tolerance=_TOLERANCE).nngp)
    return float(K[0, 1] / K[0, 0]) if K[0, 0] > 0 else float("nan")


def framework_defaults(widths: tuple[int, ...]) -> dict[str, Initialisation]:
    """(C_b, C_W) per layer of the dense layers that PyTorch and Flax make when told nothing.

    PyTorch's `nn.Linear` draws weights and biases uniformly from +-1/sqrt(fan_in), variance
    1/(3 fan_in); Flax's `nn.Dense` draws weights with variance 1/fan_in and zero biases.
    """
    fan_in = np.array(widths[:-1], dtype=float)
    ones = np.ones_like(fan_in)
    return {"PyTorch nn.Linear": (1 / (3 * fan_in), ones / 3), "Flax nn.Dense": (0 * ones, ones)}
