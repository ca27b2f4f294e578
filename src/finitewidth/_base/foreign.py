"""Models and parameters of other libraries: what has no place here gets a sentence that says what has."""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

_TORCH = (
    "JAX cannot differentiate it: describe the network with finitewidth's layers, or write a function of "
    "(params, x) with jax.numpy; only `fw.measure.specimen` takes modules of PyTorch"
)
_EQUINOX = (
    "with `params, rest = equinox.partition(model, equinox.is_inexact_array)` pass params and "
    "`lambda p, x: jax.vmap(equinox.combine(p, rest))(x)`"
)
_NNX = (
    "with `graph, params, rest = nnx.split(model, nnx.Param, ...)` pass params and "
    "`lambda p, x: nnx.merge(graph, p, rest)(x)`"
)
_LINEN = "pass `model.apply` and the variables that `model.init` returned"
_COLLECTIONS = (
    'with `rest = {k: v for k, v in variables.items() if k != "params"}` pass variables["params"] and '
    '`lambda p, x: model.apply({"params": p, **rest}, x)`'
)


def is_torch(model: Any) -> bool:
    """Whether this is a PyTorch module."""
    return any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)


def check_function(function: Any) -> None:
    """Refuse what is not a function of (params, x)."""
    advice = _advice(function)
    if not callable(function) or (advice and not _takes_two(function)):
        what = f"{_kind(function)}: {advice}" if advice else f"{function!r}"
        raise TypeError(f"expected a network or a function of (params, x), got {what}.")
    if not _takes_two(function):
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(
            f"expected a network or a function of (params, x), got {name}, which does not take two arguments."
        )


def check_params(params: PyTree) -> None:
    """Refuse parameters that are not real numbers, or that training must not touch."""
    if isinstance(params, Mapping) and "params" in params and len(params) > 1:
        others = ", ".join(repr(name) for name in params if name != "params")
        raise ValueError(
            f"params holds {others} beside 'params', which training must not touch: {_COLLECTIONS}."
        )
    if _library(params) == "torch":
        raise TypeError(f"params is {_kind(params)}: {_TORCH}.")
    leaves = jax.tree_util.tree_leaves_with_path(params, is_leaf=_is_constant)
    if not leaves:
        raise ValueError("params holds no arrays: there is nothing to differentiate by.")
    for path, leaf in leaves:
        place = f"params{jax.tree_util.keystr(path)}"
        if _is_constant(leaf):
            raise ValueError(f"{place} is a {type(leaf).__name__}, which training must not touch: {_NNX}.")
        if _library(leaf) == "torch":
            raise TypeError(f"{place} is {_kind(leaf)}: {_TORCH}.")
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
            raise TypeError(
                f"{place} is {_kind(leaf)}; every leaf of params must be an array{_remedy(params)}."
            )
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"{place} holds {leaf.dtype}; every leaf of params must hold real numbers{_remedy(params)}."
            )


def _remedy(params: PyTree) -> str:
    advice = _advice(params)
    return f": {advice}" if advice else ""


def _is_constant(value: object) -> bool:
    """Whether this is a variable of Flax NNX that is no parameter, such as running averages."""
    names = [kind.__name__ for kind in type(value).__mro__]
    return _library(value) == "flax" and "Variable" in names and "Param" not in names


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # Some built-in functions do not tell; calling them will.
        return True
    return _library(function) != "torch"


def _advice(thing: object) -> str:
    library = _library(thing)
    if library == "flax":
        return _NNX if any(kind.__module__.startswith("flax.nnx") for kind in type(thing).__mro__) else _LINEN
    return {"torch": _TORCH, "equinox": _EQUINOX}.get(library, "")


def _kind(thing: object) -> str:
    library = _library(thing)
    name = type(thing).__name__
    if library in ("flax", "torch", "equinox"):
        return f"{name} of {library.capitalize()}"
    return f"{thing!r} ({name})" if isinstance(thing, int | float | str) else f"a {name}"


def _library(thing: object) -> str:
    """The library that a class, or one of those it derives from, belongs to."""
    found = {kind.__module__.partition(".")[0] for kind in type(thing).__mro__}
    return next((library for library in ("torch", "flax", "equinox") if library in found), "")
