"""Networks of JAX as a list of operations: the program that JAX traces, read step by step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse

from finitewidth.measure.regions.program import Builder, Program
from finitewidth.measure.regions.structure import rearranged, summed, window_groups
from finitewidth.measure.regions.windows import convolution


class Value(NamedTuple):
    """What depends on the input: a value of the program, with its shape."""

    place: int
    shape: tuple[int, ...]


class Truth(NamedTuple):
    """A yes or no for every entry: a gate, or its opposite."""

    gate: int
    shape: tuple[int, ...]
    opposite: bool = False


Known = Value | Truth | np.ndarray
KNOWN_ACTIVATIONS = "relu, leaky relu, hard tanh, clip, abs, maximum and max pooling are"


def jax_program(apply: Callable, params: Any, entering: tuple[int, ...]) -> Program:
    """The operations of apply(params, x) at these parameters, for one input of shape `entering`."""
    traced = jax.make_jaxpr(lambda x: apply(params, x))(jax.ShapeDtypeStruct((1, *entering), "float64"))
    if len(traced.out_avals) != 1:
        raise ValueError(f"the network returns {len(traced.out_avals)} arrays; linear regions need one.")
    reader = _Reader(Builder(entering))
    (output,) = reader.read(traced.jaxpr, traced.consts, [Value(0, (1, *entering))])
    value = reader.value(output, traced.out_avals[0].shape)
    return reader.build.program(value.place, value.shape[1:])


class _Reader:
    """Reads the equations of a traced function, keeping track of what depends on the input."""

    def __init__(self, build: Builder):
        self.build = build
        self._within: list[str] = []

    def read(self, jaxpr: Any, consts: Any, arguments: list[Known]) -> list[Known]:
        """The results of a traced function for given arguments."""
        known: dict[Any, Known] = {}
        known.update(zip(jaxpr.constvars, map(np.asarray, consts), strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))
        look = lambda atom: np.asarray(atom.val) if hasattr(atom, "val") else known[atom]
        for equation in jaxpr.eqns:
            found = self._equation(equation, [look(atom) for atom in equation.invars])
            known.update(zip(equation.outvars, found, strict=True))
        return [look(atom) for atom in jaxpr.outvars]

    def value(self, known: Known, shape: tuple[int, ...]) -> Value:
        """Anything as a value of this shape."""
        if isinstance(known, Truth):
            known = self._chosen(known, None, self.build.constant(np.ones(known.shape)))
        if isinstance(known, np.ndarray):
            return Value(self.build.constant(np.broadcast_to(known, shape)), shape)
        if known.shape == shape:
            return known
        index = np.arange(int(np.prod(known.shape))).reshape(known.shape)
        return Value(self.build.pick(known.place, np.broadcast_to(index, shape)), shape)

    def _equation(self, equation: Any, inputs: list[Known]) -> list[Known]:
        name, settings = equation.primitive.name, equation.params
        if name == "scan":
            return self._scan(settings, inputs)
        inner = settings.get("jaxpr", settings.get("call_jaxpr"))
        if inner is not None:
            self._within.append(str(settings.get("name", "")))
            consts = getattr(inner, "consts", ())
            results = self.read(getattr(inner, "jaxpr", inner), consts, inputs)
            self._within.pop()
            return results
        if all(isinstance(known, np.ndarray) for known in inputs):
            return self._numbers(equation, inputs)
        if name == "split" and isinstance(inputs[0], Value):
            return self._taken_apart(settings, inputs[0])
        shape = tuple(equation.outvars[0].aval.shape)
        if name in _ARITHMETIC:
            return [_ARITHMETIC[name](self, inputs, shape, settings)]
        if name in _MOVES and not isinstance(inputs[0], np.ndarray):
            return [self._moved(equation, inputs)]
        raise ValueError(self._refusal(name))

    def _refusal(self, name: str) -> str:
        outer = next((word for word in reversed(self._within) if word and not word.startswith("_")), "")
        words = f"{outer} ({name})" if outer and outer != name else name
        return f"the network applies {words}, which is not piecewise linear: {KNOWN_ACTIVATIONS}."

    def _numbers(self, equation: Any, inputs: list[Any]) -> list[Known]:
        """An operation on numbers that are all known."""
        if equation.primitive.name in _MOVES:
            return [rearranged(equation.primitive, equation.params, inputs)]
        results = equation.primitive.bind(*inputs, **equation.params)
        return [
            np.asarray(array) for array in (results if equation.primitive.multiple_results else [results])
        ]

    def _moved(self, equation: Any, inputs: list[Known]) -> Known:
        """Entries in another order, repeated, left out or among zeros."""
        source, *rest = inputs
        if equation.primitive.name == "convert_element_type":
            return source
        numbers = [known for known in rest if isinstance(known, np.ndarray)]
        if len(numbers) < len(rest):
            raise ValueError(
                f"{equation.primitive.name} with places that depend on the input has no regions."
            )
        source = self.value(source, source.shape)
        index = np.arange(1, int(np.prod(source.shape)) + 1).reshape(source.shape)
        padded_with = numbers[0] if equation.primitive.name == "pad" else np.zeros(())
        if np.any(padded_with):
            raise ValueError(f"padding with {padded_with} is not known; pad with zeros.")
        # Places count from 1, so that 0 is what has been filled in.
        places = rearranged(equation.primitive, equation.params, [index, *numbers])
        return Value(self.build.pick(source.place, places - 1), places.shape)

    def _scan(self, settings: dict, inputs: list[Known]) -> list[Known]:
        """A loop of known length, turn by turn."""
        fixed, carried = settings["num_consts"], settings["num_carry"]
        constant, state, rows = inputs[:fixed], inputs[fixed : fixed + carried], inputs[fixed + carried :]
        if any(not isinstance(row, np.ndarray) for row in rows) or len(settings["jaxpr"].out_avals) > carried:
            raise ValueError("a scan over what depends on the input is not known; write the layers out.")
        turns = range(settings["length"])
        for turn in reversed(turns) if settings["reverse"] else turns:
            arguments = [*constant, *state, *(row[turn] for row in rows if isinstance(row, np.ndarray))]
            state = self.read(settings["jaxpr"].jaxpr, settings["jaxpr"].consts, arguments)
        return state

    def _chosen(self, truth: Truth, low: int | None, high: int | None) -> Value:
        low, high = (high, low) if truth.opposite else (low, high)
        return Value(self.build.select(truth.gate, low, high), truth.shape)

    def _sum(self, inputs: list[Known], shape: tuple[int, ...], settings: dict, sign: int = 1) -> Value:
        one, other = inputs
        if isinstance(one, np.ndarray):
            place = self._times(self.value(other, shape), np.array(float(sign)))
            return Value(self.build.shift(place, np.broadcast_to(one, shape).reshape(-1)), shape)
        place = self.value(one, shape).place
        if isinstance(other, np.ndarray):
            by = sign * np.broadcast_to(other, shape).reshape(-1)
            return Value(self.build.shift(place, by) if np.any(by) else place, shape)
        added = self._times(self.value(other, shape), np.array(float(sign)))
        return Value(self.build.total(place, added), shape)

    def _difference(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        return self._sum(inputs, shape, settings, -1)

    def _times(self, value: Value, by: Any) -> int:
        if np.all(by == 1):
            return value.place
        return self.build.scale(value.place, np.broadcast_to(by, value.shape).reshape(-1))

    def _product(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        one, other = inputs
        for mask, kept in ((one, other), (other, one)):
            if isinstance(mask, Truth) and isinstance(kept, Value):
                return self._chosen(mask, None, self.value(kept, shape).place)
            if isinstance(mask, np.ndarray):
                return Value(self._times(self.value(kept, shape), mask), shape)
        raise ValueError(
            "the network multiplies two things that depend on the input, which is not piecewise linear: "
            f"{KNOWN_ACTIVATIONS}."
        )

    def _quotient(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        one, other = inputs
        if not isinstance(other, np.ndarray):
            raise ValueError(self._refusal("div"))
        return Value(self._times(self.value(one, shape), 1 / np.asarray(other, float)), shape)

    def _negative(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        return Value(self._times(self.value(inputs[0], shape), np.array(-1.0)), shape)

    def _absolute(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        value = self.value(inputs[0], shape)
        gate = self.build.gate(value.place)
        return Value(self.build.select(gate, self._times(value, np.array(-1.0)), value.place), shape)

    def _larger(self, inputs: list[Known], shape: tuple[int, ...], settings: dict, sign: int = 1) -> Value:
        one, other = inputs if not isinstance(inputs[0], np.ndarray) else inputs[::-1]
        place = self._times(self.value(one, shape), np.array(float(sign)))
        if isinstance(other, np.ndarray):
            against: int | np.ndarray = sign * np.broadcast_to(np.asarray(other, float), shape)
        else:
            against = self._times(self.value(other, shape), np.array(float(sign)))
        found = Value(self.build.maximum(place, against), shape)
        return Value(self._times(found, np.array(float(sign))), shape)

    def _smaller(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        return self._larger(inputs, shape, settings, -1)

    def _clamped(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        low, value, high = inputs
        return self._smaller([self._larger([value, low], shape, settings), high], shape, settings)

    def _above(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Truth:
        return Truth(self.build.gate(self._difference(inputs, shape, settings).place), shape)

    def _below(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Truth:
        return self._above(inputs[::-1], shape, settings)

    def _not_below(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Truth:
        return self._below(inputs, shape, settings)._replace(opposite=True)

    def _not_above(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Truth:
        return self._above(inputs, shape, settings)._replace(opposite=True)

    def _opposite(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Truth:
        (truth,) = inputs
        if not isinstance(truth, Truth):
            raise ValueError(self._refusal("not"))
        return truth._replace(opposite=not truth.opposite)

    def _select(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        which, low, high = inputs
        if isinstance(which, np.ndarray):
            # A choice that is known keeps some entries of either side.
            sides = [
                Value(self._times(self.value(side, shape), np.broadcast_to(mask, shape) * 1.0), shape)
                for side, mask in ((low, ~which), (high, which))
            ]
            return self._sum(list(sides), shape, settings)
        if not isinstance(which, Truth):
            raise ValueError(self._refusal("select_n"))
        return self._chosen(
            which,
            *(
                None if isinstance(side, np.ndarray) and not np.any(side) else self.value(side, shape).place
                for side in (low, high)
            ),
        )

    def _contraction(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        one, other = inputs
        first = isinstance(one, np.ndarray)
        kept, numbers = (other, one) if first else (one, other)
        if not isinstance(numbers, np.ndarray):
            raise ValueError(self._refusal("dot_general of two activations"))
        value = self.value(kept, kept.shape)
        matrix = _contraction_matrix(value.shape, numbers, settings["dimension_numbers"], first)
        return Value(self.build.linear(value.place, matrix), shape)

    def _convolution(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        one, kernel = inputs
        if not isinstance(kernel, np.ndarray) or set(settings["lhs_dilation"]) != {1}:
            raise ValueError(self._refusal("conv_general_dilated with these settings"))
        value, numbers = self.value(one, one.shape), settings["dimension_numbers"]
        index = np.arange(int(np.prod(value.shape))).reshape(value.shape).transpose(numbers.lhs_spec)[0]
        matrix, leaving = convolution(
            np.asarray(kernel, float).transpose(numbers.rhs_spec),
            index.shape[1:],
            settings["window_strides"],
            tuple(settings["padding"]),
            settings["rhs_dilation"],
            settings["feature_group_count"],
        )
        place = self.build.linear(self.build.pick(value.place, index), matrix)
        back = np.arange(int(np.prod(leaving))).reshape(1, *leaving)
        return Value(self.build.pick(place, back.transpose(np.argsort(numbers.out_spec))), shape)

    def _joined(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        values = [self.value(known, known.shape) for known in inputs]
        sizes = [int(np.prod(value.shape)) for value in values]
        starts = np.cumsum([0, *sizes[:-1]])
        index = [
            start + np.arange(size).reshape(value.shape)
            for value, start, size in zip(values, starts, sizes, strict=True)
        ]
        place = self.build.join(*(value.place for value in values))
        stacked = "axis" in settings
        order = np.stack(index, settings["axis"]) if stacked else np.concatenate(index, settings["dimension"])
        return Value(self.build.pick(place, order), shape)

    def _taken_apart(self, settings: dict, value: Value) -> list[Known]:
        index = np.arange(int(np.prod(value.shape))).reshape(value.shape)
        parts = np.split(index, np.cumsum(settings["sizes"])[:-1], settings["axis"])
        return [Value(self.build.pick(value.place, part), part.shape) for part in parts]

    def _added_up(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        value = self.value(inputs[0], inputs[0].shape)
        return Value(self.build.linear(value.place, summed(value.shape, settings["axes"])), shape)

    def _window_sum(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        value = self.value(inputs[0], inputs[0].shape)
        groups = window_groups(value.shape, settings)
        rows, columns = np.repeat(np.arange(len(groups)), groups.shape[1]), groups.reshape(-1)
        inside = columns >= 0
        matrix = scipy.sparse.csr_array(
            (np.ones(inside.sum()), (rows[inside], columns[inside])),
            shape=(len(groups), int(np.prod(value.shape))),
        )
        return Value(self.build.linear(value.place, matrix), shape)

    def _window_max(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        value = self.value(inputs[0], inputs[0].shape)
        return Value(self.build.largest(value.place, window_groups(value.shape, settings)), shape)

    def _greatest(self, inputs: list[Known], shape: tuple[int, ...], settings: dict, sign: int = 1) -> Value:
        value = self.value(inputs[0], inputs[0].shape)
        index = np.arange(int(np.prod(value.shape))).reshape(value.shape)
        groups = np.moveaxis(index, settings["axes"], range(-len(settings["axes"]), 0))
        turned = self._times(value, np.array(float(sign)))
        found = self.build.largest(turned, groups.reshape(int(np.prod(shape)), -1))
        return Value(self._times(Value(found, shape), np.array(float(sign))), shape)

    def _least(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Value:
        return self._greatest(inputs, shape, settings, -1)

    def _itself(self, inputs: list[Known], shape: tuple[int, ...], settings: dict) -> Known:
        return inputs[0]


def _contraction_matrix(shape: tuple[int, ...], numbers: np.ndarray, axes: Any, first: bool) -> Any:
    """The matrix by which a contraction with numbers acts on an array of this shape, laid out in a row."""
    (left, right), (left_batch, right_batch) = axes
    mine, theirs = (right, left) if first else (left, right)
    my_batch, their_batch = (right_batch, left_batch) if first else (left_batch, right_batch)
    n = int(np.prod(shape))
    if not my_batch and mine == (len(shape) - 1,) and n == shape[-1] and numbers.ndim == 2:
        return np.asarray(numbers if theirs == (1,) else numbers.T, float)
    letters = list(range(len(shape)))
    other = list(range(100, 100 + numbers.ndim))
    for a, b in (*zip(mine, theirs, strict=True), *zip(my_batch, their_batch, strict=True)):
        other[b] = letters[a]
    batch = [letters[a] for a in my_batch]
    own = [letters[a] for a in range(len(shape)) if a not in (*mine, *my_batch)]
    free = [other[b] for b in range(numbers.ndim) if b not in (*theirs, *their_batch)]
    leaving = batch + (free + own if first else own + free)
    identity = np.eye(n).reshape(*shape, n)
    # Axes by number, as einsum takes them without letters.
    operands: list[Any] = [identity, [*letters, 99], np.asarray(numbers, float), other, [*leaving, 99]]
    matrix = np.einsum(*operands)
    return scipy.sparse.csr_array(matrix.reshape(-1, n))


_ARITHMETIC = {
    "abs": _Reader._absolute,
    "add": _Reader._sum,
    "add_any": _Reader._sum,
    "clamp": _Reader._clamped,
    "concatenate": _Reader._joined,
    "conv_general_dilated": _Reader._convolution,
    "copy": _Reader._itself,
    "copy_p": _Reader._itself,
    "div": _Reader._quotient,
    "dot_general": _Reader._contraction,
    "ge": _Reader._not_below,
    "gt": _Reader._above,
    "le": _Reader._not_above,
    "lt": _Reader._below,
    "max": _Reader._larger,
    "min": _Reader._smaller,
    "mul": _Reader._product,
    "neg": _Reader._negative,
    "not": _Reader._opposite,
    "reduce_max": _Reader._greatest,
    "reduce_min": _Reader._least,
    "reduce_precision": _Reader._itself,
    "reduce_sum": _Reader._added_up,
    "reduce_window_max": _Reader._window_max,
    "reduce_window_sum": _Reader._window_sum,
    "select_n": _Reader._select,
    "stack": _Reader._joined,
    "stop_gradient": _Reader._itself,
    "sub": _Reader._difference,
}
_MOVES = (
    "broadcast_in_dim", "convert_element_type", "dynamic_slice", "expand_dims", "gather", "pad", "reshape",
    "rev", "slice", "squeeze", "tile", "transpose",
)  # fmt: skip
