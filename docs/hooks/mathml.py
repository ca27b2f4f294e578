r"""Turns the formulas of a page into MathML while the book is built.

Browsers draw MathML themselves, so the pages need no script and no download. Arithmatex marks
formulas as \(...\) and \[...\] inside elements of class "arithmatex"; docstrings pass through the
same extension.
"""

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])\s*</(?P=tag)>",
    re.DOTALL,
)


def on_page_content(content: str, page, **_) -> str:
    """Replace every formula; one that cannot be converted stops the build and names its page."""

    def replace(match: re.Match) -> str:
        display = match["block"] is not None
        latex = html.unescape(match["block"] if display else match["inline"]).strip()
        try:
            formula = mathml(latex, display=display)
        except Exception as error:
            raise ValueError(
                f"{page.file.src_path}: cannot convert the formula {latex!r}: {error}"
            ) from error
        return f'<div class="formula">{formula}</div>' if display else formula

    return _FORMULA.sub(replace, content)


def mathml(latex: str, *, display: bool = False) -> str:
    """One formula as MathML; refuses commands that the converter would print as text."""
    formula = convert(latex, display="block" if display else "inline")
    unknown = re.findall(r"\\[A-Za-z]+", formula)
    if unknown:
        raise ValueError(f"unknown commands {', '.join(sorted(set(unknown)))}")
    return formula
