"""The user's own network: made by a factory of theirs, with the weights of a checkpoint."""

import difflib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

WRITTEN = "module:factory or path/to/file.py:factory"


class Source(NamedTuple):
    """A model, and its weights where the model does not carry them."""

    model: Any
    params: Any = None


def load_model(source: str) -> Source:
    """Call the factory that `source` names; it returns a model, or a pair of a model and its weights."""
    place, _, name = source.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"MODEL must be {WRITTEN}, got {source!r}.")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, vars(module), 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{place} has no factory {name!r}.{hint}")
    factory = getattr(module, name)
    if not any((callable(factory), isinstance(factory, tuple))):
        raise ValueError(f"{source} is no function: it must be one that makes the model.")
    made = factory
    if _makes_models(factory):
        try:
            made = factory()
        except Exception as error:
            raise ValueError(f"the factory {source} raised {_in_short(error)}.") from error
    model, params = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if model is None:
        raise ValueError(f"the factory {source} returned nothing; it must return the model.")
    return Source(model, params)


def _makes_models(factory: Any) -> bool:
    """Whether this is to be called; a model that stands in the module is taken as it is."""
    if isinstance(factory, type):
        return True
    libraries = {kind.__module__.partition(".")[0] for kind in type(factory).__mro__}
    return callable(factory) and not libraries & {"torch", "flax", "equinox"}


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"{path} does not exist.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a file of Python.")
    module = importlib.util.module_from_spec(spec)
    # What the file imports may lie beside it; classes look for their module by its name.
    sys.path.insert(0, str(path.absolute().parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} cannot be imported: {_in_short(error)}.") from error
    return module


def _from_path(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(
                f"there is no module {error.name!r} here or on Python's path; MODEL is {WRITTEN}."
            ) from error
        raise ValueError(f"{name} cannot be imported: {_in_short(error)}.") from error
    except Exception as error:
        raise ValueError(f"{name} cannot be imported: {_in_short(error)}.") from error


def _in_short(error: BaseException) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}".rstrip(".:") if first else type(error).__name__
