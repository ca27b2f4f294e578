"""One command a file: the function, or the group of commands, that has the name of its module."""

import importlib
import pkgutil

import typer

from finitewidth.cli.help import Command

# The order of the help; others follow by name.
_FIRST = ("predict", "diagnose", "tune", "kernel", "lab", "train_ensemble")


def add_commands(app: typer.Typer) -> None:
    """Give the application every command in this directory."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    for name in sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            app.command(name.replace("_", "-"), cls=Command)(command)
