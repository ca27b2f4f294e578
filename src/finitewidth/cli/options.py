"""Options that commands share, and the sentences for values that make no sense.

Numbers are checked here, while the command line is read: a wrong one is refused before JAX is imported.
"""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from finitewidth.cli.errors import show_tracebacks

LARGEST_SEED = 2**32 - 1
MOST_LAYERS = 10_000
LARGEST_WIDTH = 10**9


class WrongValue(typer.TyperException):
    """A value that an option cannot take; exit code 2."""

    exit_code = 2


def whole_number(option: str, help: str, at_least: int = 1, at_most: int | None = None) -> Any:
    """An option that takes a whole number in a range."""

    def parse(text: str | int) -> int:
        return _whole(option, text, at_least, at_most)

    return typer.Option(option, help=help, parser=parse, metavar="<int>")


def number(option: str, help: str, *, zero: bool = False) -> Any:
    """An option that takes a positive finite number, or also zero."""

    def parse(text: str | float) -> float:
        return _number(option, text, zero)

    return typer.Option(option, help=help, parser=parse, metavar="<float>")


def one_of(option: str, help: str, names: tuple[str, ...]) -> Any:
    """An option that takes one of a few words."""

    def parse(text: str) -> str:
        if text in names:
            return text
        raise WrongValue(f"{option} must be {_listed(names)}, got {text!r}.")

    return typer.Option(option, help=help, parser=parse, metavar=f"<{'|'.join(names)}>")


def path(option: str, help: str) -> Any:
    """An option that takes a path."""

    def parse(text: str | Path) -> Path:
        if str(text):
            return Path(text)
        raise WrongValue(f"{option} must be a path, got ''.")

    return typer.Option(option, help=help, parser=parse, metavar="<path>")


def check_variances(bias: float | None, weight: float | None) -> None:
    """Refuse one of --C-b and --C-W without the other: the critical point has both."""
    if (bias is None) != (weight is None):
        given, missing = (f"--C-W {weight:g}", "--C-b") if bias is None else (f"--C-b {bias:g}", "--C-W")
        raise ValueError(f"{given} needs {missing} beside it: give both, or neither for the critical point.")


def auto_or_number(option: str, text: str, *, zero: bool = False) -> Any:
    """The value of an option that takes `auto` or a number."""
    return "auto" if text == "auto" else _number(option, text, zero, "auto or ")


def steps_or_infinity(text: str) -> float | int:
    """The value of an option --steps that takes a whole number or `inf`."""
    if text.lower() in ("inf", "infinity"):
        return math.inf
    return _whole("--steps", text, 0, None, ", or inf")


def networks(text: str, detect: float | None) -> Any:
    """How many networks --verify and --detect ask for: a number, "enough", or none."""
    if detect is not None and text not in ("0", "enough"):
        raise WrongValue(f"give --verify {text}, or --detect {detect:g} to have the number chosen; not both.")
    if detect is not None or text == "enough":
        return "enough"
    count = _whole("--verify", text, 0, None, ", or enough")
    if count in (1, 2):
        raise ValueError(f"--verify {count} is too few networks for a spread; give 3 or more.")
    return count


def parse_hidden(text: str) -> tuple[int, ...]:
    """Widths from "512x10" (ten hidden layers of 512) or "128,64,32"."""
    width, by, count = text.partition("x")
    parts = [width, count] if by else text.split(",")
    if not all(part.strip().isdecimal() and part.isascii() for part in parts):
        raise ValueError(
            f"--hidden {text!r} is neither WIDTHxLAYERS, such as 512x10, nor widths such as 128,64,32."
        )
    numbers = [int(part) for part in parts]
    if min(numbers) < 1:
        raise ValueError(f"--hidden {text!r} describes no hidden layer of positive width.")
    layers = numbers[1] if by else len(numbers)
    widths = numbers[:1] if by else numbers
    if layers > MOST_LAYERS or max(widths) > LARGEST_WIDTH:
        raise ValueError(
            f"--hidden {text!r} is too large: at most {MOST_LAYERS:,} layers of width {LARGEST_WIDTH:,}."
        )
    return tuple(widths) * (layers if by else 1)


def _whole(option: str, value: str | int, at_least: int, at_most: int | None, or_else: str = "") -> int:
    try:
        # int() would also take "1_000" and digits of other scripts.
        found = int(value) if str(value).lstrip("+-").isascii() and "_" not in str(value) else None
    except ValueError:
        found = None
    if found is not None and at_least <= found and (at_most is None or found <= at_most):
        return found
    raise WrongValue(f"{option} must be {_range(at_least, at_most)}{or_else}, got {str(value)!r}.")


def _range(at_least: int, at_most: int | None) -> str:
    if at_most is None:
        return f"a whole number, {'zero' if at_least == 0 else at_least} or more"
    if at_most == at_least + 1:
        return f"{at_least} or {at_most}"
    return f"a whole number from {at_least} to {at_most}"


def _number(option: str, value: str | float, zero: bool, otherwise: str = "") -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if 0 < found < math.inf or (zero and found == 0):
        return found
    wanted = "a finite number, zero or more" if zero else "a positive finite number"
    raise WrongValue(f"{option} must be {otherwise}{wanted}, got {str(value)!r}.")


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _traceback(asked: bool) -> bool:
    if asked:
        show_tracebacks()
    return asked


Activation = Annotated[str, typer.Option("--activation", help="Name of the activation.")]
BiasVariance = Annotated[float | None, number("--C-b", "Bias variance; critical by default.", zero=True)]
WeightVariance = Annotated[
    float | None, number("--C-W", "Weight variance times fan-in; critical by default.")
]
Hidden = Annotated[str, typer.Option("--hidden", help="Hidden layers: 128x3 (three of 128) or 128,64.")]
Network = Annotated[
    Path | None,
    path("--network", "A TOML or JSON file with a network's layers, instead of --hidden and --activation."),
]
Seed = Annotated[int, whole_number("--seed", "Seed for the split and the networks.", 0, LARGEST_SEED)]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of another run.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786; threads if none."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Traceback = Annotated[
    bool,
    typer.Option(
        "--traceback",
        help="Show where in the code an error arose; FINITEWIDTH_TRACEBACK=1 does the same.",
        callback=_traceback,
        is_eager=True,
    ),
]
