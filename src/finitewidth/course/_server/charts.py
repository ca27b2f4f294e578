"""The marks of a picture, a word each, and its axes: the dictionaries that the browser draws.

What is left out stays out of the dictionary. `name` is the entry in the legend ("" for none), `tone` a colour
0 to 5: blue, red, green, violet, ochre, grey; the house rule is 0 for theory and 1 for networks.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Mark = dict[str, Any]
Values = Any  # a number, an array or a list of numbers; NaN leaves a gap


def axis(
    label: str,
    span: Values = None,
    *,
    log: bool | None = None,
    ticks: Any = None,
    zero: bool | None = None,
) -> Mark:
    """An axis from span[0] to span[1], in values of the data.

    Without a span a linear axis starts at zero, unless `zero` is False. Ticks are numbers, or pairs of value
    and text.
    """
    if ticks is not None:
        ticks = [[tick, f"{tick:g}"] if np.ndim(tick) == 0 else tick for tick in ticks]
    return _given(label=label, range=span, log=log, ticks=ticks, zero=zero)


def theory(x: Values, y: Values, name: str | None = None, tone: int | None = None) -> Mark:
    """A line: what theory says."""
    return _given(role="theory", x=x, y=y, name=name, tone=tone)


def line(
    x: Values,
    y: Values,
    name: str | None = None,
    tone: int | None = None,
    *,
    dash: str | None = None,
    width: float | int | None = None,
) -> Mark:
    """A line of another style: dash is "solid", "dash" or "dot"."""
    return _given(role="lines", x=x, y=y, name=name, tone=tone, dash=dash, width=width)


def band(x: Values, lo: Values, hi: Values, name: str | None = None, tone: int | None = None) -> Mark:
    """A filled band between two curves."""
    return _given(role="band", x=x, lo=lo, hi=hi, name=name, tone=tone)


def outline(x: Values, lo: Values, hi: Values, name: str | None = None, tone: int | None = None) -> Mark:
    """Two dashed lines."""
    return _given(role="outline", x=x, lo=lo, hi=hi, name=name, tone=tone)


def measured(
    x: Values, y: Values, name: str | None = None, tone: int | None = None, *, err: Values = None
) -> Mark:
    """Open circles, with bars of `err` to each side."""
    return _given(role="measured", x=x, y=y, err=err, name=name, tone=tone)


def data(x: Values, y: Values, name: str | None = None) -> Mark:
    """Black points."""
    return _given(role="data", x=x, y=y, name=name)


def points(
    x: Values,
    y: Values,
    classes: Values,
    *,
    size: float | int | None = None,
    names: Sequence[str] | None = None,
    open: bool | None = None,
    name: str | None = None,
) -> Mark:
    """Small points, the colour of each by its class 0 to 5; `names` has one a class, `open` draws circles."""
    return _given(role="points", x=x, y=y, classes=classes, size=size, names=names, open=open, name=name)


def bars(x: Values, y: Values, name: str | None = None, tone: int | None = None) -> Mark:
    """A histogram: x has the centres or, with one more, the edges."""
    return _given(role="bars", x=x, y=y, name=name, tone=tone)


def rule(
    *,
    x: Values = None,
    y: Values = None,
    text: str = "",
    dash: str | None = None,
    tone: int | None = None,
) -> Mark:
    """A line across the picture at a value of x or of y."""
    across = ("y", y) if x is None else ("x", x)
    return _given(role="rule", axis=across[0], at=across[1], text=text, dash=dash, tone=tone)


def polygons(xs: Values, ys: Values, classes: Values, name: str | None = None) -> Mark:
    """Filled cells (cells, corners), the colour of each by its class 0 to 11; NaN fills cells with fewer."""
    return _given(role="polygons", xs=xs, ys=ys, classes=classes, name=name)


def plane(x: Values, y: Values, z: Values, **more: Any) -> Mark:
    """A coloured plane with the values z (y, x).

    `scale` is "diverging" (around `middle`, or 0), "sequential" or "classes" (z is 0 to 11); `hover` is a
    text with %{x}, %{y}, %{z}.
    """
    return _given(role="map", x=x, y=y, z=z, **more)


def edge(x: Values, y: Values, z: Values, **more: Any) -> Mark:
    """The line on which z (y, x) is `level`, or 0."""
    return _given(role="edge", x=x, y=y, z=z, **more)


def _given(**parts: Any) -> Mark:
    return {name: part for name, part in parts.items() if part is not None}
