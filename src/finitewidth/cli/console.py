"""The terminal that every command writes to."""

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment
from rich.text import Text

from finitewidth._base.characters import printable

# Below, tables have one character a line, and at zero, which some terminals call themselves, they have none.
_NARROWEST = 40

_width = os.environ.get("COLUMNS", "")
if _width.isdecimal() and int(_width) < _NARROWEST:
    # Rich reads it again for every line, Typer for its help.
    os.environ["COLUMNS"] = str(80 if int(_width) == 0 else _NARROWEST)


class _Printable(NamedTuple):
    """Something to print whose text cannot command the terminal; its style still does."""

    thing: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.thing, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class _Guard(RenderHook):
    """Names of columns, files and models may hold codes of terminals."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(thing) for thing in renderables]


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr)
    console.push_render_hook(_Guard())
    return console


output = _console()
messages = _console(stderr=True)


def say(console: Console, sentence: str, label: str = "", style: str = "") -> None:
    """Print one line as it stands: brackets and colons of a path or a column are no markup."""
    line = " ".join(sentence.splitlines())
    console.print(Text.assemble((label, style), " " if label else "", line), soft_wrap=True)


def note(sentence: str) -> None:
    """Tell the user about something that is not an error."""
    say(messages, sentence, "note:", "yellow")


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Print one sentence to standard error and leave."""
    say(messages, sentence, "error:", "bold red")
    sys.exit(code)
