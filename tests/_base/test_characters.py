"""Text of users is shown without commands for the terminal."""

import unicodedata

import pytest

from finitewidth._base.characters import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b2J", "�2J"),
        ("a\u202egpj.exe", "a�gpj.exe"),
        ("pay\u200bpal", "pay�pal"),
        ("\udcff.csv", "�.csv"),
        ("\x7f\r\x00", "␡␍␀"),
        ("größe, 長さ, a\tb\nc, 👩\u200d🔬", "größe, 長さ, a\tb\nc, 👩\u200d🔬"),
    ],
)
def test_commands_become_pictures(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown


def test_no_control_character_is_left():
    left = printable("".join(map(chr, range(0x110000))))
    assert {c for c in left if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} == {"\t", "\n"}
    assert not {c for c in left if unicodedata.bidirectional(c) in ("LRO", "RLO", "LRE", "RLE", "PDF", "RLI")}
    left.encode("utf-8")
