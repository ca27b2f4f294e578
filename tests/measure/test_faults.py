"""Every fault is named on one side of its threshold and not on the other; sick networks are found."""

import math

import numpy as np
import pytest
import torch

from finitewidth.measure.checks import empty_statistics
from finitewidth.measure.layers.faults import (
    TABLE,
    Classes,
    Evidence,
    Step,
    find_faults,
    predicted_classes,
    share_learnt,
)
from finitewidth.measure.layers.signals import Signals, SiteSignals, signals
from finitewidth.measure.specimen import specimen

HEALTHY = SiteSignals(
    name="layer",
    kind="dense",
    units=10,
    activation="relu",
    forward=1.0,
    spread=0.5,
    backward=1.0,
    dead=0.1,
    saturated=None,
    effective_units=4.0,
    beside=False,
)


def network(*changes, output_spread=0.5):
    return Evidence(Signals(tuple(HEALTHY._replace(**change) for change in changes), output_spread))


def names(evidence):
    return [(fault.name, fault.severity) for fault in find_faults(evidence)]


FINE = network({}, {}, {})


def with_decades(decades, layers):
    """Gradients that change by D decades over L layers."""
    first = {"backward": 10.0**decades}
    return network(first, *[{}] * (layers + 1))


@pytest.mark.parametrize(
    ("evidence", "found"),
    [
        (FINE, []),
        (with_decades(-3.1, 10), [("vanishing gradients", "fault")]),
        (with_decades(-2.9, 10), []),
        (with_decades(-3.1, 16), []),
        (network({"saturated": 0.9, "activation": "sigmoid"}), [("saturated units", "fault")]),
        (network({"saturated": 0.9, "activation": "sigmoid", "gate": True}), []),
        # The standard error of the share 0.7 is 0.23 at four units, 0.046 at a hundred.
        (network({"dead": 0.75, "units": 4}), []),
        (network({"dead": 1.0, "units": 2}), [("dead units", "fault")]),
        (network({"dead": 0.74, "units": 100}), []),
        (network({"dead": 0.75, "units": 100}), [("dead units", "fault")]),
        (with_decades(3.1, 15), [("exploding gradients", "fault")]),
        (with_decades(3.1, 16), []),
        (with_decades(3.1, 15)._replace(learnt=0.49), [("exploding gradients", "fault")]),
        (with_decades(3.1, 15)._replace(learnt=0.51), [("exploding gradients", "note")]),
        (with_decades(-3.1, 10)._replace(learnt=0.51), [("vanishing gradients", "note")]),
        (network({}, {"spread": 0.9e-4}, {}), [("inputs look alike", "fault")]),
        (network({}, {"spread": 1.1e-4}, {}), []),
        (network({}, {}, {}, output_spread=0.9e-4), [("inputs look alike", "fault")]),
        (network({}, {"dead": 0.9}, {}), [("dead units", "fault")]),
        (network({}, {"dead": 0.8}, {}), []),
        (network({}, {"saturated": 0.51, "activation": "tanh"}, {}), [("saturated units", "fault")]),
        (network({}, {"saturated": 0.5, "activation": "tanh"}, {}), []),
        (FINE._replace(step=Step(0.9, 1.0)), []),
        (FINE._replace(step=Step(1.1, 1.0)), [("step too large", "note")]),
        (FINE._replace(step=Step(2.1, 1.0)), [("step too large", "fault")]),
        (FINE._replace(empty_statistics=("norm",)), [("no batch statistics", "note")]),
    ],
)
def test_thresholds(evidence, found):
    assert names(evidence) == found


def test_a_fault_says_where_and_what_to_do():
    (dead,) = find_faults(network({}, {"dead": 0.9, "name": "block.2"}, {}))
    assert dead.site == "block.2"
    assert dead.sentence == "9 of 10 units of block.2 never fire."
    assert (dead.value, dead.threshold) == (0.9, 0.7)
    (step,) = find_faults(FINE._replace(step=Step(0.5, 0.1)))
    assert step.sentence == "The learning rate 0.5 is 5 times the largest stable step, 0.1."
    assert step.remedy == "Use 0.05, and warm up to it."
    (gone,) = find_faults(network({"backward": 0.0}, {}, {}, {}))
    assert gone.sentence == "Squared gradients shrink to nothing on their way back through 2 layers."
    (alike,) = find_faults(network({}, {"spread": 1e-6, "name": "fc"}, {"spread": 1e-8}))
    assert alike.sentence.startswith("From layer fc on all inputs look alike")


def test_every_row_has_one_sentence_and_one_remedy():
    for row in TABLE:
        assert row.sentence.endswith(".")
        assert row.remedy.endswith(".")


