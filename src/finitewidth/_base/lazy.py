"""Names that a package offers and imports when they are first asked for.

A package lists them once, as type checkers and documentation read them, and imports nothing:

    if TYPE_CHECKING:
        from finitewidth.room.module import Name

    __all__, __getattr__ = exports(__name__, __file__)
"""

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from finitewidth._base.moved import moved


def exports(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package, from the imports below `if TYPE_CHECKING:` in its file.

    What is imported `as` itself is found but stays out of `__all__`; so are the modules of the package.
    """
    imports = _imports(Path(file))
    home_of = {alias.name: module for module, alias in imports}

    class Room(ModuleType):
        """A package whose names keep their meaning when a module of the same name is imported."""

        def __setattr__(self, name: str, value: Any) -> None:
            # The import system binds every module that it has loaded to its package.
            if not (name in home_of and sys.modules.get(f"{package}.{name}") is value):
                super().__setattr__(name, value)

    sys.modules[package].__class__ = Room

    def __getattr__(name: str) -> Any:
        if name not in home_of:
            return module_of(package, name)
        value = getattr(importlib.import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(alias.name for _, alias in imports if alias.asname is None), __getattr__


def module_of(package: str, name: str) -> Any:
    """A module of a package, whose modules are found as attributes, too; or what an old name means now."""
    full_name = f"{package}.{name}"
    if name.startswith("_") or not importlib.util.find_spec(full_name):
        return moved(package, name)
    module = importlib.import_module(full_name)
    if hasattr(module, "__path__"):
        vars(module).setdefault("__getattr__", functools.partial(module_of, full_name))
    return module


def _imports(file: Path) -> list[tuple[str, ast.alias]]:
    """Module and name of everything that is imported for type checkers only."""
    return [
        (str(node.module), alias)
        for block in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
