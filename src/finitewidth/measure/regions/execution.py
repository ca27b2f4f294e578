"""Run a network's operations on cells: affine maps go through, gates split the cells."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer

from finitewidth.measure.regions.cells import Cells
from finitewidth.measure.regions.program import (
    Gate,
    Join,
    Largest,
    Linear,
    Operation,
    Pick,
    Program,
    Scale,
    Select,
    Total,
)

# A neuron is zero at a corner if it is smaller than this share of the terms it is a sum of.
TOLERANCE = 1e-12
# Rounding of such a sum.
_NOISE = 1e-13
_ENTRIES = 1_000_000


class Found(NamedTuple):
    """Cells with their activation patterns and affine maps.

    `patterns` (cells, neurons) holds 1 for an open gate and 0 for a shut one, and the number of the winner
    for a group; `maps` (cells, coordinates, outputs) the coefficients of the outputs.
    """

    cells: Cells
    patterns: Integer[np.ndarray, "cells neurons"]
    maps: Float[np.ndarray, "cells coordinates out"]
    parents: Int[np.ndarray, " cells"]


class _Batch:
    """Some cells on their way through the operations, with the values that are still needed."""

    def __init__(self, place: int, cells: Cells, values: dict, sizes: dict, gates: dict, parents: np.ndarray):
        self.place, self.cells, self.values, self.sizes = place, cells, values, sizes
        self.gates, self.parents = gates, parents

    def take(self, index: np.ndarray | slice, cells: Cells | None = None) -> "_Batch":
        taken = lambda arrays: {name: array[index] for name, array in arrays.items()}
        cells = self.cells.take(index) if cells is None else cells
        return _Batch(
            self.place, cells, taken(self.values), self.sizes, taken(self.gates), self.parents[index]
        )


def execute(program: Program, cells: Cells, inputs: Float[np.ndarray, "cells coordinates n_0"]) -> Found:
    """Split cells until the network is affine on each of them.

    `inputs` are the coefficients of the network's input as an affine function of a cell's coordinates.
    Cells go through in batches, so that memory stays bounded however many there are.
    """
    last = program.last_reader()
    sizes = {0: np.einsum("k,ckn->cn", cells.reach(), np.abs(inputs)).max(axis=0)}
    waiting = [_Batch(0, cells, {0: inputs}, sizes, {}, np.arange(len(cells)))]
    done: list[_Batch] = []
    while waiting:
        batch = waiting.pop()
        while batch.place < len(program.operations):
            operation = program.operations[batch.place]
            entries = inputs.shape[1] * max(program.lengths[s] for s in (*operation.sources, batch.place + 1))
            if len(batch.cells) > 1 and len(batch.cells) * entries > _ENTRIES:
                step = max(1, _ENTRIES // entries)
                rest = range(step, len(batch.cells), step)
                waiting += [batch.take(slice(start, start + step)) for start in rest]
                batch = batch.take(slice(0, step))
            batch = _advance(batch, operation)
            batch.place += 1
            for value in [v for v in batch.values if last[v] < batch.place]:
                del batch.values[value]
        done.append(batch)
    return _collected(program, done)


def _advance(batch: _Batch, operation: Operation) -> _Batch:
    """One operation; a gate or a maximum splits the cells."""
    new = batch.place + 1
    values, sizes = batch.values, batch.sizes
    if isinstance(operation, Gate):
        return _through_gate(batch, operation)
    if isinstance(operation, Largest):
        return _through_maximum(batch, operation)
    if isinstance(operation, Linear):
        z = _product(operation.matrix, values[operation.source])
        z[:, -1] += operation.bias
        size = abs(operation.matrix) @ sizes[operation.source] + np.abs(operation.bias)
        values[new], batch.sizes = _without_noise(batch, z, size), {**sizes, new: size}
    elif isinstance(operation, Scale):
        values[new] = values[operation.source] * operation.factors
        batch.sizes = {**sizes, new: sizes[operation.source] * np.abs(operation.factors)}
    elif isinstance(operation, Pick):
        source, index = values[operation.source], operation.index
        values[new] = np.where(index < 0, 0.0, source[:, :, index])
        batch.sizes = {**sizes, new: np.where(index < 0, 0.0, sizes[operation.source][index])}
    elif isinstance(operation, Total):
        size = np.sum([sizes[source] for source in operation.sources], axis=0)
        total = np.sum([values[source] for source in operation.sources], axis=0)
        values[new], batch.sizes = _without_noise(batch, total, size), {**sizes, new: size}
    elif isinstance(operation, Join):
        values[new] = np.concatenate([values[source] for source in operation.sources], axis=2)
        batch.sizes = {**sizes, new: np.concatenate([sizes[source] for source in operation.sources])}
    elif isinstance(operation, Select):
        values[new] = _selected(batch, operation)
        batch.sizes = {**sizes, new: _sizes(batch, values[new])}
    return batch


def _through_gate(batch: _Batch, operation: Gate) -> _Batch:
    z = batch.values[operation.source]
    allowed = TOLERANCE * batch.sizes[operation.source]
    sides = batch.cells.sides(z, allowed)
    if sides.cut.any():
        split = batch.cells.split(z, sides, allowed)
        batch, gates = batch.take(split.parents, split.cells), split.sides
    else:
        gates = sides.positive
    batch.gates[batch.place + 1] = gates
    return batch


def _through_maximum(batch: _Batch, operation: Largest) -> _Batch:
    new, source = batch.place + 1, operation.source
    z, sizes = batch.values[source], batch.sizes
    split = batch.cells.largest(z, operation.groups, TOLERANCE * sizes[source])
    batch = batch.take(split.parents, split.cells)
    winners = np.take_along_axis(operation.groups[None], split.sides[:, :, None], axis=2)[:, :, 0]
    batch.values[new] = np.take_along_axis(batch.values[source], winners[:, None, :], axis=2)
    members = np.where(operation.groups < 0, 0.0, sizes[source][operation.groups])
    batch.gates[new], batch.sizes = split.sides, {**sizes, new: members.max(axis=1)}
    return batch


def _selected(batch: _Batch, operation: Select) -> np.ndarray:
    gate = batch.gates[operation.gate][:, None, :]
    low, high = (None if v is None else batch.values[v] for v in (operation.low, operation.high))
    if high is None:
        return np.zeros_like(low) if low is None else low * ~gate
    return high * gate if low is None else np.where(gate, high, low)


def _without_noise(batch: _Batch, value: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Zero what is no more than the rounding of a sum: to later layers it would look like a neuron."""
    value[np.abs(value) * batch.cells.reach()[:, None] <= _NOISE * size] = 0.0
    return value


