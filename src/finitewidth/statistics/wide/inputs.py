"""Checks that a network has a limit of infinite width, and that inputs can be given to its kernels."""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from finitewidth._base.checks import as_numbers
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import check_network, input_biases, parametrisation_of
from finitewidth.architecture.parametrisation import NTK, Standard
from finitewidth.statistics.wide.rules.channels import check_limit

ArrayLike = np.ndarray | Array | list


def check_described(net: Layer) -> None:
    r"""Refuse a network whose kernels at large width are not those of the NTK parametrisation.

    The standard parametrisation is that of the NTK with $\lambda_Wn_{\ell-1}$ in the place of $\lambda_W$, so
    that its NTK grows with the width. With outputs of variance $1/n$ (mean-field, maximal update) the kernel
    moves in training at any width.
    """
    check_network(net)
    parametrisation = parametrisation_of(net)
    if isinstance(parametrisation, NTK):
        check_limit(net)
        return
    instead = (
        "the same network is parametrisation='ntk' with every lambda_W times the inputs of its layer"
        if isinstance(parametrisation, Standard)
        else "use parametrisation='ntk', or train such networks with train_ensemble"
    )
    raise ValueError(
        f"net has the parametrisation {parametrisation.name!r}; the theory of wide networks describes "
        f"'ntk' only: {instead}."
    )


def as_inputs(name: str, x: ArrayLike, net: Layer) -> Float[Array, "n ..."]:
    """x as a floating (points, features) or (points, *positions, channels) array that the network takes."""
    check_described(net)
    x = as_numbers(name, x)
    if x.dtype not in (jnp.float32, jnp.float64):
        x = x.astype(float)
    if 0 in x.shape:
        raise ValueError(f"{name} is empty: its shape is {x.shape}.")
    if x.ndim < 2:
        hint = f"; reshape it to ({x.shape[0]}, 1) for one feature" if x.ndim == 1 else ""
        raise ValueError(f"{name} must have shape (points, features), got {x.shape}{hint}.")
    _check_shape(name, x, net)
    if not isinstance(x, Tracer):
        _check_values(name, np.asarray(x), net)
    return x


def check_same_shape(name: str, x: Array, other_name: str, other: Array) -> None:
    """Refuse two sets of inputs whose points differ in shape."""
    if x.shape[1:] == other.shape[1:]:
        return
    if x.ndim == other.ndim == 2:
        raise ValueError(
            f"{name} has {x.shape[1]} features and {other_name} has {other.shape[1]}; they must agree."
        )
    raise ValueError(
        f"{name} has points of shape {x.shape[1:]} and {other_name} of {other.shape[1:]}; they must agree."
    )


def _check_shape(name: str, x: Array, net: Layer) -> None:
    """Refuse points of a shape that some layer does not take, or whose positions no layer removes."""
    if isinstance(net, MLP):
        if x.ndim > 2:
            raise ValueError(
                f"{name} must have shape (points, features) for an MLP, got {x.shape}: use "
                "fw.Sequential(fw.Flatten(), net), or a network with Conv layers."
            )
        return
    leaving = net.leaving(x.shape[1:])
    if len(leaving) > 1:
        raise ValueError(
            f"{name} has points of shape {x.shape[1:]}, and the network turns them into {leaving}, "
            "outputs at every position: put Flatten() or GlobalAveragePool() before its last Dense layer."
        )


def _check_values(name: str, x: Float[np.ndarray, "n ..."], net: Layer) -> None:
    by_point = x.reshape(len(x), -1)
    finite = np.isfinite(by_point).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{name} holds NaN or infinite values in {np.sum(~finite)} of {finite.size} rows, "
            f"first in row {np.argmin(finite)}."
        )
    C_b = input_biases(net)
    if C_b is None or isinstance(C_b, Tracer) or C_b > 0:
        return
    dead = ~by_point.any(axis=1)
    if dead.any():
        raise ValueError(
            f"{name} has a zero vector in row {np.argmax(dead)} ({np.sum(dead)} in all): with C_b = 0 in "
            "the first layer its preactivation has no variance. Remove it, or set C_b > 0."
        )
    limits, size = np.finfo(x.dtype), np.abs(by_point).max(axis=1)
    lost = size < np.sqrt(limits.tiny / limits.eps)
    if lost.any():
        row = int(np.argmax(lost))
        more = ", or pass float64" if x.dtype == np.float32 else ""
        raise ValueError(
            f"{name} has a row of size {size[row]:.1g} (row {row}, {np.sum(lost)} in all), whose square is "
            f"lost in {x.dtype}: with C_b = 0 in the first layer nothing else tells it from other rows. "
            f"Multiply the inputs by a power of ten{more}."
        )
