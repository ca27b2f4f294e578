"""Weights from the files that PyTorch, Flax, Equinox and NumPy write."""

import pickle
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from finitewidth._base.checks import no_file
from finitewidth._base.foreign import is_torch
from finitewidth.cli.model_source import Source

# What training scripts call the weights among the other things they save.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights", "params")
# What nn.DataParallel and torch.compile put before every name.
_PREFIXES = ("module.", "_orig_mod.")
# What torch.load raises, depending on the byte that is wrong.
_DAMAGE = (
    pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError, TypeError, AttributeError,
    zipfile.BadZipFile,
)  # fmt: skip


def with_checkpoint(source: Source, path: Path) -> Source:
    """The model at the weights of a file; the model that was given keeps its own."""
    wrong = no_file(path)
    if wrong is not None:
        raise ValueError(f"checkpoint {path} {wrong}.")
    if is_torch(source.model):
        return Source(_torch_model(source.model, path))
    if path.suffix == ".eqx":
        return _equinox(source, path)
    if source.params is None:
        raise ValueError(f"checkpoint {path} must be an .eqx file for a model that carries its weights.")
    if path.suffix == ".npz":
        return Source(source.model, _arrays(source.params, path))
    if path.suffix == ".msgpack":
        return Source(source.model, _flax(source.params, path))
    raise ValueError(f"checkpoint {path} must end in .npz, .msgpack or .eqx for a model of JAX.")


def _torch_model(model: Any, path: Path) -> Any:
    import copy

    import torch

    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        OSError,
        ValueError,
        KeyError,
        zipfile.BadZipFile,
    ):
        raise ValueError(
            f"checkpoint {path} is not a file of tensors that torch.save wrote: save model.state_dict()."
        ) from None
    weights = _state_dict(stored, path)
    own = model.state_dict()
    _check_fit(
        path, {k: tuple(v.shape) for k, v in weights.items()}, {k: tuple(v.shape) for k, v in own.items()}
    )
    # The other checkpoint, at the start of training, is for the same model.
    model = copy.deepcopy(model)
    model.load_state_dict(weights)
    return model


def _state_dict(stored: Any, path: Path) -> dict[str, Any]:
    for name in _WRAPPERS:
        if isinstance(stored, Mapping) and isinstance(stored.get(name), Mapping):
            stored = stored[name]
    if not isinstance(stored, Mapping) or not all(hasattr(part, "shape") for part in stored.values()):
        raise ValueError(f"checkpoint {path} holds no state dict: save model.state_dict().")
    for prefix in _PREFIXES:
        if stored and all(name.startswith(prefix) for name in stored):
            stored = {name.removeprefix(prefix): part for name, part in stored.items()}
    return dict(stored)


def _arrays(params: Any, path: Path) -> Any:
    """Arrays by the path of their leaf, as in `Dense_0.kernel` or `Dense_0/kernel`."""
    import jax

    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {name.replace("/", "."): file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        raise ValueError(
            f"checkpoint {path} is not an .npz file of plain arrays, or it is damaged."
        ) from None
    own = _by_path(params)
    _check_fit(path, _shapes(stored), _shapes(own))
    leaves = [stored[name].astype(leaf.dtype) for name, leaf in own.items()]
    return jax.tree.unflatten(jax.tree.structure(params), leaves)


def _flax(params: Any, path: Path) -> Any:
    from flax import serialization

    try:
        loaded = serialization.from_bytes(params, path.read_bytes())
    except Exception as error:
        # msgpack and Flax raise errors of many kinds, depending on the byte that is wrong.
        raise ValueError(f"checkpoint {path} does not fit the model: {str(error).splitlines()[0]}") from error
    _check_fit(path, _shapes(_by_path(loaded)), _shapes(_by_path(params)))
    return loaded


def _equinox(source: Source, path: Path) -> Source:
    import equinox as eqx

    like = source.model if source.params is None else source.params
    try:
        loaded = eqx.tree_deserialise_leaves(path, like)
    except Exception as error:
        # Equinox wraps whatever NumPy raised at the first leaf that differs.
        raise ValueError(f"checkpoint {path} does not fit the model: its leaves are others.") from error
    return Source(loaded) if source.params is None else Source(source.model, loaded)


def _by_path(params: Any) -> dict[str, Any]:
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(place, simple=True, separator="."): leaf for place, leaf in leaves}


def _shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in arrays.items()}


def _check_fit(path: Path, stored: dict[str, tuple], own: dict[str, tuple]) -> None:
    lacking, foreign = [n for n in own if n not in stored], [n for n in stored if n not in own]
    differing = [n for n in own if n in stored and stored[n] != own[n]]
    if lacking:
        wrong = f"it lacks {_first(lacking)}" + (f" and holds {_first(foreign)} instead" if foreign else "")
    elif foreign:
        wrong = f"it holds {_first(foreign)}, which the model has not"
    elif differing:
        name = differing[0]
        wrong = f"{name!r} has shape {stored[name]} where the model has {own[name]}"
    else:
        return
    raise ValueError(f"checkpoint {path} does not fit the model: {wrong}.")


def _first(names: Iterable[str]) -> str:
    first, *rest = names
    return repr(first) + (f" and {len(rest)} more" if rest else "")
