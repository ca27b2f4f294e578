"""What can be wrong with a network: one table of faults, with the rule, the words and the remedy of each.

The thresholds were chosen once, on healthy and sick networks, and tried on networks of other kinds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from finitewidth.measure.layers.signals import Signals

Severity = Literal["fault", "note"]


class Fault(NamedTuple):
    """Something that is wrong, or may be."""

    name: str
    """What it is called."""
    site: str | None
    """The layer where it is seen; None for the network as a whole."""
    severity: Severity
    """"fault" where something is wrong, "note" where it may be."""
    sentence: str
    """What was found."""
    remedy: str
    """What to change."""
    value: float
    """The number that was held against the threshold."""
    threshold: float
    """The threshold of the rule."""


class Step(NamedTuple):
    """A learning rate, and the largest that is stable."""

    learning_rate: float
    """The step that is used."""
    largest: float
    """The step where training leaves the minimum nearby."""


class Classes(NamedTuple):
    """What a classifier calls the points."""

    predicted: Int[np.ndarray, " points"]
    """The class with the largest output."""
    labels: Int[np.ndarray, " points"]
    """The class that each point has."""
    count: int
    """The number of classes."""
    names: Sequence[str] | None = None
    """What the classes are called; by their numbers if left out."""


class Evidence(NamedTuple):
    """What the rules look at; what was not measured is None."""

    signals: Signals
    """Signals and gradients by layer."""
    step: Step | None = None
    """The learning rate and its limit."""
    classes: Classes | None = None
    """Predicted classes."""
    empty_statistics: tuple[str, ...] = ()
    """The batch normalisations that have never seen a batch."""
    learnt: float | None = None
    """What the network has learnt of the labels: 0 for one constant answer, 1 for all of them."""


class Hit(NamedTuple):
    """One match of a rule: the value, the layer, the words of its sentence, the severity."""

    value: float
    site: str | None
    words: Mapping[str, object]
    severity: Severity = "fault"


class FaultKind(NamedTuple):
    """One kind of fault: all that has to be said to add another."""

    name: str
    """What it is called."""
    threshold: float
    """The number that its rule is given."""
    rule: Callable[[Evidence, float], Iterator[Hit]]
    """Every match, from what was measured and the threshold."""
    sentence: str
    """What was found, with the words of the match in braces."""
    remedy: str
    """What to change."""


# A change by D decades is seen only if it is also this much a layer: deep residual networks drift slowly.
_DECADES_A_LAYER = 0.2
# Gradients that change with depth have not kept a network that works from learning: then they are a note.
_HALF_LEARNT = 0.5


def _gradients(sign: int) -> Callable[[Evidence, float], Iterator[Hit]]:
    def rule(evidence: Evidence, threshold: float) -> Iterator[Hit]:
        found = evidence.signals
        decades = sign * found.decades
        if decades > threshold and decades > _DECADES_A_LAYER * found.layers:
            words = {"decades": _decades(decades, sign), "layers": found.layers}
            works = evidence.learnt is not None and evidence.learnt > _HALF_LEARNT
            yield Hit(found.decades, found.steps[0][0].name, words, "note" if works else "fault")

    return rule


def _inputs_alike(evidence: Evidence, threshold: float) -> Iterator[Hit]:
    for site in evidence.signals.sites:
        if site.spread < threshold:
            yield Hit(site.spread, site.name, {"where": f"From layer {site.name} on", "share": site.spread})
            return
    share = evidence.signals.output_spread
    if share < threshold:
        yield Hit(share, None, {"where": "At the outputs", "share": share})


def _dead(evidence: Evidence, threshold: float) -> Iterator[Hit]:
    """Layers of which more than a share of the units is dead; a layer without a living unit always.

    Units die one by one: of n units with the chance p of death a share p is dead to within the standard error
    sqrt(p (1 - p) / n), by which the threshold must be passed.
    """
    for site in evidence.signals.sites:
        chance = math.sqrt(threshold * (1 - threshold) / site.units)
        if site.dead is not None and (site.dead > threshold + chance or site.dead == 1):
            words = {"dead": round(site.dead * site.units), "units": site.units, "site": site.name}
            yield Hit(site.dead, site.name, words)


def _saturated(evidence: Evidence, threshold: float) -> Iterator[Hit]:
    """Layers with more than a share of entries without slope; but a gate that is open or shut does its work.

    The signal and its gradient go through what the gate is multiplied with.
    """
    for site in evidence.signals.sites:
        if site.saturated is not None and site.saturated > threshold and not site.gate:
            words = {"share": site.saturated, "site": site.name, "activation": site.activation}
            yield Hit(site.saturated, site.name, words)


def _step(evidence: Evidence, threshold: float) -> Iterator[Hit]:
    if evidence.step is None:
        return
    learning_rate, largest = evidence.step
    ratio = learning_rate / largest if largest > 0 else math.inf
    if ratio > 1:
        words = {"used": learning_rate, "largest": largest, "half": largest / 2, "ratio": ratio}
        yield Hit(ratio, None, words, "fault" if ratio > threshold else "note")


def _classes(evidence: Evidence, threshold: float) -> Iterator[Hit]:
    if evidence.classes is None:
        return
    predicted, labels, count, names = evidence.classes
    accuracy = float(np.mean(predicted == labels))
    # A network without one of three classes is right in at most two cases of three: half must do. One that
    # gives a constant answer to two classes cannot be told from one that has learnt nothing.
    if not accuracy > (0.5 if count == 3 else threshold / count):
        return
    for one in sorted(set(labels.tolist()) - set(predicted.tolist())):
        called = np.bincount(predicted[labels == one], minlength=count)
        often = "always" if called.max() == called.sum() else "mostly"
        called_as = int(called.argmax())
        one_name, other = (str(k) if names is None else names[k] for k in (one, called_as))
        yield Hit(accuracy, None, {"one": one_name, "often": often, "other": other})


def _empty_statistics(evidence: Evidence, threshold: float) -> Iterator[Hit]:
    for name in evidence.empty_statistics:
        yield Hit(0.0, name, {"site": name}, "note")


_CRITICAL = "Initialise critically (`finitewidth tune`), normalise between layers, or add skip connections."
TABLE = (
    FaultKind(
        "vanishing gradients", 3.0, _gradients(-1),
        "Squared gradients shrink {decades} on their way back through {layers} layers.", _CRITICAL,
    ),
    FaultKind(
        "exploding gradients", 3.0, _gradients(1),
        "Squared gradients grow {decades} on their way back through {layers} layers.", _CRITICAL,
    ),
    FaultKind(
        "inputs look alike", 1e-4, _inputs_alike,
        "{where} all inputs look alike: they differ in {share:.1e} of the mean square.", _CRITICAL,
    ),
    FaultKind(
        "dead units", 0.7, _dead, "{dead} of {units} units of {site} never fire.",
        "Take smaller steps, start with zero biases, or use a leaky activation.",
    ),
    FaultKind(
        "saturated units", 0.5, _saturated,
        "{share:.0%} of the entries of {site} lie where {activation} has no slope.",
        "Make the weights that lead there smaller, or normalise before the activation.",
    ),
    FaultKind(
        "step too large", 2.0, _step,
        "The learning rate {used:.3g} is {ratio:.2g} times the largest stable step, {largest:.3g}.",
        "Use {half:.2g}, and warm up to it.",
    ),
    FaultKind(
        "class never predicted", 2.0, _classes,
        "Class {one} is never predicted: it is {often} called {other}.",
        "Look at its labels, balance the classes, or reset the last layer.",
    ),
    FaultKind(
        "no batch statistics", 0.0, _empty_statistics,
        "{site} has never seen a batch: in eval mode it changes nothing.",
        "Run some batches through the model in train mode first, or load a checkpoint.",
    ),
)  # fmt: skip


def find_faults(evidence: Evidence) -> list[Fault]:
    """Every fault and note that the evidence shows, in the order of the table."""
    return [
        Fault(
            name=row.name,
            site=hit.site,
            severity=hit.severity,
            sentence=row.sentence.format(**hit.words),
            remedy=row.remedy.format(**hit.words),
            value=hit.value,
            threshold=row.threshold,
        )
        for row in TABLE
        for hit in row.rule(evidence, row.threshold)
    ]


def predicted_classes(
    outputs: Float[np.ndarray, "points out"], labels: Int[np.ndarray, " points"]
) -> Classes:
    """What a classifier with one output a class calls the points."""
    return Classes(np.argmax(outputs, axis=1), labels, outputs.shape[1])


def share_learnt(outputs: Float[np.ndarray, "points out"], labels: np.ndarray, loss: object) -> float | None:
    """What a network has learnt of its labels: 0 for the best constant answer, 1 for all of them.

    For classes it is (accuracy - c) / (1 - c) with the share c of the most frequent class, for numbers the
    share of the variance that is explained. Labels that are all the same, and losses of the user's own, have
    none.
    """
    if loss == "cross_entropy":
        wrong = float(np.mean(outputs.argmax(axis=1) != labels))
        wrong_when_constant = 1 - np.bincount(labels).max() / len(labels)
    elif loss == "mse":
        labels = labels.reshape(outputs.shape)
        wrong = float(np.sum((outputs - labels) ** 2))
        wrong_when_constant = float(np.sum((labels - labels.mean(axis=0)) ** 2))
    else:
        return None
    return 1 - wrong / wrong_when_constant if wrong_when_constant else None


def _decades(decades: float, sign: int) -> str:
    if math.isfinite(decades):
        return f"by a factor of 10^{decades:.1f}"
    return "beyond all numbers" if sign > 0 else "to nothing"
