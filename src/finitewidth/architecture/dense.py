"""A layer of random weights and biases, fully connected."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import as_precision, check_key
from finitewidth.architecture.layer import AnyLayer, Layer, Shape, Surroundings, as_shape, replaced
from finitewidth.architecture.parametrisation import Geometry, Parametrisation, Place
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision, draw_weight

Hyperparameter = float | int | Sequence[float] | np.ndarray | Array


class Affine(NamedTuple):
    """One affine layer, z = bias + weight @ input; also anything that comes one per weight and bias."""

    weight: Array
    bias: Array


class Hyperparameters(NamedTuple):
    """Variances and learning rates of one affine layer, numbers or scalars; of a stack of them, arrays."""

    C_b: Any
    C_W: Any
    lambda_b: Any
    lambda_W: Any

    def draw(
        self,
        key: PRNGKeyArray,
        place: Place,
        parametrisation: Parametrisation,
        weights: Law,
        dtype: jnp.dtype,
    ) -> Affine:
        """Weight (fan_out, fan_in) and bias (fan_out,) of one layer."""
        weight_key, bias_key = jax.random.split(key)
        weight = draw_weight(weights, weight_key, (place.fan_out, place.fan_in), dtype)
        bias = jax.random.normal(bias_key, (place.fan_out,), dtype)
        variance = self.C_W * parametrisation.weight_variance(place)
        return Affine((weight * jnp.sqrt(variance)).astype(dtype), (bias * jnp.sqrt(self.C_b)).astype(dtype))

    def as_settings(self) -> dict[str, float]:
        """As plain numbers."""
        return {name: float(value) for name, value in self._asdict().items()}

    def rates(self, place: Place, parametrisation: Parametrisation, geometry: Geometry) -> Affine:
        """Rates of one layer; beyond gradient steps the square roots of lambda_W and lambda_b enter."""
        power = 1.0 if geometry == "gradient" else 0.5
        rates = parametrisation.rates(place, geometry)
        return Affine(rates.weight * self.lambda_W**power, rates.bias * self.lambda_b**power)


class AffineLayer(Layer):
    """A layer of random weights and biases: what `Dense` and `Conv` have in common."""

    C_b: Float[Array, ""] | None
    C_W: Float[Array, ""] | None
    lambda_b: Float[Array, ""]
    lambda_W: Float[Array, ""]
    around: Surroundings = eqx.field(static=True)

    def __init__(
        self,
        C_b: Hyperparameter | None,
        C_W: Hyperparameter | None,
        lambda_b: Hyperparameter,
        lambda_W: Hyperparameter,
    ):
        refuse_one_of_two(C_b, C_W)
        self.C_b = None if C_b is None else as_hyperparameter("C_b", C_b, ())
        self.C_W = None if C_W is None else as_hyperparameter("C_W", C_W, (), positive=True)
        self.lambda_b = as_hyperparameter("lambda_b", lambda_b, ())
        self.lambda_W = as_hyperparameter("lambda_W", lambda_W, ())
        self.around = Surroundings()

    @abstractmethod
    def place(self, entering: Shape | int) -> Place:
        """Fan-in and fan-out for inputs of shape `entering`, and where the layer stands in its network."""

    def with_variances(self: AnyLayer, C_b: float, C_W: float) -> AnyLayer:
        """The same layer with other variances."""
        return replaced(self, C_b=as_hyperparameter("C_b", C_b, ()), C_W=as_hyperparameter("C_W", C_W, ()))

    def within(self: AnyLayer, around: Surroundings) -> AnyLayer:
        return replaced(self, around=around)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Variances and rates, C_b = 0 and C_W = 1 where none were chosen."""
        C_b = jnp.zeros(()) if self.C_b is None else self.C_b
        C_W = jnp.ones(()) if self.C_W is None else self.C_W
        return Hyperparameters(C_b, C_W, self.lambda_b, self.lambda_W)

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> Affine:
        check_key(key)
        dtype = as_precision(dtype)
        return self.hyperparameters.draw(
            key, self.place(entering), self.around.parametrisation, weights, dtype
        )

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> Affine:
        return self.hyperparameters.rates(self.place(entering), self.around.parametrisation, geometry)


