"""Layers one after the other, and one layer many times."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
from jax import lax
from jaxtyping import Array, PRNGKeyArray, PyTree

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.critical_point import critical_variances
from finitewidth.architecture.dense import AFFINE
from finitewidth.architecture.layer import Layer, Shape, Surroundings, as_shape, replaced
from finitewidth.architecture.parametrisation import Geometry, Parametrisation, as_parametrisation
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision


class Sequential(Layer):
    """Layers one after the other; a `Sequential` among them is taken apart.

    Parameters
    ----------
    layers
        From the inputs to the outputs. A `Dense` without variances gets the critical point of the
        activation below it, or else above it.
    parametrisation
        How variances and rates scale with width: "ntk", "standard", "mean-field", "mup" or
        "mup:BASE_WIDTH". Within another network, the parametrisation of that network counts.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.Sequential(fw.Dense(64), fw.Activate("relu"), fw.Dense(1))
    >>> params = net.init(jax.random.key(0), 3)
    >>> net.apply(params, jax.numpy.ones((5, 3))).shape
    (5, 1)
    """

    layers: tuple[Layer, ...]
    around: Surroundings = eqx.field(static=True)

    def __init__(self, *layers: Layer, parametrisation: str | Parametrisation = "ntk"):
        if not layers:
            raise ValueError("Sequential needs at least one layer.")
        for number, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise TypeError(f"Sequential takes layers; argument {number} is {layer!r}.")
        self.layers = tuple(_with_critical_variances(self.flat(layers)))
        self.around = Surroundings(as_parametrisation(parametrisation))

    @staticmethod
    def flat(layers: Iterable[Layer]) -> list[Layer]:
        """The layers, those of a `Sequential` among them one by one."""
        return [
            inner
            for layer in layers
            for inner in (layer.layers if isinstance(layer, Sequential) else (layer,))
        ]

    @property
    def parametrisation(self) -> Parametrisation:
        """How variances and rates scale with width."""
        return self.around.parametrisation

    @property
    def spec(self) -> list[dict[str, Any]]:
        return [entry for layer in self.layers for entry in layer.spec]

    def within(self, around: Surroundings) -> "Sequential":
        return replaced(self, around=around)

    def with_inner(self, change: Callable[[Layer], Layer]) -> "Sequential":
        return replaced(self, layers=tuple(change(layer) for layer in self.layers))

    def channels(self, entering: int | None) -> int | None:
        for layer in self.layers:
            entering = layer.channels(entering)
        return entering

    def parts(self) -> list[Layer]:
        return [part for layer in self.layers for part in layer.parts()]

    def leaving(self, entering: Shape) -> Shape:
        return self._shapes(entering)[-1]

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> tuple[PyTree, ...]:
        placed, shapes = self._placed(as_shape("entering", entering))
        random = [layer.has_parameters(shape) for layer, shape in zip(placed, shapes, strict=True)]
        keys = iter(jax.random.split(key, max(sum(random), 1)))
        return tuple(
            layer.init(next(keys) if drawn else key, shape, weights=weights, dtype=dtype)
            for drawn, layer, shape in zip(random, placed, shapes, strict=True)
        )

    def apply(self, params: tuple[PyTree, ...], x: Array) -> Array:
        self._check_count(params)
        for layer, own in zip(self.layers, params, strict=True):
            x = layer.apply(own, x)
        return x

    def training_pass(self, params: tuple[PyTree, ...], x: Array, key: PRNGKeyArray) -> Array:
        self._check_count(params)
        for layer, own, drawn in zip(
            self.layers, params, jax.random.split(key, len(self.layers)), strict=True
        ):
            x = layer.training_pass(own, x, drawn)
        return x

    def _check_count(self, params: tuple[PyTree, ...]) -> None:
        if not isinstance(params, tuple | list) or len(params) != len(self.layers):
            count = f"{len(params)} entries" if isinstance(params, tuple | list) else type(params).__name__
            raise ValueError(f"params has {count}; this network has {len(self.layers)} layers.")

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[PyTree, ...]:
        placed, shapes = self._placed(as_shape("entering", entering))
        return tuple(
            layer.learning_rates(shape, geometry) for layer, shape in zip(placed, shapes, strict=True)
        )

    def _shapes(self, entering: Shape) -> list[Shape]:
        shapes = [entering]
        for number, layer in enumerate(self.layers):
            try:
                shapes.append(layer.leaving(shapes[-1]))
            except ValueError as error:
                # The innermost sequence says where in it the layer stands.
                at = "" if str(error).startswith("layer ") else f"layer {number}: "
                raise ValueError(f"{at}{error}") from None
        return shapes

    def _placed(self, entering: Shape) -> tuple[list[Layer], list[Shape]]:
        """Every layer as it stands in this network, and the shape that enters it."""
        shapes = self._shapes(entering)[:-1]
        random = [i for i, layer in enumerate(self.layers) if layer.has_parameters(shapes[i])]
        if not random:
            return list(self.layers), shapes
        around = self.around
        if around.last and len(random) > 1:
            around = around._replace(width=shapes[random[-1]][-1])
        edges = [
            around._replace(first=around.first and i <= random[0], last=around.last and i >= random[-1])
            for i in range(len(self.layers))
        ]
        return [layer.within(edge) for layer, edge in zip(self.layers, edges, strict=True)], shapes


@word("Repeat")
class Repeat(Layer):
    """One layer many times over, each time with parameters of its own.

    The parameters are those of the layer with one more axis in front, and the time to compile does not
    grow with `times`.
    """

    layer: Layer
    times: int = eqx.field(static=True)

    def __init__(self, layer: Layer, times: int):
        if not isinstance(layer, Layer):
            raise TypeError(f"Repeat takes a layer, got {layer!r}.")
        self.layer = layer
        (self.times,) = as_shape("times", times)

    @classmethod
    def from_entry(cls, entry: Entry) -> "Repeat":
        body = entry.layers("body")
        return cls(body[0] if len(body) == 1 else Sequential(*body), entry.value("times"))

    def entry(self) -> dict[str, Any]:
        return {"layer": "Repeat", "times": self.times, "body": self.layer.spec}

    def with_inner(self, change: Callable[[Layer], Layer]) -> "Repeat":
        return replaced(self, layer=change(self.layer))

    def channels(self, entering: int | None) -> int | None:
        return self.layer.channels(entering)

    def parts(self) -> list[Layer]:
        return self.layer.parts() * self.times

    def leaving(self, entering: Shape) -> Shape:
        leaving = self.layer.leaving(entering)
        if leaving != entering:
            raise ValueError(
                f"the layer of a Repeat turns inputs of shape {entering} into {leaving}; they must be equal."
            )
        return leaving

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> PyTree:
        draw = lambda k: self.layer.init(k, entering, weights=weights, dtype=dtype)
        return jax.vmap(draw)(jax.random.split(key, self.times))

    def apply(self, params: PyTree, x: Array) -> Array:
        return lax.scan(lambda x, own: (self.layer.apply(own, x), None), x, params, length=self.times)[0]

    def training_pass(self, params: PyTree, x: Array, key: PRNGKeyArray) -> Array:
        def step(x: Array, own: tuple[PyTree, PRNGKeyArray]) -> tuple[Array, None]:
            return self.layer.training_pass(own[0], x, own[1]), None

        return lax.scan(step, x, (params, jax.random.split(key, self.times)))[0]

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> PyTree:
        return self.layer.learning_rates(entering, geometry)

    def within(self, around: Surroundings) -> "Repeat":
        # The layer stands at the edge of the network only where it stands there every time.
        once = self.times == 1
        inside = around._replace(first=around.first and once, last=around.last and once)
        return replaced(self, layer=self.layer.within(inside))


def _with_critical_variances(layers: list[Layer]) -> list[Layer]:
    """The same layers, each `Dense` that has no variances with those of the activation next to it."""
    found = [activation_of(layer) for layer in layers]
    filled: list[Layer] = []
    for i, layer in enumerate(layers):
        below = next((a for a in reversed(found[:i]) if a is not None), None)
        above = next((a for a in found[i:] if a is not None), None)
        filled.append(_filled(layer, below or above))
    return filled


def _filled(layer: Layer, activation: Activation | None) -> Layer:
    """The layer, its weights without variances, and those of layers inside it, with the critical ones."""
    if isinstance(layer, AFFINE):
        if layer.C_b is not None or activation is None:
            return layer
        return layer.with_variances(*critical_variances(activation))
    return layer.with_inner(lambda inner: _filled(inner, activation))


def activation_of(layer: Layer) -> Activation | None:
    """The last activation within a layer, if there is any."""
    if isinstance(layer, Activate):
        return layer.activation
    found: list[Activation | None] = []
    layer.with_inner(lambda inner: (found.append(activation_of(inner)), inner)[1])
    return next((a for a in reversed(found) if a is not None), None)
