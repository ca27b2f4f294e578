"""The multilayer perceptron: a stack of dense layers with one activation between them."""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import as_precision, check_key, check_whole
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.critical_point import critical_variances
from finitewidth.architecture.dense import (
    Affine,
    Dense,
    Hyperparameter,
    Hyperparameters,
    as_hyperparameter,
    refuse_one_of_two,
)
from finitewidth.architecture.layer import Layer, Shape, as_sizes
from finitewidth.architecture.parametrisation import Geometry, Parametrisation, Place, as_parametrisation
from finitewidth.architecture.weights import Law, Precision

Params = tuple[Affine, ...]


class MLP(Layer):
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
        activation: str | Activation | Elementwise = "relu",
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
        refuse_one_of_two(C_b, C_W)
        if C_b is None or C_W is None:
            C_b, C_W = critical_variances(self.activation)
        layers = (self.depth,)
        self.C_b = as_hyperparameter("C_b", C_b, layers)
        self.C_W = as_hyperparameter("C_W", C_W, layers, positive=True)
        self.lambda_b = as_hyperparameter("lambda_b", lambda_b, layers)
        self.lambda_W = as_hyperparameter("lambda_W", lambda_W, layers)

    @property
    def depth(self) -> int:
        """Number of affine layers."""
        return len(self.hidden) + 1

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Variances and rates of all affine layers, each (depth,)."""
        return Hyperparameters(self.C_b, self.C_W, self.lambda_b, self.lambda_W)

    @property
    def layers(self) -> list[Hyperparameters]:
        """Variances and rates of each affine layer; as plain floats unless they are being traced."""
        known = not any(isinstance(values, Tracer) for values in self.hyperparameters)
        columns = [values.tolist() if known else list(values) for values in self.hyperparameters]
        return [Hyperparameters(*row) for row in zip(*columns, strict=True)]

    def leaving(self, entering: Shape) -> Shape:
        return (*entering[:-1], self.n_out)

    def channels(self, entering: int | None) -> int:
        return self.n_out

    @property
    def spec(self) -> list[dict[str, Any]]:
        return [entry for part in self.parts() for entry in part.spec]

    def parts(self) -> list[Layer]:
        """Dense layers with the activation between each two."""
        widths = (*self.hidden, self.n_out)
        dense = [Dense(width, *layer) for width, layer in zip(widths, self.layers, strict=True)]
        neurons = Activate(self.activation)
        return [dense[0], *(part for layer in dense[1:] for part in (neurons, layer))]

    def init(
        self, key: PRNGKeyArray, n_in: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
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
        keys = jax.random.split(key, self.depth)
        return tuple(
            layer.draw(keys[l], place, self.parametrisation, weights, dtype)
            for l, (layer, place) in enumerate(zip(self.layers, self.places(n_in), strict=True))
        )

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

    def learning_rates(self, n_in: Shape | int, geometry: Geometry = "gradient") -> Params:
        r"""The learning-rate tensor: one number for every weight matrix and every bias vector.

        For gradient steps in the NTK parametrisation $\lambda_W/n_{\ell-1}$ and $\lambda_b$. For the other
        geometries (see `Parametrisation.rates`) the square roots of $\lambda_W$ and $\lambda_b$ enter.
        """
        return tuple(
            layer.rates(place, self.parametrisation, geometry)
            for layer, place in zip(self.layers, self.places(n_in), strict=True)
        )

    def places(self, n_in: Shape | int) -> list[Place]:
        """Sizes and position of every affine layer of a network with `n_in` inputs."""
        n_in = n_in[-1] if isinstance(n_in, tuple) else n_in
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


def _widths(name: str, values: Sequence[int]) -> tuple[int, ...]:
    if isinstance(values, int | np.integer):
        raise TypeError(f"{name} must be a sequence of widths, such as ({values},), got {values}.")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of widths, such as (64, 64), got {values!r}.")
    return as_sizes(name, values)