def _sizes(batch: _Batch, value: np.ndarray) -> np.ndarray:
    """How large each entry gets in any cell, from its coefficients."""
    largest = np.maximum(value.max(axis=0), -value.min(axis=0))
    return batch.cells.reach() @ largest


def _product(matrix, coefficients: np.ndarray) -> np.ndarray:
    cells, coordinates, n = coefficients.shape
    rows = coefficients.reshape(cells * coordinates, n)
    product = rows @ matrix.T if isinstance(matrix, np.ndarray) else (matrix @ rows.T).T
    return np.ascontiguousarray(product).reshape(cells, coordinates, -1)


def _collected(program: Program, done: list[_Batch]) -> Found:
    kinds = [batch.cells for batch in done]
    members = [o.groups.shape[1] for o in program.operations if isinstance(o, Largest)]
    small = np.uint8 if max(members, default=2) <= 256 else np.uint32
    patterns = [
        np.concatenate(
            [np.zeros((len(batch.cells), 0), small), *(gate.astype(small) for gate in batch.gates.values())],
            axis=1,
        )
        for batch in done
    ]
    return Found(
        kinds[0].joined(kinds[1:]),
        np.concatenate(patterns),
        np.concatenate([batch.values[program.output] for batch in done]),
        np.concatenate([batch.parents for batch in done]),
    )
