"""What users have written themselves, by the name of its module or the path of its file."""

import difflib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from finitewidth._base.checks import no_file


def outside(source: str, what: str, written: str, thing: str) -> Any:
    """What `source` names: "module:NAME" or "path/to/file.py:NAME".

    Sentences of refusal call the source `what`, such as MODEL, say that it is `written` so, and call what was
    looked for a `thing`.
    """
    place, _, name = source.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"{what} must be {written}, got {source!r}.")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_path(place, what, written)
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, vars(module), 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{place} has no {thing} {name!r}.{hint}")
    return getattr(module, name)


def _from_file(path: Path) -> ModuleType:
    wrong = no_file(path)
    if wrong is not None:
        raise ValueError(f"{path} {wrong}.")
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
        raise ValueError(f"{path} cannot be imported: {in_short(error)}.") from error
    return module


def _from_path(name: str, what: str, written: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(
                f"there is no module {error.name!r} here or on Python's path; {what} is {written}."
            ) from error
        raise ValueError(f"{name} cannot be imported: {in_short(error)}.") from error
    except Exception as error:
        raise ValueError(f"{name} cannot be imported: {in_short(error)}.") from error


def in_short(error: BaseException) -> str:
    """The kind of an error and the first line of its words."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}".rstrip(".:") if first else type(error).__name__
