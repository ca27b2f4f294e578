"""What every command shares: the terminal, error sentences, parsing of common options."""

import sys
from typing import NoReturn

from rich.console import Console

output = Console()
messages = Console(stderr=True)


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Print one sentence to standard error and leave."""
    messages.print(f"[bold red]error:[/] {sentence}", highlight=False, soft_wrap=True)
    sys.exit(code)


def parse_hidden(text: str) -> tuple[int, ...]:
    """Widths from "512x10" (ten hidden layers of 512) or "128,64,32"."""
    try:
        if "x" in text:
            width, count = (int(part) for part in text.split("x"))
            widths = (width,) * count
        else:
            widths = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(
            f"--hidden {text!r} is neither WIDTHxLAYERS, such as 512x10, nor widths such as 128,64,32."
        ) from None
    if not widths or min(widths) < 1:
        raise ValueError(f"--hidden {text!r} describes no hidden layer of positive width.")
    return widths
