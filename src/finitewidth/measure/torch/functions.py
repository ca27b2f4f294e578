"""The functions of PyTorch, by what they do to the entries of a tensor."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
PRODUCTS = {
    "matmul",
    "rmatmul",
    "mm",
    "bmm",
    "mv",
    "addmm",
    "baddbmm",
    "einsum",
    "scaled_dot_product_attention",
}
CONTRACTIONS = CONVOLUTIONS | PRODUCTS | {"linear", "embedding"}
PERMUTATIONS = {"transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "T", "mT", "t"}
# The same numbers in another order or shape; dropout is one of them, for only models in eval mode are seen.
MOVES = PERMUTATIONS | {
    "alpha_dropout", "clone", "contiguous", "detach", "double", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "expand", "feature_alpha_dropout", "flatten", "float", "reshape", "squeeze", "to", "type",
    "type_as", "unflatten", "unsqueeze", "view", "view_as",
}  # fmt: skip
PARTS = {
    "cat", "chunk", "concat", "getitem", "index_select", "narrow", "select", "split", "stack", "tensor_split",
    "unbind",
}  # fmt: skip
SUMS = {"add", "iadd", "isub", "neg", "negative", "radd", "rsub", "sub", "subtract"}
MULTIPLICATIONS = {"imul", "mul", "multiply", "rmul"}
SCALINGS = MULTIPLICATIONS | {"div", "divide", "idiv", "true_divide", "truediv"}
ELEMENTWISE = SUMS | SCALINGS | {
    "abs", "celu", "clamp", "clamp_max", "clamp_min", "clip", "cos", "elu", "eq", "erf", "erfc", "exp",
    "expm1", "ge", "gelu", "gt", "hardsigmoid", "hardswish", "hardtanh", "le", "leaky_relu", "log", "log1p",
    "logsigmoid", "lt", "maximum", "minimum", "mish", "ne", "pow", "rdiv", "relu", "relu6", "rpow", "rsqrt",
    "rtruediv", "selu", "sigmoid", "sign", "silu", "sin", "softplus", "softsign", "sqrt", "square", "tanh",
    "threshold", "where",
}  # fmt: skip


def name_of_function(func: Callable) -> str:
    """`add` for torch.add, Tensor.add_ and Tensor.__add__; `T` for the property of that name."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", "")
    return name.strip("_")


def only_new_axes(func: Callable, args: tuple) -> bool:
    """Whether a call such as x[:, None] or x[..., None] takes every entry, and adds axes of length 1."""
    if name_of_function(func) != "getitem":
        return False
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    return all(part is None or part is Ellipsis or part == slice(None) for part in index)


def changes_in_place(func: Callable, args: tuple, kwargs: dict) -> bool:
    """Whether a call writes its result into its first argument."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name in ("__setitem__", "__iadd__", "__isub__", "__imul__", "__idiv__")
    return name.endswith("_") or bool(kwargs.get("inplace")) or any(value is True for value in args[1:])


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)
