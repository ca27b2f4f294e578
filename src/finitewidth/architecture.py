"""The one description of a network that theory and real networks share."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.activations import Activation, as_activation
from finitewidth.checks import as_precision, check_key, check_whole, is_number
from finitewidth.critical_point import critical_point
from finitewidth.parametrisation import Geometry, Parametrisation, Place, as_parametrisation
from finitewidth.saving import save
from finitewidth.weights import Draw, draw_weight

Hyperparameter = float | int | Sequence[float] | np.ndarray | Array


class Affine(NamedTuple):
    """One affine layer, z = bias + weight @ input; also anything that comes one per weight and bias."""

    weight: Array
    bias: Array


Params = tuple[Affine, ...]


class MLP(eqx.Module):
    r"""A multilayer perceptron: architecture, initialisation and learning-rate tensor.

    $z^{(1)} = b^{(1)} + W^{(1)}x$ and $z^{(\ell+1)} = b^{(\ell+1)} + W^{(\ell+1)}\sigma(z^{(\ell)})$,
    with $b\sim N(0, C_b)$ and $W^{(\ell)}\sim N(0, C_W/n_{\ell-1})$. Gradient descent moves biases
    with rate $\lambda_b$ and weights with rate $\lambda_W/n_{\ell-1}$, times the global step.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; empty for a linear model.
    activation
        A name, an `Activation`, or any elementwise function.
    C_b, C_W
        Variances of biases and (rescaled) weights: a number, or one per affine layer.
        Both `None`, the default, means the critical point of the activation.
    lambda_b, lambda_W
        Learning rates of biases and (rescaled) weights: a number, or one per affine layer.
    n_out
        Number of outputs.
    parametrisation
        How variances and rates scale with width in a real network: "ntk" (the conventions above, the
        only one the theory describes), "standard", "mean-field", "mup" or "mup:BASE_WIDTH".

    Examples
    --------
    >>> import finitewidth as fw
    >>> net = fw.MLP(hidden=(128, 128), activation="relu")
    >>> net.depth, float(net.C_W[0])
    (3, 2.0)
    >>> import jax
    >>> params = net.init(jax.random.key(0), n_in=3)
    >>> net.apply(params, jax.numpy.ones((5, 3))).shape
    (5, 1)
    """

    hidden: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    C_b: Float[Array, " depth"]
    C_W: Float[Array, " depth"]
    lambda_b: Float[Array, " depth"]
    lambda_W: Float[Array, " depth"]
    n_out: int = eqx.field(static=True)
    parametrisation: Parametrisation = eqx.field(static=True)

    def __init__(
        self,
        hidden: Sequence[int],
        activation: str | Activation | Callable[[Array], Array] = "relu",
        C_b: Hyperparameter | None = None,
        C_W: Hyperparameter | None = None,
        lambda_b: Hyperparameter = 1.0,
        lambda_W: Hyperparameter = 1.0,
        n_out: int = 1,
        parametrisation: str | Parametrisation = "ntk",
    ):
        self.hidden = _widths("hidden", hidden)
        check_whole("n_out", n_out)
        self.n_out = int(n_out)
        self.activation = as_activation(activation)
        self.parametrisation = as_parametrisation(parametrisation)
        if (C_b is None) != (C_W is None):
            given, missing = ("C_W", "C_b") if C_b is None else ("C_b", "C_W")
            raise ValueError(
                f"{given} was given without {missing}: pass both, or neither for the critical point."
            )
        if C_b is None or C_W is None:
            critical = critical_point(self.activation)
            if not critical.exists:
                raise ValueError(
                    f"activation {self.activation.name!r} has no critical point "
                    f"({critical.reason}): pass C_b and C_W."
                )
            C_b, C_W = critical.C_b, critical.C_W
        self.C_b = self._per_layer("C_b", C_b)
        self.C_W = self._per_layer("C_W", C_W, positive=True)
        self.lambda_b = self._per_layer("lambda_b", lambda_b)
        self.lambda_W = self._per_layer("lambda_W", lambda_W)

    @property
    def depth(self) -> int:
        """Number of affine layers."""
        return len(self.hidden) + 1

    def save(self, path: str | os.PathLike) -> Path:
        """Write the network's description into one file; `finitewidth.load` reads it.

        Every bit comes back. The file is an NPZ archive with nothing executable in it; one of that name is
        replaced once the new one is complete.
        """
        return save(self, path)

    def init(
        self,
        key: PRNGKeyArray,
        n_in: int,
        *,
        weights: str | Draw = "gaussian",
        dtype: jnp.dtype | type = float,
    ) -> Params:
        """Draw one network.

        Parameters
        ----------
        key
            A `jax.random` key.
        n_in
            Number of inputs.
        weights
            Law of the weights: "gaussian", "uniform", "truncated", "orthogonal", or a function of
            (key, shape, dtype) that draws a matrix of variance 1. Biases are Gaussian.
        dtype
            float64 by default, or float32.

        Returns
        -------
        tuple of Affine
            `weight` (fan_out, fan_in) and `bias` (fan_out,) of every layer.
        """
        check_key(key)
        dtype = as_precision(dtype)
        layers = []
        for l, (place, layer_key) in enumerate(
            zip(self.places(n_in), jax.random.split(key, self.depth), strict=True)
        ):
            weight_key, bias_key = jax.random.split(layer_key)
            weight = draw_weight(weights, weight_key, (place.fan_out, place.fan_in), dtype)
            bias = jax.random.normal(bias_key, (place.fan_out,), dtype)
            variance = self.C_W[l] * self.parametrisation.weight_variance(place)
            layers.append(
                Affine(
                    (weight * jnp.sqrt(variance)).astype(dtype),
                    (bias * jnp.sqrt(self.C_b[l])).astype(dtype),
                )
            )
        return tuple(layers)

    def apply(self, params: Params, x: Array) -> Float[Array, "n out"]:
        """The outputs z^(L) at every input."""
        return self.preactivations(params, x)[-1]

    def preactivations(self, params: Params, x: Array) -> list[Float[Array, "n _"]]:
        """z^(1), ..., z^(L) at every input."""
        self.check(params, x)
        z = [x @ params[0].weight.T + params[0].bias]
        for weight, bias in params[1:]:
            z.append(self.activation(z[-1]) @ weight.T + bias)
        return z

    def learning_rates(self, n_in: int, geometry: Geometry = "gradient") -> Params:
        r"""The learning-rate tensor: one number for every weight matrix and every bias vector.

        For gradient steps in the NTK parametrisation $\lambda_W/n_{\ell-1}$ and $\lambda_b$. For the other
        geometries (see `Parametrisation.rates`) the square roots of $\lambda_W$ and $\lambda_b$ enter.
        """
        power = 1.0 if geometry == "gradient" else 0.5
        layers = []
        for l, place in enumerate(self.places(n_in)):
            rates = self.parametrisation.rates(place, geometry)
            layers.append(
                Affine(rates.weight * self.lambda_W[l] ** power, rates.bias * self.lambda_b[l] ** power)
            )
        return tuple(layers)

    def places(self, n_in: int) -> list[Place]:
        """Sizes and position of every affine layer of a network with n_in inputs."""
        check_whole("n_in", n_in)
        widths = (n_in, *self.hidden, self.n_out)
        last_hidden = self.hidden[-1] if self.hidden else 1
        return [
            Place(widths[l], widths[l + 1], last_hidden, first=l == 0, last=l == self.depth - 1)
            for l in range(self.depth)
        ]

    def check(self, params: Params, x: Array) -> None:
        """Refuse parameters that are not those of this network, or inputs they do not take."""
        if not isinstance(params, tuple | list) or len(params) != self.depth:
            count = f"{len(params)} entries" if isinstance(params, tuple | list) else type(params).__name__
            raise ValueError(f"params has {count}; this network has {self.depth} affine layers.")
        if getattr(x, "ndim", None) != 2:
            shape = getattr(x, "shape", type(x).__name__)
            raise ValueError(f"x must be an array of shape (points, features), got {shape}.")
        for l, (layer, place) in enumerate(zip(params, self.places(x.shape[1]), strict=True)):
            if not isinstance(layer, Affine):
                raise ValueError(f"params[{l}] must be an Affine(weight, bias), got {type(layer).__name__}.")
            expected = ((place.fan_out, place.fan_in), (place.fan_out,))
            for name, array, shape in zip(Affine._fields, layer, expected, strict=True):
                if jnp.shape(array) != shape:
                    raise ValueError(
                        f"params[{l}].{name} has shape {jnp.shape(array)}; this network with "
                        f"{x.shape[1]} inputs needs {shape}."
                    )

    def _per_layer(self, name: str, value: Hyperparameter, positive: bool = False) -> Array:
        try:
            array = jnp.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, or one per affine layer, got {value!r}.") from None
        if array.shape not in ((), (self.depth,)):
            raise ValueError(
                f"{name} has shape {array.shape}; give one number, or {self.depth} of them "
                f"(one per affine layer of {len(self.hidden)} hidden layers)."
            )
        if not isinstance(array, Tracer):
            numbers = np.asarray(array)
            allowed = numbers > 0 if positive else numbers >= 0
            if not (allowed & np.isfinite(numbers)).all():
                bound = "positive" if positive else "zero or positive"
                raise ValueError(f"{name} must be finite and {bound}, got {value}.")
        return jnp.broadcast_to(array, (self.depth,))


def check_mlp(net: object) -> None:
    """Refuse a network that is not described by an `MLP`."""
    if not isinstance(net, MLP):
        given = getattr(net, "__name__", type(net).__name__)
        raise TypeError(
            f"net must be an MLP, which says how networks are drawn and trained, got {given}; a function of "
            "(params, x) has its place in empirical_ntk, expand and train."
        )


def _widths(name: str, values: Sequence[int]) -> tuple[int, ...]:
    if isinstance(values, int | np.integer):
        raise TypeError(f"{name} must be a sequence of widths, such as ({values},), got {values}.")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of widths, such as (64, 64), got {values!r}.")
    widths = tuple(values)
    if not all(is_number(w) and 1 <= w < math.inf and w == int(w) for w in widths):
        raise ValueError(f"{name} must hold positive whole numbers, got {widths}.")
    return tuple(int(w) for w in widths)
