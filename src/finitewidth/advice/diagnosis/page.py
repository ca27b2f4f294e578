"""The page about a network: one HTML file that needs nothing else."""

import html
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from matplotlib.figure import Figure

from finitewidth.advice.diagnosis import figures
from finitewidth.advice.diagnosis.result import Diagnosis, Finding, LayerRow
from finitewidth.advice.diagnosis.words import factor, percent, short
from finitewidth.report import parts


class Section(NamedTuple):
    """A part of the page with a picture; left out when there is no picture."""

    id: str
    title: str
    draw: Callable[[Diagnosis], Figure | None]
    caption: str


SECTIONS = (
    Section(
        "signals",
        "Signals and gradients by layer",
        figures.signals_figure,
        "Above: the mean square of what leaves each layer. Below: the squared gradient of a random "
        "combination of the outputs, from the last layer back. Dashed: layers at the critical point of their "
        "activation, which hand on what they get; where the theory does not know a layer, a level line.",
    ),
    Section(
        "next-steps",
        "The next steps of training",
        figures.next_steps_figure,
        "The loss at these points for the next steps at your learning rate. The line is the network's own "
        "tangent kernel, held fixed; the points are training itself, from these weights. They part where "
        "features change.",
    ),
    Section(
        "spectrum",
        "Tangent kernel",
        figures.spectrum_figure,
        "Eigenvalues of the network's tangent kernel. Training learns along the modes on the left first; a "
        "steep fall means that the rest takes long.",
    ),
    Section(
        "units",
        "Dead and saturated units",
        figures.units_figure,
        "A unit that never fires, and an entry on the flat part of its activation, pass no gradient back.",
    ),
)


def diagnosis_page(found: Diagnosis) -> str:
    """The whole page."""
    drawn = [(section, section.draw(found)) for section in SECTIONS]
    cards = "\n".join(
        parts.card(section.id, section.title, figure, section.caption)
        for section, figure in drawn
        if figure is not None
    )
    body = f"""{parts.numbers(_numbers(found))}
{_verdict(found)}
{_layers(found.layers)}
<div class="figures">
{cards}
</div>
{_findings(found.findings)}"""
    return parts.whole_page("Diagnosis of a network", found.name, found.size_words, body)


def _numbers(found: Diagnosis) -> list[tuple[str, str]]:
    items = [(str(len(found.faults)) if found.faults else "none", "faults found")]
    if found.accuracy is not None:
        items.append((percent(found.accuracy), "of the points classified correctly"))
    elif found.loss is not None:
        items.append((short(found.loss), "loss at the points"))
    if found.step is not None:
        items.append((short(found.step.largest), f"largest stable step of {found.step.words}"))
        if found.step.learning_rate is not None:
            items.append((short(found.step.learning_rate), "the step asked about"))
    items.append(
        (short(found.kernel.effective_rank), f"modes of {len(found.kernel.eigenvalues)} that learn fast")
    )
    return items


def _verdict(found: Diagnosis) -> str:
    shown = "".join(
        f'<li class="{finding.grade}"><b>{parts.text(finding.name)}</b> {_words(finding)}</li>'
        for finding in found.faults + found.notes
    )
    complaints = f'<ul class="complaints">{shown}</ul>' if shown else ""
    state = "sick" if found.faults else "well"
    return (
        f'<section id="verdict"><h2>Verdict</h2><p class="verdict {state}">{parts.text(found.verdict)}</p>'
        f"{complaints}</section>"
    )


def _words(finding: Finding) -> str:
    if not finding.remedy:
        return parts.text(finding.meaning)
    remedy = re.sub("`(.*?)`", r"<code>\1</code>", parts.text(finding.remedy))
    return f'{parts.text(finding.meaning)} <span class="remedy">{remedy}</span>'


_COLUMNS = (
    "layer", "kind", "units", "activation", "signal", "grows by", "critical", "gradient", "grows by",
    "critical", "dead", "saturated", "directions", "share", "",
)  # fmt: skip


def _layers(layers: Iterable[LayerRow]) -> str:
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(_layer(layer) for layer in layers)
    return (
        '<section id="layers"><h2>Layer by layer</h2><div class="wide"><table class="layers"><thead>'
        '<tr><td colspan="4"></td><th colspan="3">forwards</th><th colspan="3">backwards</th>'
        f'<td colspan="5"></td></tr><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        "<p>Signals are mean squares, gradients sums of squares over the units. &ldquo;Grows by&rdquo; "
        "compares with the layer before, for gradients with the layer behind; a critical layer would grow "
        "them by the number beside it. Directions: in how many the units vary over the points. Share: of "
        "the layer's weights in the tangent kernel, which is its share in learning.</p></section>"
    )


def _layer(layer: LayerRow) -> str:
    cells = (
        layer.kind,
        f"{layer.units:,}",
        f"{layer.activation}, a gate" if layer.gate else layer.activation or "",
        short(layer.signal),
        factor(layer.forward),
        "" if layer.forward is None else factor(layer.critical_forward),
        short(layer.gradient),
        factor(layer.backward),
        "" if layer.backward is None else factor(layer.critical_backward),
        percent(layer.dead),
        percent(layer.saturated),
        f"{layer.effective_units:.3g}",
        percent(layer.share),
        layer.flag,
    )
    marked = ' class="flagged"' if layer.flag else ""
    shown = "".join(f"<td>{parts.text(cell)}</td>" for cell in cells)
    return f"<tr{marked}><th>{html.escape(layer.name)}</th>{shown}</tr>"


def _findings(findings: Iterable[Finding]) -> str:
    rows = "".join(
        f'<tr class="{finding.grade}"><th>{parts.text(finding.name)}</th><td class="value">'
        f"{parts.text(finding.value)}</td><td>{_words(finding)}</td></tr>"
        for finding in findings
    )
    return f'<section id="findings"><h2>Every figure, and what it means</h2><table>{rows}</table></section>'
