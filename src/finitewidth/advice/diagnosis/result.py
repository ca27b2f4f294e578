"""What `diagnose` found."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.advice.diagnosis.next_steps import NextSteps
from finitewidth.advice.diagnosis.step_limit import StepLimit
from finitewidth.advice.diagnosis.tangent_kernel import TangentKernel
from finitewidth.measure.loss.collapse import Collapse
from finitewidth.measure.loss.laziness import Laziness
from finitewidth.report.directory import REPORT, SUMMARY, replace_files

Grade = Literal["fine", "note", "fault"]


class Finding(NamedTuple):
    """One figure: what it is, what it means and, where something is wrong, what to change.

    `grade` is "fault" where something is wrong, "note" where it may be, else "fine".
    """

    name: str
    value: str
    meaning: str
    remedy: str = ""
    grade: Grade = "fine"


class LayerRow(NamedTuple):
    """One layer: a contraction of activations with a parameter, in the order of the computation.

    Attributes
    ----------
    name, kind, units, activation
        Where in the model; "dense", "convolution", "attention", "recurrent" or "embedding"; the number of
        outputs of the contraction; the function applied to them, if it is known.
    signal, gradient
        Mean square of what leaves; sum over the units of the squared gradient of a random combination of the
        network's outputs, mean over the points.
    forward, backward
        `signal` over that of the layer before; `gradient` over that of the layer behind.
    critical_forward, critical_backward
        What a critical layer with this activation would do to the same signal; one where the layer before or
        behind is not connected by a known activation alone.
    dead, saturated
        Share of units that never fire, for activations with a flat half; share of entries where the slope is
        below a twentieth of its maximum, for activations with flat ends; None for others.
    effective_units
        In how many directions the units vary over the points.
    share
        Of the layer's weights in the trace of the tangent kernel, None where they are not found by name.
    gate
        Whether the activated numbers do nothing but weigh others.
    flag
        The faults found here, in a word each.
    """

    name: str
    kind: str
    units: int
    activation: str | None
    signal: float
    gradient: float
    forward: float | None
    backward: float | None
    critical_forward: float
    critical_backward: float
    dead: float | None
    saturated: float | None
    effective_units: float
    share: float | None
    gate: bool = False
    flag: str = ""


class Diagnosis(NamedTuple):
    """One page about a network.

    Attributes
    ----------
    name
        What the model calls itself.
    verdict
        The faults in one sentence, or that there are none.
    findings
        Every figure with what it means and what to change, in the order of the page.
    layers
        One row a layer, in the order of the computation.
    points, parameters, outputs
        How many points were looked at, and the size of the network.
    loss, loss_name
        The mean loss at the points and its name; None without labels.
    accuracy, chance
        Share of the points that is classified correctly, and that the commonest class has; None but for
        classifiers.
    kernel
        The spectrum of the network's tangent kernel.
    step
        The largest stable learning rate; None without labels.
    next_steps
        The loss of the next steps, predicted by the tangent kernel and trained; None without labels or
        learning rate.
    laziness
        How far kernel, features and weights moved since the start of training; None without a start.
    collapse
        How far the classes' features have collapsed to a simplex; None but for classifiers.
    depth_over_width
        Sum over the hidden layers of 1 / units, the number that measures the distance from infinite width.
    effective_depth
        How many layers share the tangent kernel.
    """

    name: str
    verdict: str
    findings: tuple[Finding, ...]
    layers: tuple[LayerRow, ...]
    points: int
    parameters: int
    outputs: int
    loss: float | None
    loss_name: str | None
    accuracy: float | None
    chance: float | None
    kernel: TangentKernel
    step: StepLimit | None
    next_steps: NextSteps | None
    laziness: Laziness | None
    collapse: Collapse | None
    depth_over_width: float
    effective_depth: float

    @property
    def size_words(self) -> str:
        """The size of the network and what it was looked at with, as one says it."""
        layers = "one layer" if len(self.layers) == 1 else f"{len(self.layers)} layers"
        return f"{self.parameters:,} parameters in {layers}, looked at with {self.points:,} points"

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.grade == "fault")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What may be wrong."""
        return tuple(finding for finding in self.findings if finding.grade == "note")

    @property
    def signals(self) -> Float[np.ndarray, " layers"]:
        """Mean square of what leaves each layer."""
        return np.array([layer.signal for layer in self.layers])

    @property
    def gradients(self) -> Float[np.ndarray, " layers"]:
        """Squared gradient at each layer."""
        return np.array([layer.gradient for layer in self.layers])

    @property
    def critical_signals(self) -> Float[np.ndarray, " layers"]:
        """What a critical network would have, from the signal of the first layer on."""
        factors = [layer.critical_forward for layer in self.layers[1:]]
        return self.signals[0] * np.cumprod([1.0, *factors])

    @property
    def critical_gradients(self) -> Float[np.ndarray, " layers"]:
        """What a critical network would have, from the gradient of the last layer back."""
        factors = [layer.critical_backward for layer in self.layers[:-1]]
        return self.gradients[-1] * np.cumprod([1.0, *factors[::-1]])[::-1]

    def to_dict(self) -> dict[str, Any]:
        """All of it in terms that JSON can hold."""
        return _plain(self) | {"faults": _plain(self.faults), "notes": _plain(self.notes)}

    def save(self, directory: str | Path) -> Path:
        """Write report.html and summary.json into a directory, both or none; the path of the report."""
        directory = Path(directory)
        replace_files(directory, diagnosis_files(self))
        return directory / REPORT

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict}"]
        lines += [f"- {f.meaning}{f' {f.remedy}' if f.remedy else ''}" for f in self.faults + self.notes]
        return "\n".join(lines)


def diagnosis_files(found: Diagnosis) -> dict[str, str]:
    """The two files by name."""
    from finitewidth.advice.diagnosis.page import diagnosis_page

    return {SUMMARY: json.dumps(found.to_dict(), indent=1), REPORT: diagnosis_page(found)}


def _plain(value: Any) -> Any:
    """Named tuples as dictionaries, arrays as lists, numbers that are not finite as words."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
