"""A piecewise-linear network as a list of operations on rows of numbers, whatever framework it came from.

Value 0 is the input, a row of n_0 numbers. An operation makes the next value from earlier ones:

    Linear    matrix @ value + bias              the matrix dense, or sparse for convolutions and pooling
    Scale     factors * value, entry by entry
    Pick      value[index], zero where index < 0
    Total     a sum of values of one length      residual connections
    Join      values one after the other
    Gate      value > 0, a yes or no per entry   here regions split
    Select    one of two values, entry by entry  after a gate: ReLU is Select(z > 0, z, 0)
    Largest   the largest of each group          here regions split, too: max pooling
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

Matrix = np.ndarray | scipy.sparse.csr_array


class Linear(NamedTuple):
    """matrix @ value + bias."""

    source: int
    matrix: Matrix
    bias: Float[np.ndarray, " m"]

    @property
    def sources(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.source,)


class Scale(NamedTuple):
    """value * factors, entry by entry."""

    source: int
    factors: Float[np.ndarray, " m"]

    @property
    def sources(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.source,)


class Pick(NamedTuple):
    """value[index], and zero where the index is negative."""

    source: int
    index: Int[np.ndarray, " m"]

    @property
    def sources(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.source,)


class Total(NamedTuple):
    """The sum of values of one length."""

    sources: tuple[int, ...]


class Join(NamedTuple):
    """Values one after the other."""

    sources: tuple[int, ...]


class Gate(NamedTuple):
    """Whether each entry is positive; a region lies on one side of every gate."""

    source: int

    @property
    def sources(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.source,)


class Select(NamedTuple):
    """`high` where the gate is open and `low` where it is shut; None stands for zero."""

    gate: int
    low: int | None
    high: int | None

    @property
    def sources(self) -> tuple[int, ...]:
        """What it reads."""
        return tuple(value for value in self if value is not None)


class Largest(NamedTuple):
    """The largest entry of each group; a region has one winner per group. A negative index is no member."""

    source: int
    groups: Int[np.ndarray, "groups members"]

    @property
    def sources(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.source,)


Operation = Linear | Scale | Pick | Total | Join | Gate | Select | Largest


class Program(NamedTuple):
    """A network as operations.

    Attributes
    ----------
    entering
        Shape of one input.
    operations
        Operation i makes value i + 1.
    lengths
        Length of every value, the input first.
    output
        Which value is the output.
    leaving
        Shape of one output.
    """

    entering: tuple[int, ...]
    operations: tuple[Operation, ...]
    lengths: tuple[int, ...]
    output: int
    leaving: tuple[int, ...]

    @property
    def neurons(self) -> int:
        """How many gates and groups there are: columns of an activation pattern."""
        return sum(
            self.lengths[place + 1]
            for place, operation in enumerate(self.operations)
            if isinstance(operation, Gate | Largest)
        )

    def last_reader(self) -> list[int]:
        """The last operation that reads each value; the output is read at the end."""
        last = [-1] * len(self.lengths)
        for place, operation in enumerate(self.operations):
            for source in operation.sources:
                last[source] = place
        last[self.output] = len(self.operations)
        return last


class Builder:
    """Collects operations; values that nothing reads are left out in the end."""

    def __init__(self, entering: tuple[int, ...]):
        self.entering = entering
        self._operations: list[Operation] = []
        self._lengths = [int(np.prod(entering))]

    def length(self, value: int) -> int:
        """Entries of a value."""
        return self._lengths[value]

    def linear(self, value: int, matrix: Matrix, bias: np.ndarray | float = 0.0) -> int:
        """matrix @ value + bias."""
        rows = matrix.shape[0]  # pyright: ignore[reportOptionalSubscript]  (of a sparse array, always known)
        bias = np.broadcast_to(np.asarray(bias, float), (rows,))
        return self._add(Linear(value, matrix, bias), rows)

    def shift(self, value: int, by: np.ndarray) -> int:
        """value + by."""
        below = self._made(value)
        if isinstance(below, Linear):
            return self._add(below._replace(bias=below.bias + by), self.length(value))
        return self.linear(value, scipy.sparse.csr_array(scipy.sparse.eye_array(self.length(value))), by)

    def scale(self, value: int, by: np.ndarray) -> int:
        """value * by, entry by entry."""
        by = np.broadcast_to(np.asarray(by, float), (self.length(value),))
        return self._add(Scale(value, by), self.length(value))

    def pick(self, value: int, index: np.ndarray) -> int:
        """value[index], zero where the index is negative; nothing happens if that is the value itself."""
        index = np.asarray(index).reshape(-1)
        if len(index) == self.length(value) and np.array_equal(index, np.arange(len(index))):
            return value
        return self._add(Pick(value, index), len(index))

    def total(self, *values: int) -> int:
        """A sum of values."""
        return self._add(Total(values), self.length(values[0]))

    def join(self, *values: int) -> int:
        """Values one after the other."""
        return self._add(Join(values), sum(map(self.length, values)))

    def gate(self, value: int) -> int:
        """value > 0."""
        return self._add(Gate(value), self.length(value))

    def select(self, gate: int, low: int | None, high: int | None) -> int:
        """`high` where the gate is open, else `low`; None stands for zero."""
        return self._add(Select(gate, low, high), self.length(gate))

    def largest(self, value: int, groups: np.ndarray) -> int:
        """The largest entry of each group (groups, members)."""
        return self._add(Largest(value, np.asarray(groups)), len(groups))

    def constant(self, numbers: np.ndarray) -> int:
        """A value that does not depend on the input."""
        numbers = np.asarray(numbers, float).reshape(-1)
        return self.linear(0, scipy.sparse.csr_array((len(numbers), self.length(0))), numbers)

    def maximum(self, one: int, other: int | np.ndarray) -> int:
        """The larger of two values, entry by entry, or of a value and numbers."""
        if isinstance(other, np.ndarray):
            if np.all(other == -np.inf):
                return one
            if not np.all(np.isfinite(other)):
                raise ValueError("a maximum with infinite numbers is not piecewise linear.")
            above = self.shift(one, -other.reshape(-1)) if np.any(other) else one
            clipped = self.select(self.gate(above), None, above)
            return self.shift(clipped, other.reshape(-1)) if np.any(other) else clipped
        gate = self.gate(self.total(one, self.scale(other, np.array(-1.0))))
        return self.select(gate, other, one)

    def program(self, output: int, leaving: tuple[int, ...]) -> Program:
        """All that the output needs; a gate that it does not need is no boundary."""
        needed = {0, output}
        for place in range(output - 1, -1, -1):
            if place + 1 in needed:
                needed.update(self._operations[place].sources)
        kept = sorted(needed)
        new = {old: place for place, old in enumerate(kept)}
        operations = tuple(_renamed(self._operations[old - 1], new) for old in kept[1:])
        lengths = tuple(self._lengths[old] for old in kept)
        return Program(self.entering, operations, lengths, new[output], leaving)

    def _made(self, value: int) -> Operation | None:
        return self._operations[value - 1] if value else None

    def _add(self, operation: Operation, length: int) -> int:
        self._operations.append(operation)
        self._lengths.append(length)
        return len(self._operations)


def _renamed(operation: Operation, new: dict[int, int]) -> Operation:
    if isinstance(operation, Total | Join):
        return operation._replace(sources=tuple(new[source] for source in operation.sources))
    if isinstance(operation, Select):
        low, high = (None if value is None else new[value] for value in (operation.low, operation.high))
        return Select(new[operation.gate], low, high)
    return operation._replace(source=new[operation.source])
