"""A study in plain words."""

import itertools
import math

import numpy as np

from finitewidth._base.estimate import Estimate
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.tables.study.baselines import Baseline
from finitewidth.tables.study.preparation import Prepared, listed
from finitewidth.tables.study.scores import ClassificationScores, RegressionScores, root_mean_square
from finitewidth.tables.study.study import Study
from finitewidth.verification.result import Verification, alarm_words, detectable_words


def describe(study: Study) -> list[str]:
    """Paragraphs that say what was predicted, how sure to be of it, and whether networks agree."""
    parts = [_task(study), _quality(study), _comparison(study), _uncertainty(study)]
    if study.law.correction is not None:
        parts.append(f"{finite_width_words(study)}{_origin_words(study)}")
    elif study.remark:
        parts.append(f"The correction for finite width: {study.remark[0].lower()}{study.remark[1:]}")
    if study.verification is not None:
        parts.append(_agreement(study, study.verification))
    return [part for part in parts if part]


def network_words(study: Study) -> str:
    """The network, as one says it."""
    if not isinstance(study.net, MLP):
        return f"network ({layer_words(study.net)})"
    hidden = study.net.hidden
    layers = "one hidden layer" if len(hidden) == 1 else f"{len(hidden)} hidden layers"
    equal = len(set(hidden)) == 1
    width = f"{hidden[0]} units" if equal else f"{', '.join(map(str, hidden))} units"
    return f"{study.net.activation.name} network with {layers} of {width}"


def layer_words(net: Layer) -> str:
    """The layers of a network in a row, equal neighbours counted: "Dense, 16 x Residual, Dense"."""
    runs = [
        (name, len(list(same))) for name, same in itertools.groupby(type(p).__name__ for p in net.parts())
    ]
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in runs)


def training_words(study: Study) -> str:
    """The training, as one says it."""
    steps = study.algorithm.steps
    length = "to the end" if math.isinf(steps) else f"for {steps:,} steps"
    if study.stop_chosen:
        length += " (chosen by leaving out training rows)"
    spring = ""
    if study.ridge > 0:
        how = "chosen by leaving out training rows" if study.ridge_chosen else "as asked"
        spring = f", weights held to their start by a ridge of {study.ridge:.3g} ({how})"
    return f"gradient descent {length}{spring}"


def solver_words(law: LargeLaw) -> str:
    """How the equations of many rows were solved, and how exact that is."""
    solve = law.solve
    seconds = f"{sum(solve.seconds.values()):.0f} seconds"
    if solve.method == "nystrom":
        return (
            f"Nystrom's method with {solve.rank:,} rows as features in {seconds}: an approximation of the "
            "kernel, without variances of networks"
        )
    return (
        f"conjugate gradients ({solve.why}), {solve.iterations} sweeps with a preconditioner of rank "
        f"{solve.rank:,}, in {seconds}; true residual {solve.residual:.1g}; at {solve.probes} test rows the "
        f"mean is exact to {solve.bound:.1g}, in units of the standardised target. Spreads were computed for "
        "these rows, whose root mean square stands for the others"
    )


def _task(study: Study) -> str:
    data = study.data
    what = f"the class {data.target} out of {len(data.classes)}" if data.classes else data.target
    images, inputs = data.x_train.shape[1:], len(data.features)
    taken = f"{inputs} input column{'s' if inputs > 1 else ''}"
    if len(images) > 1:
        taken = f"images of {' x '.join(map(str, images))}"
    width = "infinitely wide networks"
    if study.law.correction is not None:
        width = (
            f"networks of width {dense_stack(study.net).hidden[-1]}, to first order in {study.small_number}"
        )
    return (
        f"The question was: what does a {network_words(study)} say about {what} after it has learnt "
        f"{len(data.x_train):,} rows of {data.name} ({taken}) by "
        f"{training_words(study)}? The answer is a distribution, since every network starts from its own "
        f"random weights. It was computed for {width}, at {len(data.x_test):,} test rows."
    )


def finite_width_words(study: Study) -> str:
    """How large the correction in 1/width is, and from which width on to trust it."""
    law = study.law
    assert isinstance(law, TrainedDistribution)
    noise = root_mean_square(law.mean_correction_error) / max(
        root_mean_square(law.mean_correction), np.finfo(float).tiny
    )
    sampling = f" Sampling leaves an error of {100 * noise:.0f} % of the correction." if noise > 0 else ""
    late = study.algorithm.converged and law.validity.width < law.validity.trusted_width
    advice = " A larger --ridge, or training that stops earlier, has smaller corrections." if late else ""
    return f"{law.validity.words}{advice}{sampling} {_spread_words(law)}"


