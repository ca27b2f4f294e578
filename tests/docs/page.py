"""Runs the code blocks of one page, in order, in one namespace, in the current directory.

A ``python`` block is executed; in an ``sh`` block the lines that start with ``finitewidth`` go through the
command's own entry point, and all others are only looked at (see `check_line`). As a script,

    python -W error page.py PAGE

prints a JSON list of what each block wrote.
"""

import contextlib
import io
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>python|sh)[^\n]*\n(?P<code>.*?)^(?P=indent)```\n"
    r"(?:\s*?(?P=indent)```text[^\n]*\n(?P<output>.*?)^(?P=indent)```(?:\n|\Z))?",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """One block of code, and what the page says it prints (None when it says nothing)."""

    line: int
    kind: str
    code: str
    output: str | None


def blocks(text: str) -> list[Block]:
    """The runnable blocks of a page."""
    found = []
    for match in _BLOCK.finditer(text):
        strip = re.compile(f"^{match['indent']}", re.MULTILINE)
        output = match["output"]
        found.append(
            Block(
                text.count("\n", 0, match.start()) + 1,
                match["kind"],
                strip.sub("", match["code"]),
                None if output is None else strip.sub("", output),
            )
        )
    return found


def run(page: Path) -> list[str]:
    """What each block of the page prints."""
    namespace = {"__name__": "__main__"}
    outputs = []
    for block in blocks(page.read_text(encoding="utf-8")):
        captured = io.StringIO()
        with contextlib.redirect_stdout(captured):
            if block.kind == "python":
                padding = "\n" * block.line
                exec(compile(padding + block.code, str(page), "exec"), namespace)
            else:
                for line in commands(block.code):
                    run_line(line, block.output or "")
        outputs.append(captured.getvalue())
    return outputs


def commands(code: str) -> list[str]:
    """The command lines of an sh block, continuations joined and comments dropped."""
    joined = re.sub(r"\\\n\s*", "", code)
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def run_line(line: str, expected: str) -> None:
    """Run a `finitewidth` line; a page that shows "error: ..." expects it to be refused."""
    words = shlex.split(line, comments=True)
    if words[0] != "finitewidth":
        check_line(line)
        return
    from finitewidth.cli import main

    refused = io.StringIO()
    arguments, target = words, None
    if ">" in words:
        arguments, (target,) = words[: words.index(">")], words[words.index(">") + 1 :]
    redirected = io.StringIO() if target else sys.stdout
    sys.argv = arguments
    try:
        with contextlib.redirect_stdout(redirected), contextlib.redirect_stderr(refused):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    if target:
        Path(target).write_text(redirected.getvalue(), encoding="utf-8")
    if expected.startswith("error:"):
        assert code == 2, f"{line!r} should have been refused, but left with {code}"
        print(refused.getvalue(), end="")
    else:
        assert code == 0, f"{line!r} left with {code}: {refused.getvalue()}"


def check_line(line: str) -> None:
    """A line that is not run must at least name things that exist."""
    words = shlex.split(line)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        unknown = set(words[1:]) - set(targets)
        assert not unknown, f"the Makefile has no target {', '.join(sorted(unknown))}"
    elif "pip" in words and "install" in words:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = re.findall(r"\.\[([a-z,]+)\]", line)
        unknown = set(",".join(extras).split(",")) - set(project["optional-dependencies"]) - {""}
        assert not unknown, f"the package has no extra {', '.join(sorted(unknown))}"
    else:
        known = ("cd", "python3")
        assert words[0] in known or words[:2] == ["git", "clone"], f"this line is never run: {line!r}"


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]).resolve())))
