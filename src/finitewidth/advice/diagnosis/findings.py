"""What every figure means, in one sentence, and where something may be wrong, what to change."""

import math
from collections.abc import Sequence

from finitewidth.advice.diagnosis.next_steps import NextSteps
from finitewidth.advice.diagnosis.result import Diagnosis, Finding, LayerRow
from finitewidth.advice.diagnosis.step_limit import StepLimit
from finitewidth.advice.diagnosis.tangent_kernel import TangentKernel
from finitewidth.advice.diagnosis.words import joined, percent, short
from finitewidth.algorithms.optimizers import OPTIMIZERS
from finitewidth.measure.layers.faults import Fault
from finitewidth.measure.loss.collapse import Collapse
from finitewidth.measure.loss.laziness import Laziness

# Curves that stay within this share of the first loss are one for the eye.
_TOGETHER = 0.05
_WIDE, _NARROW = 0.01, 0.3
_COLLAPSED = 0.01
_LAZY = 0.1
# From here on a change is no longer said in per cent.
_TIMES = 10


def all_findings(found: Diagnosis, faults: Sequence[Finding]) -> tuple[Finding, ...]:
    """The faults, then every other figure in the order of the page."""
    parts = list(faults)
    if found.loss is not None:
        parts.append(performance(found.loss, found.loss_name or "", found.accuracy, found.chance))
    parts += layer_factors(found.layers)
    if found.step is not None:
        parts += step(found.step)
    if found.next_steps is not None:
        parts.append(future(found.next_steps))
    parts.append(kernel(found.kernel))
    parts += size(found.depth_over_width, found.effective_depth, len(found.layers))
    if found.laziness is not None:
        parts.append(laziness(found.laziness))
    if found.collapse is not None:
        parts.append(collapse(found.collapse))
    return tuple(parts)


def complaint(fault: Fault) -> Finding:
    """A fault of the table, as a figure of the page."""
    name = fault.name if fault.site is None else f"{fault.name} (layer {fault.site})"
    return Finding(name, short(fault.value), fault.sentence, fault.remedy, fault.severity)


def verdict(faults: Sequence[Finding]) -> str:
    """The faults in one sentence, or that there are none."""
    wrong = [finding.name for finding in faults if finding.grade == "fault"]
    if not wrong:
        return "No fault found."
    return f"{'One fault' if len(wrong) == 1 else f'{len(wrong)} faults'}: {joined(wrong)}."


def performance(loss: float, name: str, accuracy: float | None, chance: float | None) -> Finding:
    """How well the network does at the points."""
    if accuracy is None:
        return Finding("loss", short(loss), f"The mean loss ({name}) at these points.")
    return Finding(
        "accuracy",
        f"{percent(accuracy)}, loss {short(loss)}",
        f"The share of these points that is classified correctly; always naming the commonest class would "
        f"be right for {percent(chance)}.",
    )


def layer_factors(layers: tuple[LayerRow, ...]) -> list[Finding]:
    """What one layer does to signals and gradients, on average."""
    forward = [(row.forward, row.critical_forward) for row in layers if row.forward]
    backward = [(row.backward, row.critical_backward) for row in layers if row.backward]
    found = []
    for name, pairs, far in (
        ("signals per layer", forward, "after enough layers they vanish or explode."),
        ("gradients per layer", backward, "the first layers learn at another speed than the last."),
    ):
        if not pairs:
            continue
        measured, critical = (_geometric_mean([pair[i] for pair in pairs]) for i in (0, 1))
        found.append(
            Finding(
                name,
                f"× {short(measured)}, critical × {short(critical)}",
                f"The factor by which a layer changes their squares, the geometric mean over {len(pairs)} "
                f"layers; far from the critical one, {far}",
            )
        )
    return found


def _geometric_mean(values: list[float]) -> float:
    if any(not value > 0 for value in values):
        return 0.0
    return math.exp(sum(math.log(value) for value in values) / len(values))


