"""Networks of PyTorch as a list of operations: the graph that torch.fx traces, read node by node."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from finitewidth.measure.regions.program import Builder, Program
from finitewidth.measure.regions.windows import convolution, windows

KNOWN = "Linear, Conv, ReLU, LeakyReLU, PReLU, Hardtanh, ReLU6, MaxPool, AvgPool, BatchNorm (eval), sums are"


class Value(NamedTuple):
    """What depends on the input: a value of the program, with its shape (1, ...)."""

    place: int
    shape: tuple[int, ...]


def torch_program(module: Any, entering: tuple[int, ...], params: Any = None) -> Program:
    """The operations of a module at its weights, or at a state dict, for one input of shape `entering`."""
    import torch

    if params is not None:
        import copy

        module = copy.deepcopy(module)
        module.load_state_dict({name: torch.as_tensor(np.asarray(part)) for name, part in params.items()})
    try:
        traced = torch.fx.symbolic_trace(module)
    except (ValueError, TypeError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"torch.fx cannot trace {type(module).__name__}: {first}") from error
    reader = _Reader(traced, Builder(entering))
    output = reader.read(Value(0, (1, *entering)))
    return reader.build.program(output.place, output.shape[1:])


class _Reader:
    """Reads the nodes of a traced module."""

    def __init__(self, traced: Any, build: Builder):
        self.traced, self.build = traced, build

    def read(self, value: Value) -> Value:
        known: dict[str, Any] = {}
        look = lambda argument: argument if not hasattr(argument, "op") else known[argument.name]
        for node in self.traced.graph.nodes:
            given = [_mapped(argument, look) for argument in node.args]
            named = {name: _mapped(argument, look) for name, argument in node.kwargs.items()}
            if node.op == "placeholder":
                known[node.name] = value
            elif node.op == "get_attr":
                known[node.name] = _numbers(_attribute(self.traced, node.target))
            elif node.op == "call_module":
                known[node.name] = self._module(self.traced.get_submodule(node.target), *given, **named)
            elif node.op == "output":
                if not isinstance(given[0], Value):
                    raise ValueError("the module must return one tensor that depends on its input.")
                return given[0]
            else:
                name = node.target if isinstance(node.target, str) else node.target.__name__
                known[node.name] = self._function(name, node.target, given, named)
        raise ValueError("the module returns nothing.")

    def _module(self, module: Any, value: Value, **named: Any) -> Value:
        kind = type(module).__name__
        if kind in _MODULES:
            return _MODULES[kind](self, module, value)
        raise ValueError(f"the network applies nn.{kind}, which is not known as piecewise linear: {KNOWN}.")

    def _function(self, name: str, target: Any, given: list, named: dict) -> Any:
        short = name.strip("_").removesuffix("_")
        values = [argument for argument in given if isinstance(argument, Value)]
        joins = bool(given) and isinstance(given[0], list | tuple) and _any_value(given[0])
        if short in _FUNCTIONS:
            return _FUNCTIONS[short](self, *given, **named)
        if short in ("cat", "concat") and joins:
            return self._joined(given[0], *given[1:], **named)
        if not values and not joins:
            return (
                getattr(given[0], name)(*given[1:], **named)
                if isinstance(target, str)
                else target(*given, **named)
            )
        if short in ("size", "dim", "getattr"):
            return _question(values[0], short, given[1:])
        if short in _MOVES and len(values) == 1:
            return self._moved(target, given, named)
        raise ValueError(f"the network applies {short}, which is not known as piecewise linear: {KNOWN}.")

    def _moved(self, target: Any, given: list, named: dict) -> Value:
        """Entries in another order: the same done to their places."""
        import torch

        value = given[0]
        index = torch.arange(int(np.prod(value.shape))).reshape(value.shape)
        moved = (
            getattr(index, target)(*given[1:], **named)
            if isinstance(target, str)
            else target(index, *given[1:], **named)
        )
        if moved.ndim == 0 or moved.shape[0] != 1:
            raise ValueError(
                "the first axis of the network is for points, and this network mixes it with others."
            )
        return Value(self.build.pick(value.place, moved.numpy()), tuple(moved.shape))

    def _joined(self, values: Any, dim: int = 0, axis: int | None = None) -> Value:
        values = [self._value(value) for value in values]
        starts = np.cumsum([0, *(int(np.prod(value.shape)) for value in values[:-1])])
        index = [
            start + np.arange(int(np.prod(value.shape))).reshape(value.shape)
            for value, start in zip(values, starts, strict=True)
        ]
        order = np.concatenate(index, dim if axis is None else axis)
        return Value(self.build.pick(self.build.join(*(v.place for v in values)), order), order.shape)

    def _value(self, known: Any) -> Value:
        if isinstance(known, Value):
            return known
        numbers = _numbers(known)
        return Value(self.build.constant(numbers), numbers.shape)

    def flatten(self, module: Any, value: Value) -> Value:
        if module.start_dim != 1 or module.end_dim != -1:
            raise ValueError(
                f"nn.Flatten({module.start_dim}, {module.end_dim}) is not known; use nn.Flatten()."
            )
        return Value(value.place, (1, int(np.prod(value.shape))))

    def same(self, module: Any, value: Value) -> Value:
        return value

    def only_in_training(self, module: Any, value: Value) -> Value:
        if module.training:
            raise ValueError(
                f"nn.{type(module).__name__} is random in training mode: call module.eval() first."
            )
        return value

    def dense(self, module: Any, value: Value) -> Value:
        weight = _numbers(module.weight)
        bias = 0.0 if module.bias is None else _numbers(module.bias)
        lead = int(np.prod(value.shape[:-1]))
        matrix, shift = weight, bias
        if lead > 1:
            matrix = scipy.sparse.csr_array(scipy.sparse.kron(scipy.sparse.eye_array(lead), weight))
            shift = np.tile(np.broadcast_to(bias, (len(weight),)), lead)
        place = self.build.linear(value.place, matrix, shift)
        return Value(place, (*value.shape[:-1], len(weight)))

    def convolution(self, module: Any, value: Value) -> Value:
        if module.padding_mode != "zeros" or isinstance(module.padding, str):
            raise ValueError(
                f"padding {module.padding_mode} {module.padding!r} is not known; use numbers of zeros."
            )
        matrix, leaving = convolution(
            _numbers(module.weight), value.shape[2:], module.stride,
            tuple((n, n) for n in module.padding), module.dilation, module.groups,
        )  # fmt: skip
        bias = 0.0 if module.bias is None else np.repeat(_numbers(module.bias), int(np.prod(leaving[1:])))
        return Value(self.build.linear(value.place, matrix, bias), (1, *leaving))

    def batch_norm(self, module: Any, value: Value) -> Value:
        if module.training or module.running_mean is None:
            raise ValueError(
                f"nn.{type(module).__name__} uses the statistics of its batch: call module.eval() first."
            )
        factor = 1 / np.sqrt(_numbers(module.running_var) + module.eps)
        factor = factor if module.weight is None else factor * _numbers(module.weight)
        shift = -_numbers(module.running_mean) * factor
        shift = shift if module.bias is None else shift + _numbers(module.bias)
        each = int(np.prod(value.shape[2:]))
        scaled = self.build.scale(value.place, np.repeat(factor, each))
        return Value(self.build.shift(scaled, np.repeat(shift, each)), value.shape)

    def relu(self, value: Value, inplace: bool = False) -> Value:
        return self.leaky_relu(value, 0.0)

    def leaky_relu(self, value: Value, negative_slope: Any = 0.01, inplace: bool = False) -> Value:
        return self._bent(value, np.full(int(np.prod(value.shape)), negative_slope))

    def prelu(self, module: Any, value: Value) -> Value:
        slopes = _numbers(module.weight)
        per_channel = np.repeat(slopes, int(np.prod(value.shape[2:]))) if len(slopes) > 1 else slopes
        return self._bent(value, np.broadcast_to(per_channel, (int(np.prod(value.shape)),)))

    def _bent(self, value: Value, slopes: np.ndarray) -> Value:
        gate = self.build.gate(value.place)
        low = self.build.scale(value.place, slopes) if np.any(slopes) else None
        return Value(self.build.select(gate, low, value.place), value.shape)

    def absolute(self, value: Value) -> Value:
        return self._bent(value, np.full(int(np.prod(value.shape)), -1.0))

    def clipped(self, value: Value, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Value:
        return self.clamp(value, min_val, max_val)

    def clamp(self, value: Value, min: Any = None, max: Any = None) -> Value:
        place, size = value.place, int(np.prod(value.shape))
        if min is not None:
            place = self.build.maximum(place, np.full(size, float(min)))
        if max is not None:
            turned = self.build.maximum(self.build.scale(place, np.array(-1.0)), np.full(size, -float(max)))
            place = self.build.scale(turned, np.array(-1.0))
        return Value(place, value.shape)

    def max_pool(
        self, value: Value, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, **rest
    ) -> Value:
        seen = self._windows(value, kernel_size, stride, padding, dilation, ceil_mode)
        groups = seen.reshape(-1, seen.shape[-1])
        return Value(self.build.largest(value.place, groups), (1, *seen.shape[:-1]))

    def avg_pool(
        self, value: Value, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    ) -> Value:  # fmt: skip
        if divisor_override is not None:
            raise ValueError("avg_pool with divisor_override is not known.")
        seen = self._windows(value, kernel_size, stride, padding, 1, ceil_mode)
        groups = seen.reshape(-1, seen.shape[-1])
        inside = groups >= 0
        share = 1 / (groups.shape[1] if count_include_pad else inside.sum(axis=1, keepdims=True))
        rows = np.broadcast_to(np.arange(len(groups))[:, None], groups.shape)[inside]
        matrix = scipy.sparse.csr_array(
            (np.broadcast_to(share, groups.shape)[inside], (rows, groups[inside])),
            shape=(len(groups), int(np.prod(value.shape))),
        )
        return Value(self.build.linear(value.place, matrix), (1, *seen.shape[:-1]))

    def adaptive_average(self, module: Any, value: Value) -> Value:
        if set(np.atleast_1d(module.output_size).tolist()) != {1}:
            raise ValueError(f"nn.AdaptiveAvgPool of output size {module.output_size} is not known; 1 is.")
        return self.avg_pool(value, value.shape[2:])

    def _windows(self, value: Value, size, stride, padding, dilation, ceil_mode) -> np.ndarray:
        if ceil_mode:
            raise ValueError("pooling with ceil_mode=True is not known.")
        axes = len(value.shape) - 2
        size, dilation, padding = _each(size, axes), _each(dilation, axes), _each(padding, axes)
        return windows(
            value.shape[1:],
            (1, *size),
            (1, *(size if stride is None or stride == [] else _each(stride, axes))),
            ((0, 0), *((n, n) for n in padding)),
            (1, *dilation),
        )

    def add(self, one: Any, other: Any, alpha: float | int = 1) -> Any:
        return self._sum(one, other, alpha)

    def sub(self, one: Any, other: Any, alpha: float | int = 1) -> Any:
        return self._sum(one, other, -alpha)

    def _sum(self, one: Any, other: Any, sign: float | int) -> Any:
        if not isinstance(one, Value) and not isinstance(other, Value):
            return one + sign * other
        if not isinstance(one, Value):
            return self._sum(self.mul(other, sign), one, 1.0)
        if isinstance(other, Value):
            one, other = self._alike(one, other)
            added = other.place if sign == 1 else self.build.scale(other.place, np.array(float(sign)))
            return Value(self.build.total(one.place, added), one.shape)
        shape = np.broadcast_shapes(one.shape, np.shape(_numbers(other)))
        (one,) = self._alike(one, shape=shape)
        return Value(
            self.build.shift(one.place, sign * np.broadcast_to(_numbers(other), shape).reshape(-1)), shape
        )

    def _alike(self, *values: Value, shape: tuple[int, ...] | None = None) -> list[Value]:
        shape = shape or np.broadcast_shapes(*(value.shape for value in values))
        spread = lambda v: np.broadcast_to(np.arange(int(np.prod(v.shape))).reshape(v.shape), shape)
        return [Value(self.build.pick(v.place, spread(v)), shape) for v in values]

    def mul(self, one: Any, other: Any) -> Any:
        if isinstance(one, Value) and isinstance(other, Value):
            raise ValueError(
                f"the network multiplies two activations, which is not piecewise linear: {KNOWN}."
            )
        if not isinstance(one, Value) and not isinstance(other, Value):
            return one * other
        value, by = (one, other) if isinstance(one, Value) else (other, one)
        shape = np.broadcast_shapes(value.shape, np.shape(_numbers(by)))
        (value,) = self._alike(value, shape=shape)
        return Value(self.build.scale(value.place, np.broadcast_to(_numbers(by), shape).reshape(-1)), shape)

    def div(self, one: Any, other: Any) -> Any:
        if isinstance(other, Value):
            raise ValueError(f"the network divides by an activation, which is not piecewise linear: {KNOWN}.")
        return self.mul(one, 1 / _numbers(other)) if isinstance(one, Value) else one / other

    def neg(self, one: Any) -> Any:
        return self.mul(one, -1.0)

    def maximum(self, one: Any, other: Any) -> Value:
        one, other = self._alike(self._value(one), self._value(other))
        return Value(self.build.maximum(one.place, other.place), one.shape)


def _pooling(function: Callable, *names: str) -> Callable:
    return lambda reader, module, value: function(
        reader, value, **{name: getattr(module, name) for name in names}
    )


_MODULES: dict[str, Callable] = {
    "Linear": _Reader.dense,
    "Identity": _Reader.same,
    "Flatten": _Reader.flatten,
    "ReLU": lambda reader, module, value: reader.relu(value),
    "LeakyReLU": _pooling(_Reader.leaky_relu, "negative_slope"),
    "PReLU": _Reader.prelu,
    "Hardtanh": _pooling(_Reader.clipped, "min_val", "max_val"),
    "ReLU6": _pooling(_Reader.clipped, "min_val", "max_val"),
    "AdaptiveAvgPool1d": _Reader.adaptive_average,
    "AdaptiveAvgPool2d": _Reader.adaptive_average,
    **{f"Conv{d}d": _Reader.convolution for d in (1, 2, 3)},
    **{f"BatchNorm{d}d": _Reader.batch_norm for d in (1, 2, 3)},
    **{name: _Reader.only_in_training for name in ("Dropout", "Dropout1d", "Dropout2d", "AlphaDropout")},
    **{
        f"MaxPool{d}d": _pooling(
            _Reader.max_pool, "kernel_size", "stride", "padding", "dilation", "ceil_mode"
        )
        for d in (1, 2, 3)
    },
    **{
        f"AvgPool{d}d": _pooling(
            _Reader.avg_pool, "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"
        )
        for d in (1, 2, 3)
    },
}
_FUNCTIONS: dict[str, Callable] = {
    "relu": _Reader.relu,
    "leaky_relu": _Reader.leaky_relu,
    "hardtanh": _Reader.clipped,
    "relu6": lambda reader, value, inplace=False: reader.clipped(value, 0.0, 6.0),
    "abs": _Reader.absolute,
    "absolute": _Reader.absolute,
    "clamp": _Reader.clamp,
    "clip": _Reader.clamp,
    "max_pool1d": _Reader.max_pool,
    "max_pool2d": _Reader.max_pool,
    "avg_pool1d": _Reader.avg_pool,
    "avg_pool2d": _Reader.avg_pool,
    "add": _Reader.add,
    "iadd": _Reader.add,
    "sub": _Reader.sub,
    "mul": _Reader.mul,
    "truediv": _Reader.div,
    "div": _Reader.div,
    "neg": _Reader.neg,
    "maximum": _Reader.maximum,
}
_MOVES = (
    "flatten", "view", "reshape", "permute", "transpose", "squeeze", "unsqueeze", "getitem", "contiguous",
    "expand", "movedim", "swapaxes", "flip", "roll",
)  # fmt: skip


def _any_value(things: Any) -> bool:
    return any(isinstance(thing, Value) for thing in things)


def _mapped(argument: Any, look: Callable) -> Any:
    if isinstance(argument, list | tuple):
        return type(argument)(_mapped(part, look) for part in argument)
    if isinstance(argument, slice):
        return slice(*(_mapped(part, look) for part in (argument.start, argument.stop, argument.step)))
    return look(argument)


def _question(value: Value, name: str, rest: list[Any]) -> Any:
    """What a network asks about shapes."""
    asked = rest[0] if name == "getattr" else name
    if asked in ("dim", "ndim"):
        return len(value.shape)
    if asked not in ("shape", "size"):
        raise ValueError(f"the network reads .{asked} of an activation, which is not known.")
    return value.shape[int(rest[0])] if asked == "size" and rest else value.shape


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _each(size: Any, axes: int) -> tuple[int, ...]:
    return tuple(int(n) for n in size) if isinstance(size, tuple | list) else (int(size),) * axes


def _numbers(array: Any) -> np.ndarray:
    return np.asarray(array.detach().cpu().numpy() if hasattr(array, "detach") else array, float)
