"""Factors of layers against the theory of random networks; shares, points and classes."""

import jax
import numpy as np
import pytest
import torch

import finitewidth as fw
from finitewidth.advice.diagnosis.critical import ONE, critical_factors, follows
from finitewidth.advice.diagnosis.points import some_points
from finitewidth.advice.diagnosis.sizes import kernel_shares, layer_of, participation
from finitewidth.advice.diagnosis.step_limit import adam_scale, step_limit
from finitewidth.measure.layers.signals import signals
from finitewidth.measure.specimen import specimen
from tolerances import ASYMPTOTIC, assert_close


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_a_wide_critical_network_has_the_critical_factors(activation, rng):
    """Measured on a real network of width 2,000, whose fluctuations are a few per cent."""
    x = rng.normal(size=(20, 30))
    net = fw.MLP((2000, 2000), activation, n_out=2000)
    subject = specimen(net, x, params=net.init(jax.random.key(0), 30))
    cotangent = rng.normal(size=(20, 2000))
    sites = subject.look(cotangent)
    found = signals(sites, subject.outputs()).sites
    for below, above, site, behind in zip(found, found[1:], sites, sites[1:], strict=False):
        assert follows(site, behind)
        factors = critical_factors(activation, below.forward)
        assert_close(above.forward / below.forward, factors.forward, 5 * ASYMPTOTIC)
        assert_close(below.backward / above.backward, factors.backward, 5 * ASYMPTOTIC)


def test_relu_hands_on_half_of_twice_and_unknown_activations_compare_with_one():
    assert_close(np.array(critical_factors("relu", 3.0)), np.ones(2))
    assert critical_factors(None, 1.0) == critical_factors("hard_swish", 1.0) == ONE
    assert critical_factors("tanh", 0.0) == ONE
    small, large = critical_factors("tanh", 1e-4), critical_factors("tanh", 4.0)
    # tanh(z)^2 = z^2 - 2 z^4 / 3 and its slope squared 1 - 2 z^2, with <z^4> = 3 K^2.
    assert_close(np.array(small), np.array([1 - 2e-4, 1 - 2e-4]), 1e-6)
    assert large.forward < large.backward * 4 < 4


def test_a_layer_behind_something_else_does_not_follow(rng):
    torch.manual_seed(0)
    parts = [torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.LayerNorm(5), torch.nn.Linear(5, 2)]
    subject = specimen(torch.nn.Sequential(*parts), rng.normal(size=(6, 4)))
    assert not follows(*subject.look(np.ones((6, 2), np.float32))[:2])


def test_participation_counts_equal_shares():
    assert_close(participation(np.ones(5)), 5.0)
    assert_close(participation(np.array([3.0, 0.0, 0.0])), 1.0)
    assert_close(participation(np.array([1.0, 3.0])), 1.6)
    assert participation(np.zeros(3)) == 0


def test_shares_are_those_of_the_trace_of_the_kernel(rng):
    """For one output a cotangent of signs has the exact trace of a single point."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    subject = specimen(model, rng.normal(size=(1, 3)))
    shares = kernel_shares(subject, -np.ones((1, 1)))
    jacobian = subject.jacobian()[0, 0]
    first = np.sum(jacobian[:16] ** 2) / np.sum(jacobian**2)
    assert list(shares) == ["0", "2"]
    assert_close(np.array(list(shares.values())), np.array([first, 1 - first]))


def test_names_of_layers():
    assert [layer_of(name) for name in ("a.b.weight", "weight", "bias", "w")] == ["a.b", "", "", "w"]


def test_every_class_keeps_its_share(rng):
    y = np.repeat([0, 1, 2], [60, 30, 10])
    x, labels = some_points(np.arange(100)[:, None], y, 20, rng)
    assert_close(np.bincount(labels), np.array([12, 6, 2]))
    assert (y[x[:, 0]] == labels).all()
    assert len(np.unique(x)) == 20


@pytest.mark.parametrize(
    ("optimizer", "limit"), [("sgd", 2.0), ("momentum", 3.0), ("nesterov", 1.5), ("adam", 6.0)]
)
def test_steps_above_the_limit_diverge_and_below_it_do_not(optimizer, limit, rng):
    """A linear model with one weight, whose curvature is the mean of x^2."""
    x = rng.normal(size=(64, 1))
    model = torch.nn.Linear(1, 1, bias=False).double()
    subject = specimen(model, x, x)
    found = step_limit(subject, 0.1, optimizer, 0.5)
    scale = 1.0
    if optimizer == "adam":
        halves = [np.mean(part**2) for part in (x[:32], x[32:])]
        slope = float(model.weight.detach()[0, 0]) - 1
        scale = np.sqrt(np.mean(np.square(halves))) * abs(slope)
        assert_close(adam_scale(subject) ** -2, np.array([scale]), 1e-6)
    assert_close(found.sharpness, np.mean(x**2) / scale, 1e-6)
    assert_close(found.largest, limit * scale / np.mean(x**2), 1e-6)
    assert_close(found.ratio, 0.1 / found.largest)
