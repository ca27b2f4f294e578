r"""A page of the lab: one idea, its controls, what the theory says and what networks do.

A page is one module in the `pages/` of its topic, with a constant `PAGE`. The browser knows nothing about any
page: it draws the *picture dictionaries* that `Figure.draw` and `Experiment.pieces` return. After a new page
or a new formula run `python docs/lab_formulas.py` (LaTeX to MathML, static/formulas.json).

A **picture** (`Figure.draw(state)`) has these keys; arrays are NumPy arrays or lists, NaN leaves a gap:

    layers    list of layers, drawn in order (below)
    x, y      axes (below)
    equal     True: one unit is equally long on both axes
    alt       one sentence with the numbers of the picture, for those who do not see it
    numbers   [[name, value, remark], ...]: shown beside the pictures
    labels    [{"text": "ordered", "x": 0.03, "y": 0.97}, ...]: words at fractions of the picture
    pick      [control, control] for x and y: a click or a drag in the picture sets these two sliders; a list
              of such pairs gives several handles (movable points). Sliders that only handles move: `hidden`.

A **layer** is a mark, made by a function of `charts`: a line of theory, measured points with error bars, a
band, bars, a rule. Axes are made by `charts.axis`.

`Figure.measured(state)`, if there is one, gives real networks cheap enough for every move: a dictionary with
`layers` and maybe `numbers`, which are put on top of the theory's. Theory and experiment stay in separate
functions.

An **experiment** is real training. `Experiment.pieces(state)` yields dictionaries, each after well under a
second, in the training process; between two pieces a run can be stopped. Only `done` and `of`
are required:

    done, of  progress; unit: what is counted, in the plural ("networks" by default)
    members   {"x": ..., "ys": (new members, points)}: added to the earlier ones, in `Experiment.figure`
    layers    layers on top of `Experiment.figure`; those of a later piece replace those of an earlier one
    figures   {figure name: layers}: the same for several figures
    numbers   as above; replace those of the earlier piece

The state that `pieces` gets has only the controls in `Experiment.depends`. The result stays on the screen
until one of these moves; results are kept on the server by these controls. The finished run of the default
state is shipped in `static/defaults/`, made by `python -m finitewidth.course._server.record SLUG`, and is on
the screen when the page opens.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from finitewidth.course._server.state import Control, State

Picture = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Figure:
    """One picture. It is computed again only when a control it depends on has moved."""

    name: str
    title: str
    depends: tuple[str, ...]
    draw: Callable[[State], Picture]
    tall: bool = False
    measured: Callable[[State], Picture] | None = None

    def picture(self, state: State) -> Picture:
        """What theory says, and on top of it what networks do that are cheap enough for every move."""
        picture = self.draw(state)
        if self.measured is None:
            return picture
        real = self.measured(state)
        return {
            **picture,
            "layers": [*picture["layers"], *real["layers"]],
            "numbers": [*picture.get("numbers", []), *real.get("numbers", [])],
        }


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Real networks: pieces of result, each in well under a second, until all are there."""

    figure: str
    label: str
    depends: tuple[str, ...]
    pieces: Callable[[State], Iterator[Picture]]


@dataclasses.dataclass(frozen=True)
class Page:
    """One idea. `formula` is LaTeX; `code(state)` is a Python program that computes what the page shows.

    Pages stand in the course by their `order`. `claims` are ids of the laboratory (`finitewidth lab list`):
    the page shows their titles. `warm` compiles what the default state needs. `upload` names a form below the
    page; only the page of p(f*) has one.
    """

    slug: str
    order: int
    title: str
    idea: str
    formula: str
    controls: tuple[Control, ...]
    figures: tuple[Figure, ...]
    code: Callable[[State], str]
    experiment: Experiment | None = None
    claims: tuple[str, ...] = ()
    warm: Callable[[], None] | None = None
    upload: str = ""
