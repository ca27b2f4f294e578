"""Networks that a user's own code makes: `module:factory` or `path/file.py:factory`."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any


def load_model(place: str) -> tuple[Any, Any]:
    """Call a function without arguments, and return the model it makes and its parameters, if it says them.

    The function returns a PyTorch module, a model of JAX that carries its weights, or a pair: a network or a
    function of (params, x), and the params.
    """
    source, colon, name = place.rpartition(":")
    if not colon or not source or not name:
        raise ValueError(f"{place!r} does not name a network: write module:factory or path/file.py:factory.")
    factory = getattr(_module(source), name, None)
    if factory is None:
        raise ValueError(f"{source} has no {name!r}.")
    if not callable(factory):
        raise ValueError(f"{place} is no function: it must be one that makes a network.")
    made = factory()
    return made if isinstance(made, tuple) and len(made) == 2 else (made, None)


def _module(source: str) -> Any:
    if source.endswith(".py"):
        path = Path(source)
        if not path.is_file():
            raise ValueError(f"there is no file {source}.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
        return module
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name != source.split(".")[0] and not source.startswith(f"{error.name}."):
            raise
        raise ValueError(f"there is no module {source!r} here; {os.getcwd()} is looked at.") from error