def size(depth_over_width: float, effective_depth: float, layers: int) -> list[Finding]:
    """Depth, width, and how many layers learn."""
    if depth_over_width < _WIDE:
        words = "a network that is practically infinitely wide: its kernel hardly moves in training."
    elif depth_over_width < _NARROW:
        words = "a network of finite width: features move in training, and its theory is under control."
    else:
        words = "a network that is narrow for its depth: two trainings from different seeds differ much."
    return [
        Finding(
            "depth / width", short(depth_over_width), f"The sum over hidden layers of 1 / units: {words}"
        ),
        Finding(
            "effective depth",
            f"{effective_depth:.1f} of {layers} layers",
            "How many layers share the tangent kernel, and so the learning; all of them for equal shares.",
        ),
    ]


def kernel(found: TangentKernel) -> Finding:
    """The spectrum of the tangent kernel."""
    condition = "more than a million" if math.isinf(found.condition) else short(found.condition)
    return Finding(
        "tangent kernel",
        f"rank {short(found.effective_rank)} of {len(found.eigenvalues)}, condition {condition}",
        f"About {max(1, round(found.effective_rank))} modes of {len(found.eigenvalues)} share the fast part "
        f"of training, on {found.points} points; the slowest needs {condition} times as many steps of "
        "gradient descent as the fastest.",
    )


def step(limit: StepLimit) -> list[Finding]:
    """Sharpness and the largest stable step."""
    about = (
        "after Adam's scaling of every weight, estimated"
        if OPTIMIZERS[limit.optimizer].preconditioned
        else "of the loss"
    )
    return [
        Finding(
            "sharpness",
            f"{short(limit.sharpness)} (residual {limit.residual:.0e})",
            f"The largest curvature {about}, at these points: it decides how large a step may be.",
        ),
        Finding(
            "largest stable step",
            short(limit.largest),
            f"On all points at once, {limit.words} with a larger step leaves the minimum nearby.",
        ),
    ]


def future(curves: NextSteps) -> Finding:
    """The next steps of training."""
    steps = len(curves.trained) - 1
    value = f"{short(curves.predicted[-1])} predicted, {short(curves.trained[-1])} trained"
    if curves.diverges:
        return Finding(
            "next steps",
            value,
            f"From {short(curves.trained[0])}, training at this step does not lower the loss.",
            "Take a smaller step.",
            "note",
        )
    if curves.difference < _TOGETHER:
        words = "training follows the network's own tangent kernel: features hardly change."
    else:
        words = "training leaves the network's own tangent kernel: features change."
    return Finding(
        "next steps", value, f"The loss after {steps} steps, from {short(curves.trained[0])}: {words}"
    )


def laziness(moved: Laziness) -> Finding:
    """How far training has moved the network from its start."""
    features = max(part.turn for part in moved.features)
    if moved.kernel_change < _LAZY:
        words = "training was lazy: the network fitted its data with the kernel it began with."
    else:
        words = "training learnt features: the kernel that the network began with does not describe it."
    gates = "" if moved.moved_gates is None else f", {percent(moved.moved_gates)} of the gates"
    return Finding(
        "moved since the start",
        f"kernel by {_change(moved.kernel_change)}, weights by {_change(moved.weights_change)}{gates}",
        f"Relative changes since the start of training; the features of a layer turned by up to "
        f"{percent(features)} (one minus their alignment): {words}",
    )


def _change(share: float) -> str:
    return percent(share) if share < _TIMES else f"{short(share)} times its size"


def collapse(last: Collapse) -> Finding:
    """Where the classes stand before the classifier."""
    if last.variability < _COLLAPSED:
        words = "the points of a class have shrunk to their mean"
    elif last.variability < 1:
        words = "the classes are further apart than they are wide"
    else:
        words = "the classes overlap"
    return Finding(
        "collapse of the classes",
        f"NC1 {short(last.variability)}, NC2 {short(last.frame_distance)}",
        f"In the features before the last layer {words} (NC1, spread within over between classes); NC2 is "
        f"the distance of their means from a regular simplex. The nearest class mean disagrees with the "
        f"network for {percent(last.mismatch)} of the points.",
    )
