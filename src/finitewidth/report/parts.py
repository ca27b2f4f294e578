"""What the pages of all reports are made of: one HTML file that needs nothing else."""

import html
import io
import re
from collections.abc import Iterable, Mapping
from importlib import resources

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from finitewidth._base.characters import printable
from finitewidth.report import style


def whole_page(kind: str, title: str, subtitle: str, body: str) -> str:
    """A page with its head: what kind of report it is, what about, and a line below.

    No character of the page commands a terminal, whatever names a table has.
    """
    css = resources.files("finitewidth.report").joinpath("page.css").read_text(encoding="utf-8")
    return printable(f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} - finitewidth</title>
<link rel="icon" href="data:,">
<style>
{css}</style>
</head>
<body>
<header>
<p class="kind">{text(kind)}</p>
<h1>{html.escape(title)}</h1>
<p class="network">{text(subtitle)}</p>
</header>
<main>
{body}
</main>
</body>
</html>
""")


def text(words: str) -> str:
    """Words as HTML; a number and its per cent sign stay on one line."""
    return html.escape(words).replace(" %", "&nbsp;%")


def numbers(items: Iterable[tuple[str, str]]) -> str:
    """The few numbers that one looks for first, each with what it is."""
    shown = "".join(f"<li><b>{text(value)}</b> {text(words)}</li>" for value, words in items)
    return f'<ul class="numbers">{shown}</ul>'


def definitions(rows: Mapping[str, str]) -> str:
    """A table of names and values."""
    body = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows.items()
    )
    return f"<table>{body}</table>"


def card(name: str, title: str, figure: Figure, caption: str) -> str:
    """A picture with its title and what it shows."""
    return (
        f'<figure id="{name}"><h2>{title}</h2>{inline_svg(figure, name, title)}'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """A figure as an element of the page: scales with it, and shares no identifier with its neighbours."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with style.house_style(), mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        # `savefig` would draw everything twice.
        FigureCanvasSVG(figure).print_svg(text, metadata=nothing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    opening = re.match(r"<svg[^>]*>", svg)
    box = re.search(r'viewBox="([^"]*)"', svg)
    if opening is None or box is None:
        raise ValueError(f"the figure {name!r} was not drawn as SVG.")
    start = f'<svg viewBox="{box[1]}" role="img" aria-label="{html.escape(label)}">'
    return start + svg[opening.end() :].replace("xlink:href", "href")
