"""The interface of a layer: shapes, random parameters, outputs and learning rates."""

import dataclasses
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from finitewidth._base.checks import is_number
from finitewidth.architecture.parametrisation import NTK, Geometry, Parametrisation
from finitewidth.architecture.saving import save
from finitewidth.architecture.weights import Law, Precision

Shape = tuple[int, ...]
# A list of layers, each a table of settings.
Spec = Sequence[dict[str, Any]]
AnyLayer = TypeVar("AnyLayer", bound="Layer")


class Surroundings(NamedTuple):
    """What a layer must know about the network around it.

    Attributes
    ----------
    parametrisation
        How variances and rates scale with width.
    first, last
        Whether no layer below, or above, has parameters.
    width
        Width of the last hidden layer; 1 without any.
    """

    parametrisation: Parametrisation = NTK()
    first: bool = True
    last: bool = True
    width: int = 1


class Layer(eqx.Module):
    """One layer of a network, or a whole network: a function of (params, x) that acts on every input alone.

    `entering` and `leaving` are shapes of one input without the axis of points, channels last. What a layer
    does to the kernels of infinitely wide networks is said by its rules in
    `finitewidth.statistics.wide.rules`.
    """

    @abstractmethod
    def leaving(self, entering: Shape) -> Shape:
        """Shape of one output for inputs of shape `entering`; refuses shapes that do not fit."""

    @abstractmethod
    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> PyTree:
        """Draw the parameters, a tree of arrays; an empty tuple for a layer that has none."""

    @abstractmethod
    def apply(self, params: PyTree, x: Array) -> Array:
        """Outputs (points, *leaving) at the inputs x (points, *entering)."""

    @abstractmethod
    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> PyTree:
        """A tree of numbers that `jax.tree.broadcast` fits to the parameters: the learning-rate tensor."""

    def training_pass(self, params: PyTree, x: Array, key: PRNGKeyArray) -> Array:
        """Outputs of a network in training, where layers may draw at random; the same as `apply` for most."""
        return self.apply(params, x)

    def channels(self, entering: int | None) -> int | None:
        """Channels that leave for this many that enter; None where that is not known."""
        return None if entering is None else self.leaving((entering,))[-1]

    def with_inner(self: AnyLayer, change: "Callable[[Layer], Layer]") -> AnyLayer:
        """The same layer with `change` applied to each layer directly inside it."""
        return self

    def entry(self) -> dict[str, Any]:
        """This layer as plain data: its word under "layer", and its settings."""
        raise TypeError(
            f"a {type(self).__name__} has no word in a spec: give the class `entry` and `from_entry` and "
            "register it with finitewidth.architecture.word."
        )

    @property
    def spec(self) -> list[dict[str, Any]]:
        """This network as plain data, which `finitewidth.network` reads."""
        return [self.entry()]

    def within(self, around: Surroundings) -> "Layer":
        """This layer as part of a network; only layers whose variances or rates scale with width differ."""
        return self

    def parts(self) -> list["Layer"]:
        """The layers inside, from the inputs to the outputs; a simple layer is its own and only part."""
        return [self]

    def has_parameters(self, entering: Shape) -> bool:
        """Whether anything in this layer is random and trained."""
        return bool(jax.tree.leaves(self.learning_rates(entering)))

    def check(self, params: PyTree, x: Array) -> None:
        """Refuse parameters of another network, or inputs that this one does not take."""
        expected = jax.eval_shape(lambda key: self.init(key, x.shape[1:]), jax.random.key(0))
        shapes = lambda tree: jax.tree.map(jnp.shape, tree)
        if jax.tree.structure(params) != jax.tree.structure(expected):
            raise ValueError(
                f"params is a tree {jax.tree.structure(params)}; this network with inputs of shape "
                f"{x.shape[1:]} needs {jax.tree.structure(expected)}."
            )
        if shapes(params) != shapes(expected):
            raise ValueError(
                f"params holds arrays of shapes {shapes(params)}; this network with inputs of shape "
                f"{x.shape[1:]} needs {shapes(expected)}."
            )

    def save(self, path: str | os.PathLike) -> Path:
        """Write the network's description into one file; `finitewidth.load` reads it.

        Every bit comes back. The file is an NPZ archive with nothing executable in it; one of that name is
        replaced once the new one is complete.
        """
        return save(self, path)


def as_shape(name: str, shape: Shape | int) -> Shape:
    """A shape of positive whole numbers; one number n stands for (n,)."""
    sizes = as_sizes(name, shape if isinstance(shape, tuple | list) else (shape,))
    if not sizes:
        raise ValueError(f"{name} must hold positive whole numbers, got {shape!r}.")
    return sizes


def as_sizes(name: str, values: Iterable[int]) -> tuple[int, ...]:
    """Positive whole numbers as plain ones; one sentence for anything else."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of positive whole numbers, got {values!r}.")
    sizes = tuple(values)
    if not all(is_number(size) and 1 <= size < math.inf and size == int(size) for size in sizes):
        raise ValueError(f"{name} must hold positive whole numbers, got {sizes}.")
    return tuple(int(size) for size in sizes)


def replaced(layer: AnyLayer, /, **fields: Any) -> AnyLayer:
    """A copy of the layer with some of its fields changed, static ones too."""
    copy = object.__new__(type(layer))
    for field in dataclasses.fields(layer):
        object.__setattr__(copy, field.name, fields.get(field.name, getattr(layer, field.name)))
    return copy
