"""How large the house is: modules, lines, lines of code and classes of every room. Prints a table.

Lines of code are those that hold a token other than a comment or a docstring.
"""

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "finitewidth"
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip


class Size(NamedTuple):
    """Of one or more modules."""

    modules: int
    lines: int
    code: int
    classes: int

    def __add__(self, other):
        return Size(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Size(0, 0, 0, 0)


def size_of(path: Path) -> Size:
    """The size of one module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    words = set()
    for node in ast.walk(tree):
        # A docstring is an expression that is nothing but a text.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            words.update(range(node.lineno, node.end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {
        line
        for token in tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    classes = sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
    return Size(1, text.count("\n"), len(code - words), classes)


def sizes() -> dict[str, Size]:
    """The size of every room, and of the course and the framework."""
    rooms: dict[str, Size] = defaultdict(lambda: NOTHING)
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0]
        rooms["course" if room in ("course", "lab.py") else room.removesuffix(".py")] += size_of(path)
    framework = sum((size for room, size in rooms.items() if room != "course"), NOTHING)
    return dict(sorted(rooms.items())) | {"framework": framework, "all": framework + rooms["course"]}


if __name__ == "__main__":
    print(f"{'':24s}" + "".join(f"{name:>10s}" for name in Size._fields))
    for room, size in sizes().items():
        print(f"{room:24s}" + "".join(f"{number:10,d}" for number in size))
