"""The terminal that every command writes to."""

import sys
from typing import NoReturn

from rich.console import Console
from rich.text import Text

output = Console()
messages = Console(stderr=True)


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