def _spread_words(law: TrainedDistribution) -> str:
    """What finite width does to the spread of networks."""
    correction, error = law.covariance_correction, law.covariance_correction_error
    if correction is None or error is None:
        return "The spread of networks is that of infinite width: its correction was not computed."
    change, noise = (np.diag(np.asarray(part)) for part in (correction, error))
    infinite = np.diag(np.asarray(law.covariance)).mean() - change.mean()
    share = change.mean() / max(infinite, np.finfo(float).tiny)
    relative = root_mean_square(noise) / max(root_mean_square(change), np.finfo(float).tiny)
    sampling = f" (known to {100 * relative:.0f} % by sampling)" if relative > 0 else ""
    return (
        f"The variance between networks, averaged over test rows, changes by {100 * share:+.2g} %{sampling}."
    )


def _origin_words(study: Study) -> str:
    sizes = study.correction_sizes
    if not sizes:
        return ""
    return (
        f" By origin (root mean square over test rows): {sizes['mean_ntk']:.2g} from the mean kernel, "
        f"{sizes['ntk_fluctuations']:.2g} from its fluctuations between networks, and from its change in "
        f"training, which is representation learning, {sizes['dntk']:.2g} at first and {sizes['ddntk']:.2g} "
        "at second order."
    )


def _quality(study: Study) -> str:
    scores, data = study.scores, study.data
    if isinstance(scores, RegressionScores) and data.y_test is not None:
        plain = float(np.sqrt(np.mean((data.unit * data.y_test) ** 2)))
        return (
            f"The average network misses {data.target} by {scores.rmse:.4g} (root mean square); always "
            f"answering with the average of the training rows would miss by {plain:.4g}. "
            + (
                f"It explains {100 * scores.r2:.0f} % of the variance at the test rows."
                if scores.r2 > 0
                else ""
            )
        )
    if isinstance(scores, ClassificationScores):
        rows = len(data.x_test)
        return (
            f"The average network names the right class for {round(scores.accuracy * rows):,} of {rows:,} "
            f"test rows, {100 * scores.accuracy:.1f} %."
        )
    return f"The rows to predict have no known answers. {left_out_words(study).capitalize()}."


def left_out_words(study: Study) -> str:
    """How well training rows are predicted by networks that have not seen them."""
    scores = study.left_out
    rows = "training rows, each left out of training"
    if isinstance(scores, RegressionScores):
        return f"{rows}, are missed by {scores.rmse:.4g} (root mean square; R2 = {scores.r2:.3f})"
    if scores is None:
        return "no training row was left out of training"
    return f"{rows}, get the right class in {100 * scores.accuracy:.1f} % of the cases"


def baseline_words(other: Baseline) -> str:
    """What another method reaches."""
    ahead = other.ahead
    if other.rmse is None:
        score = other.score.times(100.0)
        return f"{score.value:.2f} +- {score.sem:.2f} %; networks {points(ahead)}"
    score = f"{other.rmse:.4g} (R2 = {other.score.value:.3f} +- {other.score.sem:.3f})"
    return f"{score}; networks {ahead.value:+.3f} +- {ahead.sem:.3f}"


def points(difference: Estimate) -> str:
    """A difference of two shares, in percentage points."""
    return f"{100 * difference.value:+.1f} +- {100 * difference.sem:.1f} points"


def grouped_columns(data: Prepared) -> list[tuple[str, str]]:
    """Columns that were treated alike, and how; in the order of the table."""
    groups: dict[str, list[str]] = {}
    for note in data.columns:
        groups.setdefault(note.done, []).append(note.column or "(no name)")
    kind = f"{len(data.classes)} classes" if data.classes else "number"
    return [(data.target, f"target, {kind}")] + [
        (listed(names), f"{len(names)} numbers" if done == "number" and len(names) > 1 else done)
        for done, names in groups.items()
    ]


