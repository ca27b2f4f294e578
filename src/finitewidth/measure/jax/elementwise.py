"""JAX's elementwise operations on NumPy arrays: a function of one number is followed without compiling it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special


def _select(which: Any, *cases: Any) -> np.ndarray:
    return np.choose(np.asarray(which, int), cases)


def _integer_pow(z: Any, y: int) -> Any:
    return np.asarray(z, float) ** y


ELEMENTWISE: dict[str, Callable] = {
    "abs": np.abs,
    "add": np.add,
    "add_any": np.add,
    "and": np.logical_and,
    "clamp": lambda low, z, high: np.clip(z, low, high),
    "convert_element_type": lambda z: z,
    "copy": lambda z: z,
    "copy_p": lambda z: z,
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.divide,
    "eq": np.equal,
    "erf": special.erf,
    "erfc": special.erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "ge": np.greater_equal,
    "gt": np.greater,
    "integer_pow": _integer_pow,
    "is_finite": np.isfinite,
    "le": np.less_equal,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": special.expit,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.logical_not,
    "or": np.logical_or,
    "pow": np.power,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "select_n": _select,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "stop_gradient": lambda z: z,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}


def elementwise(name: str, operands: list, parameters: dict) -> np.ndarray | None:
    """The value of an elementwise operation, or None when the operation is not elementwise."""
    if name not in ELEMENTWISE:
        return None
    settings = {"y": parameters["y"]} if name == "integer_pow" else {}
    with np.errstate(all="ignore"):
        return np.asarray(ELEMENTWISE[name](*operands, **settings))
