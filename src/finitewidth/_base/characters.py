"""Text of users and files as it may be shown: what would command a terminal or turn a line is replaced."""

# Directions of writing and marks without width, which make a line read as another; halves of characters,
# which are in names of files that are no text.
_HIDDEN = (
    *range(0x80, 0xA0), 0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF,
    *range(0xD800, 0xE000),
)  # fmt: skip
_CONTROLS = (*range(0x09), *range(0x0B, 0x20))
_SHOWN = dict.fromkeys(_HIDDEN, "\N{REPLACEMENT CHARACTER}") | {
    **{code: chr(0x2400 + code) for code in _CONTROLS},
    0x7F: "\N{SYMBOL FOR DELETE}",
}


def printable(text: str) -> str:
    """The text with a picture for every control character but the tab and the end of a line."""
    return text.translate(_SHOWN)
