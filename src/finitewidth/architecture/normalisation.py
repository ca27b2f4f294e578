r"""Normalisation over channels, with or without a trained gain and shift."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import as_number, as_precision
from finitewidth.architecture.dense import Hyperparameter, as_hyperparameter
from finitewidth.architecture.layer import Layer, Shape, Surroundings, as_shape, replaced
from finitewidth.architecture.parametrisation import Geometry, Place
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision


class GainAndShift(NamedTuple):
    """One number per channel each, or None where a norm has none; also what comes one per each of them."""

    gain: Array | float | None
    shift: Array | float | None


class Normalisation(Layer):
    r"""Divides the channels of every input by their size, then applies a gain and a shift.

    Parameters
    ----------
    lambda_g, lambda_s
        Learning rates of a gain, which starts at one, and of a shift, which starts at zero; one of each
        per channel. `None`, the default, means that there is none.
    epsilon
        Added to the mean square by which the channels are divided.
    """

    lambda_g: Float[Array, ""] | None
    lambda_s: Float[Array, ""] | None
    epsilon: float = eqx.field(static=True)
    around: Surroundings = eqx.field(static=True)

    def __init__(
        self,
        lambda_g: Hyperparameter | None = None,
        lambda_s: Hyperparameter | None = None,
        epsilon: float = 1e-12,
    ):
        self.lambda_g = None if lambda_g is None else as_hyperparameter("lambda_g", lambda_g, ())
        self.lambda_s = None if lambda_s is None else as_hyperparameter("lambda_s", lambda_s, ())
        self.epsilon = as_number("epsilon", epsilon)
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be zero or positive, got {epsilon}.")
        self.around = Surroundings()

    @abstractmethod
    def normalised(self, x: Array) -> Array:
        """x with channels of size one."""

    @classmethod
    def from_entry(cls, entry: Entry):
        axes = entry.text("axes", "channels")
        if axes != "channels":
            raise ValueError(f'axes is {axes!r}; a norm is over "channels", at every position on its own.')
        rates = entry.optional_number("lambda_g"), entry.optional_number("lambda_s")
        return cls(*rates, epsilon=entry.number("epsilon", 1e-12))

    def entry(self) -> dict[str, object]:
        rates = {"lambda_g": self.lambda_g, "lambda_s": self.lambda_s}
        given = {name: float(rate) for name, rate in rates.items() if rate is not None}
        return {"layer": type(self).__name__, "axes": "channels", **given, "epsilon": self.epsilon}

    def within(self, around: Surroundings):
        return replaced(self, around=around)

    def leaving(self, entering: Shape) -> Shape:
        return entering

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> GainAndShift:
        channels, dtype = as_shape("entering", entering)[-1:], as_precision(dtype)
        return GainAndShift(
            None if self.lambda_g is None else jnp.ones(channels, dtype),
            None if self.lambda_s is None else jnp.zeros(channels, dtype),
        )

    def apply(self, params: GainAndShift, x: Array) -> Array:
        x = self.normalised(x)
        for given in params:
            if given is not None and jnp.shape(given) != x.shape[-1:]:
                raise ValueError(
                    f"a {type(self).__name__} got inputs of shape {x.shape[1:]}; its gain and shift, "
                    f"{jnp.shape(given)}, take {jnp.shape(given)[0]} channels."
                )
        if params.gain is not None:
            x = x * params.gain
        return x if params.shift is None else x + params.shift

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> GainAndShift:
        """Like those of biases: neither gain nor shift has a fan-in."""
        channels = as_shape("entering", entering)[-1]
        place = Place(channels, channels, self.around.width, self.around.first, self.around.last)
        power = 1.0 if geometry == "gradient" else 0.5
        rate = self.around.parametrisation.rates(place, geometry).bias
        gain, shift = (None if own is None else rate * own**power for own in (self.lambda_g, self.lambda_s))
        return GainAndShift(gain, shift)


@word("LayerNorm")
class LayerNorm(Normalisation):
    r"""$(z - \bar z)/\sqrt{\overline{(z-\bar z)^2}+\epsilon}$, means over the channels of one input."""

    __init__ = Normalisation.__init__

    def normalised(self, x: Array) -> Array:
        return _divided(x - jnp.mean(x, axis=-1, keepdims=True), self.epsilon)


@word("RMSNorm")
class RMSNorm(Normalisation):
    r"""$z/\sqrt{\overline{z^2}+\epsilon}$, the mean over the channels of one input."""

    __init__ = Normalisation.__init__

    def normalised(self, x: Array) -> Array:
        return _divided(x, self.epsilon)


def _divided(x: Array, epsilon: float) -> Array:
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + epsilon)
