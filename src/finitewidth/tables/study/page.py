"""The report of a study: one HTML file that needs nothing else."""

import html
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from finitewidth._base.estimate import Estimate
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.report import parts
from finitewidth.tables.study import prediction_figures as figures
from finitewidth.tables.study.scores import ClassificationScores, RegressionScores
from finitewidth.tables.study.study import Study
from finitewidth.tables.study.words import (
    describe,
    grouped_columns,
    layer_words,
    network_words,
    points,
    solver_words,
    training_words,
)


class Section(NamedTuple):
    """A part of the page with a picture; left out when there is no picture for a study.

    `caption` may depend on the study.
    """

    id: str
    title: str
    draw: Callable[[Study], Figure | None]
    caption: Callable[[Study], str]


def _parity(study: Study) -> str:
    if study.data.classes:
        return "Every test row, by its true class and the class with the largest mean output."
    return (
        "Each point is a test row. A perfect prediction lies on the line. The bars hold the spread of "
        "networks and the label noise."
    )


def _calibration(study: Study) -> str:
    if study.data.classes:
        return (
            "Test rows grouped by the probability of their predicted class; the small numbers count rows. "
            "Points on the line mean that a probability of 80 % is right in 80 % of the cases."
        )
    return (
        "Central intervals of the predicted law, for many levels at once. Above the line the predictions are "
        "more cautious than necessary, below it they are too sure."
    )


def _spectrum(study: Study) -> str:
    power = study.alignment.cumulative_power
    half = int(np.searchsorted(power, 0.5)) + 1
    if power[-1] < 0.5:
        return (
            "Training learns the modes of the tangent kernel one by one, large eigenvalues first. The "
            f"{len(power):,} modes that are known here hold {100 * power[-1]:.0f} % of the target."
        )
    return (
        "Training learns the modes of the tangent kernel one by one, large eigenvalues first. "
        f"Half of the target lies in the first {half:,} of {len(power):,} modes: the smaller this number, "
        "the better the network suits the task."
    )


def _loss(study: Study) -> str:
    text = "Predicted error, averaged over networks of infinite width, during gradient descent."
    if study.verification is None:
        return text + " No networks were trained; --verify 64 would add them."
    return text + f" Points: {study.verification.networks} networks of width {study.verification.width}."


def _finite_width(study: Study) -> str:
    above, below = "How", ""
    if study.correction_sizes:
        above = "Above: how"
        below = " Below: what the correction consists of; a kernel that moves is representation learning."
    text = (
        f"{above} far the mean of networks of this width lies from that of infinitely wide ones, against "
        f"what the first correction in {study.small_number} says, averaged over test rows with like "
        f"corrections.{below}"
    )
    return text if study.verification is not None else text + " No networks were trained: --verify adds them."


def _networks(study: Study) -> str:
    if isinstance(study.law, TrainedDistribution) and study.law.correction is not None:
        law = "that of infinite width"
        if study.law.covariance_correction is not None:
            law += f" with its correction in {study.small_number}"
        return (
            "Above: how far the average of the networks is from the predicted mean. Below: their spread at "
            f"each test row, against {law}; grey, against infinite width alone."
        )
    return (
        "Above: how far the average of the networks is from the predicted mean. Below: their spread at each "
        "test row. Finite width moves both away from the prediction by a share of the order of depth / width."
    )


SECTIONS = (
    Section("parity", "Predictions", figures.parity_figure, _parity),
    Section("calibration", "Calibration of the uncertainty", figures.calibration_figure, _calibration),
    Section("loss", "Training", figures.loss_figure, _loss),
    Section("spectrum", "Kernel and target", figures.spectrum_figure, _spectrum),
    Section("finite-width", "Finite width", figures.finite_width_figure, _finite_width),
    Section("networks", "Real networks", figures.networks_figure, _networks),
)


def report_page(study: Study) -> str:
    """The whole page."""
    data = study.data
    drawn = [(section, section.draw(study)) for section in SECTIONS]
    cards = "\n".join(
        parts.card(section.id, section.title, figure, section.caption(study))
        for section, figure in drawn
        if figure is not None
    )
    notes = "".join(f"<li>{parts.text(note)}</li>" for note in data.notes)
    words = "".join(f"<p>{parts.text(part)}</p>" for part in describe(study))
    body = f"""{parts.numbers(_numbers(study))}
<section id="summary"><h2>In words</h2>{words}{f'<ul class="notes">{notes}</ul>' if notes else ""}</section>
{_comparison(study)}<div class="figures">
{cards}
</div>
{_columns(study)}
<section id="settings"><h2>Settings</h2>{_settings(study)}</section>"""
    return parts.whole_page(
        "The distribution of trained networks",
        f"{data.name}: {data.target}",
        f"{network_words(study)}; {training_words(study)}",
        body,
    )