def test_classes():
    labels = np.repeat(np.arange(4), 5)
    predicted = labels.copy()
    assert names(FINE._replace(classes=Classes(predicted, labels, 4))) == []
    predicted[labels == 2] = 3
    (fault,) = find_faults(FINE._replace(classes=Classes(predicted, labels, 4)))
    assert fault.sentence == "Class 2 is never predicted: it is always called 3."
    predicted[10] = 1
    (fault,) = find_faults(FINE._replace(classes=Classes(predicted, labels, 4, ["a", "b", "c", "d"])))
    assert fault.sentence == "Class c is never predicted: it is mostly called d."
    # A network that has learnt nothing yet misses classes, too: 10 of 20 are right, which is 2 / 4.
    predicted[labels == 3] = 0
    assert names(FINE._replace(classes=Classes(predicted, labels, 4))) == []
    outputs = np.eye(4)[predicted]
    np.testing.assert_array_equal(predicted_classes(outputs, labels).predicted, predicted)


def test_one_of_three_classes_and_one_of_two():
    labels = np.repeat(np.arange(3), 5)
    two_of_three = np.where(labels == 2, 1, labels)
    assert names(FINE._replace(classes=Classes(two_of_three, labels, 3))) == [
        ("class never predicted", "fault")
    ]
    assert names(FINE._replace(classes=Classes(np.zeros(15, int), labels, 3))) == []
    assert names(FINE._replace(classes=Classes(np.zeros(15, int), np.minimum(labels, 1), 2))) == []


def test_share_learnt():
    labels = np.array([0, 0, 0, 1, 2])
    # Four of five are right; the constant answer 0 has three.
    assert share_learnt(np.eye(3)[[0, 0, 0, 1, 1]], labels, "cross_entropy") == pytest.approx(0.5)
    assert share_learnt(np.eye(3)[[0, 0, 0, 0, 0]], labels, "cross_entropy") == pytest.approx(0)
    numbers = np.array([1.0, 2.0, 3.0, 6.0])
    # Half of every distance from the mean 3 is left: a quarter of the variance.
    assert share_learnt((numbers[:, None] + 3) / 2, numbers, "mse") == pytest.approx(0.75)
    assert share_learnt(np.zeros((3, 1)), np.ones(3), "mse") is None
    assert share_learnt(np.zeros((3, 1)), np.ones(3), len) is None


def measured_faults(model, x):
    model.double()
    found = specimen(model.eval(), x)
    rng = np.random.default_rng(3)
    sites = found.look(rng.choice([-1.0, 1.0], size=found.outputs().shape))
    return names(Evidence(signals(sites, found.outputs()), empty_statistics=empty_statistics(model)))


def deep(activation, scale, bias=0.0, layers=12, width=64):
    torch.manual_seed(0)
    parts = []
    for _ in range(layers):
        layer = torch.nn.Linear(width, width)
        torch.nn.init.normal_(layer.weight, std=math.sqrt(scale / width))
        torch.nn.init.constant_(layer.bias, bias)
        parts += [layer, activation()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 3))


X = np.random.default_rng(4).normal(size=(40, 64))
SICK = {
    "healthy relu": (lambda: deep(torch.nn.ReLU, 2.0), set()),
    "healthy tanh": (lambda: deep(torch.nn.Tanh, 1.0), set()),
    "vanishing": (lambda: deep(torch.nn.ReLU, 0.4), {"vanishing gradients"}),
    "exploding": (lambda: deep(torch.nn.ReLU, 10.0), {"exploding gradients"}),
    "saturated": (lambda: deep(torch.nn.Tanh, 30.0, layers=3), {"saturated units"}),
    "alike": (
        lambda: deep(torch.nn.Tanh, 0.1, bias=1.0, layers=8),
        {"inputs look alike", "vanishing gradients"},
    ),
    "dead": (lambda: deep(torch.nn.ReLU, 2.0, bias=-3.0, layers=2), {"dead units"}),
    "dead after a norm": (
        lambda: torch.nn.Sequential(
            torch.nn.Linear(64, 8), Shifted(), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 3)
        ),
        {"dead units"},
    ),
    "batch norm": (
        lambda: torch.nn.Sequential(
            torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
        ),
        {"no batch statistics"},
    ),
}


class Shifted(torch.nn.LayerNorm):
    """A norm that leaves all but one unit negative."""

    def __init__(self):
        super().__init__(8)
        torch.nn.init.constant_(self.bias, -9.0)
        with torch.no_grad():
            self.bias[0] = 0.0


@pytest.mark.parametrize("name", SICK)
def test_sick_networks(name):
    make, expected = SICK[name]
    found = {fault for fault, _ in measured_faults(make(), X)}
    # One fault brings others: where nothing flows back, the inputs look alike too.
    assert found >= expected if expected else not found
