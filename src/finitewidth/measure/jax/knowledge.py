"""What is known of the values of a program of JAX before it runs, and the sites that are found in it."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from finitewidth.measure.activation_names import GRID
from finitewidth.measure.jax.elementwise import elementwise

# Operations that leave the numbers as they are, in another order or shape.
MOVES = {"broadcast_in_dim", "convert_element_type", "copy", "reshape", "rev", "squeeze", "transpose"}


class Record(eqx.Module):
    """A site as the compiled program returns it."""

    parameter: str = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    layer: tuple[int, ...] = eqx.field(static=True)
    activation: str | None = eqx.field(static=True)
    gate: bool = eqx.field(static=True)
    tap: int = eqx.field(static=True)
    place: tuple[int, ...] = eqx.field(static=True)
    entering: Array
    leaving: Array
    activated: Array | None


@dataclasses.dataclass
class Found:
    """A site while the program is read: what follows it is not known yet."""

    parameter: str = ""
    kind: str = "dense"
    in_stack: bool = False
    layer: tuple[int, ...] = ()
    activation: str | None = None
    tap: int = 0
    place: tuple[int, ...] = ()
    entering: Any = None
    leaving: Any = None
    activated: Any = None
    weighs: bool = False
    carries: bool = False

    @property
    def gate(self) -> bool:
        """Whether its activation only weighs other numbers."""
        return self.weighs and not self.carries

    def record(self) -> Record:
        return Record(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Record)})

    @property
    def arrays(self) -> tuple:
        return self.entering, self.leaving, self.activated


@dataclasses.dataclass(frozen=True, eq=False)
class Unfinished:
    """A contraction whose scaling and bias may still come."""

    found: Found
    units: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Root:
    """A value that is no function, entry by entry, of another one."""

    value: Any
    site: int
    units: tuple[int, ...] | None
    leaves_site: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known of a value before the program runs."""

    data: bool = False
    """Whether it depends on the inputs."""
    parameter: str | None = None
    """The parameter that it is made of, if it does not."""
    in_stack: bool = False
    """Whether the parameter is one of a stack that a scan goes through."""
    uniform: float | None = None
    """The number that every entry of a constant equals."""
    site: int = -1
    """The last site that it depends on; -1 for what was there before."""
    root: Root | None = None
    """The value of whose entries it is a function, entry by entry."""
    curve: np.ndarray | None = None
    """The function, on the grid."""
    layout: object = None
    """The order and shape in which the entries stand."""
    units: tuple[int, ...] | None = None
    """The axes of the units of the last site."""
    linear_in: frozenset[int] = frozenset()
    """The sites whose numbers it holds, moved, scaled or summed."""
    mixed: bool = False
    """Whether it is so made of a product of activations with activations."""
    unfinished: Unfinished | None = None
    """The site that it is about to leave."""


def uniform_of(value: Any) -> float | None:
    """The number that all entries of a constant equal, if they do."""
    if isinstance(value, Tracer) or not jnp.issubdtype(jnp.result_type(value), np.number):
        return float(value) if isinstance(value, bool | np.bool_) else None
    array = np.asarray(value)
    return float(array.ravel()[0]) if array.size and np.all(array == array.ravel()[0]) else None


def fresh(value: Any, site: int, units: tuple[int, ...] | None = None, **known: Any) -> Knowledge:
    """What is known of a value that is no function, entry by entry, of another one."""
    root = Root(value, site, units)
    return Knowledge(data=True, site=site, root=root, curve=GRID, layout=root, units=units, **known)


def inside_body(knowledge: Knowledge, *, changes: bool, in_stack: bool = False) -> Knowledge:
    """What is known within the body of a scan."""
    if knowledge.data:
        return Knowledge(data=True)
    if knowledge.parameter is not None:
        return Knowledge(parameter=knowledge.parameter, in_stack=in_stack)
    return Knowledge(uniform=None if changes else knowledge.uniform)


def without_data(eqn: JaxprEqn, values: list, known: list[Knowledge]) -> Knowledge:
    """What is known of a value that is made of parameters and constants."""
    weights = [(jnp.size(v), k) for v, k in zip(values, known, strict=True) if k.parameter is not None]
    if weights:
        largest = max(weights, key=lambda weight: weight[0])[1]
        return Knowledge(parameter=largest.parameter, in_stack=any(k.in_stack for _, k in weights))
    numbers = [k.uniform for k in known]
    if not numbers or any(number is None for number in numbers):
        return Knowledge()
    if eqn.primitive.name in MOVES:
        return Knowledge(uniform=numbers[0] if len(set(numbers)) == 1 else None)
    value = elementwise(eqn.primitive.name, numbers, eqn.params)
    return Knowledge(uniform=None if value is None else float(value))
