"""The words by which layers are named where a network is plain data, and how their settings are read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from finitewidth._base.checks import is_number
from finitewidth.architecture.layer import Layer, Spec

Kind = TypeVar("Kind", bound=type[Layer])
# Every word, with the class whose `from_entry` reads its settings.
WORDS: dict[str, Any] = {}


def word(name: str) -> Callable[[Kind], Kind]:
    """Let a class of layers be called by a word; the class has `from_entry(entry)` and `entry()`."""

    def register(kind: Kind) -> Kind:
        WORDS[name] = kind
        return kind

    return register


class Sizes(NamedTuple):
    """What layers get that say nothing about their size: hidden ones `width`, the last one `n_out`."""

    width: int
    n_out: int


class Entry:
    """The settings of one layer; `finish` refuses those that nobody has asked for.

    Parameters
    ----------
    settings
        The word under "layer", and the settings by their names.
    place
        Where the entry stands, for messages: "layer 3", "layer 3, body, layer 0".
    sizes
        Sizes of layers that give none.
    """

    def __init__(self, settings: Mapping[str, Any], place: str, sizes: Sizes):
        self._left = {key: value for key, value in settings.items() if key != "layer"}
        self.name = f"{place} ({settings['layer']})"
        self.sizes = sizes

    def value(self, key: str, default: Any = None) -> Any:
        """A setting of any kind."""
        return self._left.pop(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """A number; without a default the setting must be there."""
        found = self.value(key, default)
        if found is None:
            raise ValueError(f"{self.name} needs {key}, a number.")
        if not is_number(found):
            raise ValueError(f"{self.name} has {key} = {found!r}; it must be a number.")
        return found

    def optional_number(self, key: str) -> float | None:
        """A number, or None where the setting is absent."""
        return self.number(key) if key in self._left else None

    def text(self, key: str, default: str | None = None) -> str:
        """A word; without a default the setting must be there."""
        found = self.value(key, default)
        if not isinstance(found, str):
            raise ValueError(f"{self.name} needs {key}, a word{'' if found is None else f', got {found!r}'}.")
        return found

    def layers(self, key: str) -> list[Layer]:
        """A list of layers; empty where the setting is absent."""
        return read_layers(self.value(key, []), f"{self.name}, {key}, ", self.sizes)

    def branches(self, key: str = "branches") -> list[list[Layer]]:
        """A list of lists of layers."""
        found = self.value(key)
        if not _is_list(found) or not found:
            raise ValueError(f"{self.name} needs {key}, a list of lists of layers, got {found!r}.")
        return [
            read_layers(branch, f"{self.name}, branch {number}, ", self.sizes)
            for number, branch in enumerate(found)
        ]

    def affine(self) -> dict[str, Any]:
        """C_b, C_W, lambda_b, lambda_W; rates that are absent are those of variance-one parameters.

        Parameters of variance one behind the factors $\\sqrt{C_b}$ and $\\sqrt{C_W/n}$, moved with rate one,
        have $\\lambda_b=C_b$ and $\\lambda_W=C_W$. A layer without variances is critical, with rates of one.
        """
        C_b, C_W = self.optional_number("C_b"), self.optional_number("C_W")
        rates = {
            "lambda_b": self.number("lambda_b", 1.0 if C_b is None else C_b),
            "lambda_W": self.number("lambda_W", 1.0 if C_W is None else C_W),
        }
        return {"C_b": C_b, "C_W": C_W, **rates}

    def finish(self) -> None:
        """Refuse settings that the layer does not have."""
        if self._left:
            raise ValueError(f"{self.name} has no setting {', '.join(map(repr, self._left))}.")


def read_layers(spec: Spec, place: str, sizes: Sizes) -> list[Layer]:
    """The layers of a list of entries; `place` begins the name of each in messages."""
    if not _is_list(spec):
        raise ValueError(f"{place or 'the spec '}must be a list of layers, got {spec!r}.")
    return [_read(settings, f"{place}layer {number}", sizes) for number, settings in enumerate(spec)]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _read(settings: object, place: str, sizes: Sizes) -> Layer:
    if not isinstance(settings, Mapping) or not isinstance(settings.get("layer"), str):
        raise ValueError(
            f'{place} must be a table with the name of a layer under "layer", such as '
            f'{{"layer": "Activation", "name": "relu"}}, got {settings!r}.'
        )
    name = settings["layer"]
    if name not in WORDS:
        raise ValueError(f"{place} is called {name!r}. Known: {', '.join(sorted(WORDS))}.")
    entry = Entry(settings, place, sizes)
    try:
        layer = WORDS[name].from_entry(entry)
    except (TypeError, ValueError) as error:
        raise type(error)(_placed(str(error), entry.name)) from None
    entry.finish()
    return layer


def _placed(words: str, name: str) -> str:
    """The sentence with the name of the layer that it is about, unless a layer is named already."""
    return words if words.startswith("layer ") else f"{name}: {words}"