def _numbers(study: Study) -> list[tuple[str, str]]:
    """The few numbers that one looks for first."""
    items: list[tuple[str, str]] = []
    scores, data = study.scores, study.data
    if isinstance(scores, RegressionScores):
        items += [
            (f"{scores.rmse:.3g}", "error at test rows (rms)"),
            (f"{scores.r2:.2f}", "R2: share of the variance explained"),
            (f"{100 * scores.calibration.at(0.95):.0f} %", "of test values in 95 % intervals"),
        ]
    elif isinstance(scores, ClassificationScores):
        items += [
            (f"{100 * scores.accuracy:.1f} %", "of test rows classified correctly"),
            (f"{100 * scores.calibration.error:.1f} %", "calibration error"),
        ]
    if not data.classes:
        beside = f"; infinite width: {study.infinite_spread.mean():.3g}" if study.law.correction else ""
        spread = study.spread.mean()
        items.append(
            (
                "-" if math.isnan(spread) else f"{spread:.3g}",
                f"spread of networks (standard deviation{beside})",
            )
        )
    if study.verification is not None:
        share = float(np.mean(np.abs(study.verification.z_mean) < 2))
        items.append((f"{100 * share:.0f} %", "of means within 2 standard errors of real networks"))
    return items


def _comparison(study: Study) -> str:
    """The networks beside other methods, best first, with a bar for each."""
    scores = study.scores
    if scores is None or not study.baselines:
        return ""
    own = "trained networks"
    if isinstance(scores, RegressionScores):
        rows = [(own, Estimate.of(scores.r2, scores.r2_error), f"{scores.rmse:.4g}", "")]
        rows += [
            (other.name, other.score, f"{other.rmse:.4g}", points(other.ahead)) for other in study.baselines
        ]
        head = ("variance explained", "error (rms)")
    else:
        rows = [(own, Estimate.of(scores.accuracy, scores.accuracy_error), "", "")]
        rows += [(other.name, other.score, "", points(other.ahead)) for other in study.baselines]
        head = ("correct", "")
    settings = "; ".join(f"{other.name}, {other.settings}" for other in study.baselines)
    body = ""
    for name, score, error, ahead in sorted(rows, key=lambda row: -float(row[1].value)):
        length = 100 * min(max(float(score.value), 0.0), 1.0)
        share = f"{100 * score.value:.1f} ± {100 * score.sem:.1f} %"
        body += (
            f"<tr{' class=own' if name == own else ''}><th>{parts.text(name)}</th>"
            f'<td class="bar"><span style="width: {length:.1f}%"></span></td>'
            f"<td>{parts.text(share)}</td><td>{html.escape(error)}</td><td>{html.escape(ahead)}</td></tr>"
        )
    heads = "".join(f"<td>{words}</td>" for words in ("", "", *head, "networks ahead by"))
    return (
        '<section id="comparison"><h2>Beside other methods</h2><table class="comparison"><thead><tr>'
        f"{heads}</tr></thead><tbody>{body}</tbody></table><p>All were fitted to the same training rows and "
        "inputs and are scored at the same test rows. Their settings were chosen on the training rows: "
        f"{html.escape(settings)}. Errors are standard errors over test rows; that of a difference is "
        "smaller than those of the two scores, since the rows are the same.</p></section>"
    )


def _columns(study: Study) -> str:
    rows = "".join(
        f"<tr><th>{html.escape(names)}</th><td>{parts.text(done)}</td></tr>"
        for names, done in grouped_columns(study.data)
    )
    return (
        f'<section id="columns"><h2>What became of the columns</h2><table>{rows}</table>'
        f"<p>{len(study.data.features):,} inputs in all, fitted to the training rows.</p></section>"
    )


def _network_settings(study: Study) -> dict[str, str]:
    net = study.net
    if not isinstance(net, MLP):
        return {"layers": layer_words(net)}
    return {
        "hidden widths": ", ".join(map(str, net.hidden)),
        "activation": net.activation.name,
        "C_b, C_W": f"{np.asarray(net.C_b)[0]:.5g}, {np.asarray(net.C_W)[0]:.5g}"
        + (" (critical)" if study.choices.C_b is None else ""),
    }


def _settings(study: Study) -> str:
    data = study.data
    steps = study.algorithm.steps
    ridge = f"{study.ridge:.4g}" + (", chosen on the training rows" if study.ridge_chosen else "")
    chosen = ", chosen on the training rows" if study.stop_chosen else ""
    rows = {
        "data": f"{data.name}, {len(data.x_train):,} training rows, {len(data.x_test):,} test rows",
        "inputs": ", ".join(data.features[:12]) + (" ..." if len(data.features) > 12 else ""),
        **_network_settings(study),
        "eta": f"{study.algorithm.eta:.4g} (stable below {study.largest_eta:.4g})",
        "steps": "to the end" if math.isinf(steps) else f"{steps:,}{chosen}",
        "ridge": ridge,
        "label noise": f"{data.unit * math.sqrt(study.noise):.4g} (standard deviation)",
        "seed": str(study.choices.seed),
    }
    if isinstance(study.law, LargeLaw):
        rows["solver"] = solver_words(study.law)
    if study.verification is not None:
        rows["networks"] = f"{study.verification.networks} trained for {study.verification.steps:,} steps"
    return parts.definitions(rows)