@word("Dense")
class Dense(AffineLayer):
    r"""A fully connected layer, $z_i = b_i + \sum_j W_{ij} s_j$ over the last axis of its inputs.

    $b\sim N(0, C_b)$ and $W\sim N(0, C_W/n)$ with n inputs; gradient descent moves biases with rate
    $\lambda_b$ and weights with rate $\lambda_W/n$, times the global step. Inputs with positions,
    (\*positions, channels), meet the same weights at every position.

    Parameters
    ----------
    width
        Number of outputs.
    C_b, C_W
        Variances of biases and (rescaled) weights. Both `None` means the critical point of the activation
        next to this layer in its `Sequential`, and C_b = 0, C_W = 1 where there is none.
    lambda_b, lambda_W
        Learning rates of biases and (rescaled) weights.
    """

    width: int = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        C_b: Hyperparameter | None = None,
        C_W: Hyperparameter | None = None,
        lambda_b: Hyperparameter = 1.0,
        lambda_W: Hyperparameter = 1.0,
    ):
        (self.width,) = as_shape("width", width)
        super().__init__(C_b, C_W, lambda_b, lambda_W)

    @classmethod
    def from_entry(cls, entry: Entry) -> "Dense":
        return cls(entry.value("width", entry.sizes.width), **entry.affine())

    def entry(self) -> dict[str, Any]:
        return {"layer": "Dense", "width": self.width, **self.hyperparameters.as_settings()}

    def channels(self, entering: int | None) -> int:
        return self.width

    def leaving(self, entering: Shape) -> Shape:
        return (*entering[:-1], self.width)

    def apply(self, params: Affine, x: Array) -> Array:
        if x.shape[-1] != params.weight.shape[1]:
            raise ValueError(
                f"a Dense layer got inputs of shape {x.shape[1:]}; its weight, {params.weight.shape}, takes "
                f"{params.weight.shape[1]} channels."
            )
        return x @ params.weight.T + params.bias

    def place(self, entering: Shape | int) -> Place:
        fan_in = as_shape("entering", entering)[-1]
        return Place(fan_in, self.width, self.around.width, self.around.first, self.around.last)


# Layers that end in random weights and have variances to choose.
AFFINE = (AffineLayer,)


def refuse_one_of_two(C_b: Hyperparameter | None, C_W: Hyperparameter | None) -> None:
    """Refuse one variance without the other."""
    if (C_b is None) != (C_W is None):
        given, missing = ("C_W", "C_b") if C_b is None else ("C_b", "C_W")
        raise ValueError(
            f"{given} was given without {missing}: pass both, or neither for the critical point."
        )


def as_hyperparameter(
    name: str, value: Hyperparameter, shape: tuple[int, ...], positive: bool = False
) -> Array:
    """An array of `shape` from one number, or from as many as the shape has layers."""
    try:
        array = jnp.asarray(value, dtype=float)
    except (TypeError, ValueError):
        more = ", or one per affine layer" if shape else ""
        raise ValueError(f"{name} must be a number{more}, got {value!r}.") from None
    if array.shape not in ((), shape):
        more = (
            f", or {shape[0]} of them (one per affine layer of {shape[0] - 1} hidden layers)" if shape else ""
        )
        raise ValueError(f"{name} has shape {array.shape}; give one number{more}.")
    if not isinstance(array, Tracer):
        numbers = np.asarray(array)
        allowed = numbers > 0 if positive else numbers >= 0
        if not (allowed & np.isfinite(numbers)).all():
            bound = "positive" if positive else "zero or positive"
            raise ValueError(f"{name} must be finite and {bound}, got {value}.")
    return jnp.broadcast_to(array, shape)