def _comparison(study: Study) -> str:
    if not study.baselines or study.scores is None:
        return ""
    if isinstance(study.scores, RegressionScores):
        own, what = study.scores.r2, "explain"
        shares = [f"{other.name} {100 * other.score.value:.0f} %" for other in study.baselines]
        own_words = f"{100 * own:.0f} % of the variance"
    else:
        own, what = study.scores.accuracy, "classify"
        shares = [f"{other.name} {100 * other.score.value:.1f} %" for other in study.baselines]
        own_words = f"{100 * own:.1f} % of the rows correctly"
    best = max(study.baselines, key=lambda other: float(other.score.value))
    gap = best.ahead
    chance = abs(gap.value) <= 2 * gap.sem
    verdict = "may be chance" if chance else f"speaks {'for' if gap.value > 0 else 'against'} the networks"
    return (
        f"On the same rows the networks {what} {own_words}, {', '.join(shares[:-1])} and {shares[-1]}. From "
        f"{best.name}, the best of the others, they differ by {points(gap)}, standard error included: on "
        f"{len(study.data.x_test):,} test rows this {verdict}."
    )


def _uncertainty(study: Study) -> str:
    data, scores = study.data, study.scores
    spread, noise = float(study.spread.mean()), data.unit * math.sqrt(study.noise)
    if isinstance(scores, ClassificationScores):
        sure = float(study.probability.max(axis=1).mean())
        return (
            f"It gives its choices a probability of {100 * sure:.1f} % on average, against "
            f"{100 * scores.accuracy:.1f} % that are right; the expected calibration error is "
            f"{100 * scores.calibration.error:.1f} %. The label noise behind the probabilities was fitted to "
            "training rows that were left out, not to the test rows."
        )
    if data.classes:
        return ""
    text = (
        f"Two sources make a prediction uncertain. Networks that start differently differ by {spread:.3g} on "
        f"average; the data scatter by another {noise:.3g}, estimated from training rows that were left out."
    )
    if isinstance(scores, RegressionScores):
        at = scores.calibration.at
        text += (
            f" Intervals that should hold 68 % and 95 % of the test values hold {100 * at(0.68):.0f} % and "
            f"{100 * at(0.95):.0f} %."
        )
    return text


def _agreement(study: Study, check: Verification) -> str:
    size = np.abs(check.z_mean)
    verdict = (
        "Networks and law agree: no single mean or spread and no test of the whole raises an alarm."
        if check.agrees
        else f"They differ from the law in {alarm_words(check.alarms)}, further than chance explains."
    )
    reason = (
        " The law is that of infinite width; real networks differ from it by a share of the order of "
        f"depth / width = {100 * check.expected_difference:.2g} %, which is not allowed for: enough of them "
        "show it."
        if check.order == 0
        else ""
    )
    followed = (
        f" Finite width moves their average by {check.correction_ratio.value:.2f} (standard error "
        f"{check.correction_ratio.sem:.2f}) times the predicted correction."
        if check.correction_ratio is not None
        else ""
    )
    end = (
        f" On the way to the end of training the mean would still move by {check.distance_to_end:.2g} s.e."
        if check.distance_to_end > 0
        else ""
    )
    ratio, infinite, gap = check.std_ratio, check.infinite_std_ratio, check.difference
    beside = "" if infinite is None else f", and {infinite.value:.2f} times the one of infinite width"
    when = "for the end of training" if check.unsettled > 0 else "for as many steps"
    return (
        f"To check this, {check.networks} real networks were drawn and trained for {check.steps:,} steps, "
        f"and compared with the prediction {when}. Their average is within two standard errors "
        f"of the predicted mean at {np.sum(size < 2)} of {size.size} outputs (noise alone: 95 %), and their "
        f"spread is {ratio.value:.2f} (standard error {ratio.sem:.2f}) times the predicted one{beside}. "
        f"{verdict}{_whole(check)} The means differ by {100 * gap.value:.2g} % (standard error "
        f"{100 * gap.sem:.1g} %) of their size, sampling noise alone would give {100 * check.noise:.2g} %."
        f"{reason}{followed}{end}"
    )


def _whole(check: Verification) -> str:
    """The spread in all directions together, and what this comparison could have seen of it."""
    overall = check.overall
    if overall is None:
        return ""
    ratio, seen = overall.spread.ratio, detectable_words(overall)
    return (
        f" In all {overall.directions} directions together it is {ratio.value:.3f} (standard error "
        f"{ratio.sem:.3f}) times the predicted one: {seen}."
    )
