"""A network is looked at from all sides, and what was found put in words."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from finitewidth._base.checks import check_whole
from finitewidth._base.foreign import is_torch
from finitewidth.advice.diagnosis import findings
from finitewidth.advice.diagnosis.layers import layer_rows
from finitewidth.advice.diagnosis.next_steps import next_steps
from finitewidth.advice.diagnosis.points import check_classes, some_points
from finitewidth.advice.diagnosis.result import Diagnosis
from finitewidth.advice.diagnosis.sizes import kernel_shares, participation
from finitewidth.advice.diagnosis.step_limit import step_limit
from finitewidth.advice.diagnosis.tangent_kernel import tangent_kernel_spectrum
from finitewidth.advice.diagnosis.training import TrainingPlan
from finitewidth.algorithms.optimizers import LIMITED
from finitewidth.measure.checks import check_function_of_one_input, check_mode, empty_statistics
from finitewidth.measure.labels import Loss
from finitewidth.measure.layers.faults import Classes, Evidence, Fault, Step, find_faults, share_learnt
from finitewidth.measure.layers.signals import signals
from finitewidth.measure.loss.collapse import collapse
from finitewidth.measure.loss.laziness import laziness
from finitewidth.measure.specimen import Specimen, specimen


def diagnose(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    params: PyTree | None = None,
    loss: Loss | None = None,
    learning_rate: float | None = None,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    start: Any = None,
    points: int = 256,
    steps: int = 40,
    class_names: Sequence[str] | None = None,
    key: Array | None = None,
) -> Diagnosis:
    """One page about a network that you have: what is wrong with it, and what to change.

    `diagnose(model, params, (x, y))` is the same call as `diagnose(model, x, y, params=params)`.

    Parameters
    ----------
    model
        A network of finitewidth's layers, any function of (params, x), a Flax module (linen or nnx), an
        Equinox module (of one input), or a PyTorch module, without dropout and batch statistics: call
        `model.eval()` first.
    x
        Inputs (points, ...), as the network takes them.
    y
        Labels: classes (points,) or numbers (points, out). Without them there is no loss, and no word about
        steps and classes.
    params
        The weights, for models that do not carry theirs; a state dict for PyTorch, if not the module's own.
    loss
        "cross_entropy", "mse", or a function of (outputs, labels) that returns a mean; by the labels if left
        out.
    learning_rate
        The step that you train with, or want to.
    optimizer, momentum
        "sgd", "momentum", "nesterov" or "adam", and beta; plain gradient descent has none.
    start
        The weights at the start of training, as `params` or, for models that carry theirs, as a model.
    points
        How many points to look at, at most.
    steps
        How many steps of training to predict and to take.
    class_names
        What the classes are called.
    key
        Chooses the points and a random combination of the outputs.
    """
    if isinstance(y, tuple):
        # The order (model, params, data): labels are never a tuple.
        params, (x, y) = x, y
    _check(learning_rate, optimizer, momentum)
    check_whole("points", points, 2)
    check_whole("steps", steps)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(jax.random.key(0) if key is None else key)))
    check_mode(model, params, x)
    x, y = some_points(x, y, points, rng)
    with _gradients(model):
        subject = specimen(model, x, y, params=params, loss=loss)
        check_function_of_one_input(subject)
        if subject.loss == "cross_entropy" and subject.y is not None:
            check_classes(subject.y, subject.outputs().shape[1])
        begun = None if start is None else _at_start(model, params, start, x)
        training = TrainingPlan(learning_rate, optimizer, momentum, steps)
        found, faults = _examined(_name(model), subject, begun, training, rng, class_names, model)
    wrong = [findings.complaint(fault) for fault in faults]
    return found._replace(findings=findings.all_findings(found, wrong), verdict=findings.verdict(wrong))


def _examined(
    name: str,
    subject: Specimen,
    begun: Specimen | None,
    training: TrainingPlan,
    rng: np.random.Generator,
    class_names: Sequence[str] | None,
    model: Any,
) -> tuple[Diagnosis, list[Fault]]:
    """All measurements, and the faults that they show."""
    outputs = subject.outputs()
    labels = subject.y if subject.loss == "cross_entropy" else None
    predicted = outputs.argmax(axis=1)
    cotangent = rng.choice([-1.0, 1.0], size=outputs.shape).astype(outputs.dtype)
    shares, sites = kernel_shares(subject, cotangent), subject.look(cotangent)
    limit = curves = None
    if subject.y is not None:
        limit = step_limit(subject, training.learning_rate, training.optimizer, training.momentum)
        curves = next_steps(subject, training)
    evidence = Evidence(
        signals(sites, outputs, subject.y if subject.loss == "mse" else None),
        None if limit is None or limit.learning_rate is None else Step(limit.learning_rate, limit.largest),
        None if labels is None else Classes(predicted, labels, outputs.shape[1], class_names),
        empty_statistics(model),
        None if subject.y is None else share_learnt(outputs, subject.y, subject.loss),
    )
    faults = find_faults(evidence)
    layers = layer_rows(sites, evidence.signals, shares, faults)
    found = Diagnosis(
        name=name,
        verdict="",
        findings=(),
        layers=layers,
        points=subject.points,
        parameters=len(subject.weights),
        outputs=outputs.shape[1],
        loss=None if subject.y is None else subject.value(),
        loss_name=None if subject.y is None else _loss_name(subject.loss),
        accuracy=None if labels is None else float(np.mean(predicted == labels)),
        chance=None if labels is None else float(np.bincount(labels).max() / subject.points),
        kernel=tangent_kernel_spectrum(subject),
        step=limit,
        next_steps=curves,
        laziness=None if begun is None else laziness(begun, subject),
        collapse=None if labels is None else collapse(subject)[-1],
        depth_over_width=sum((1 / layer.units for layer in layers[:-1]), 0.0),
        effective_depth=participation(np.array(list(shares.values()))),
    )
    return found, faults


@contextlib.contextmanager
def _gradients(model: Any) -> Iterator[None]:
    """PyTorch differentiates, whatever block of `no_grad` the call stands in."""
    if not is_torch(model):
        yield
        return
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        yield


def _at_start(model: Any, params: PyTree | None, start: Any, x: Any) -> Specimen:
    """The model at the weights that its training began with."""
    if is_torch(model):
        return specimen(model, x, params=start.state_dict() if is_torch(start) else start)
    return specimen(start, x) if params is None else specimen(model, x, params=start)


def _name(model: Any) -> str:
    return getattr(model, "__name__", type(model).__name__)


def _loss_name(loss: Loss | None) -> str:
    return str(loss) if isinstance(loss, str) else getattr(loss, "__name__", "loss")


def _check(learning_rate: float | None, optimizer: str, momentum: float) -> None:
    if learning_rate is not None and not 0 < learning_rate < math.inf:
        raise ValueError(f"learning_rate must be a positive finite number, got {learning_rate}.")
    if optimizer not in LIMITED:
        raise ValueError(f"optimizer must be {', '.join(LIMITED[:-1])} or {LIMITED[-1]}, got {optimizer!r}.")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}.")
