"""Signals, gradients, dead and saturated units, effective width, from sites whose numbers are known."""

import math

import numpy as np
import pytest
import torch

from finitewidth.measure.layers.signals import dead_share, effective_units, saturated_share, signals
from finitewidth.measure.sites import Site
from finitewidth.measure.specimen import specimen
from tolerances import ROUNDING, assert_close

RNG = np.random.default_rng(9)


def site(z, activation=None, gradient=None, entering=None, **rest):
    z = np.asarray(z, float)
    return Site(
        "layer",
        "dense",
        RNG.normal(size=(len(z), 2)) if entering is None else entering,
        z,
        np.ones_like(z) if gradient is None else gradient,
        activation,
        **rest,
    )


def orthogonal(scale, layers, width=8):
    """A linear network whose layers turn and stretch, without noise."""
    parts = [torch.nn.Linear(width, width, bias=False, dtype=torch.float64) for _ in range(layers)]
    for part in parts:
        torch.nn.init.orthogonal_(part.weight, scale)
    return torch.nn.Sequential(*parts)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_a_network_that_stretches_by_a_known_factor(scale):
    measured = specimen(orthogonal(scale, 6), RNG.normal(size=(5, 8)))
    found = signals(measured.look(RNG.normal(size=(5, 8))), measured.outputs())
    assert found.layers == 4
    assert_close(found.decades, 4 * math.log10(scale**2), scale=1.0)
    assert_close(found.factors, np.full(4, scale**2))
    forward = np.array([one.forward for one in found.sites])
    assert_close(forward[1:] / forward[:-1], np.full(5, scale**2))


def test_sizes_of_one_site():
    z = RNG.normal(size=(4, 3, 5)) + 2
    gradient = RNG.normal(size=(4, 3, 5))
    found = signals([site(z, gradient=gradient)], z[:, 0]).sites[0]
    assert_close(found.forward, np.mean(z**2))
    assert_close(found.backward, np.mean([np.sum(g**2) for g in gradient]))
    assert_close(found.spread, (np.mean(z**2) - np.mean(z.mean(0) ** 2)) / np.mean(z**2))
    assert found.units == 5


def test_points_that_look_alike():
    alike, apart = np.full((6, 4), 3.0), np.array([[1.0], [-1.0]])
    assert signals([site(alike)], alike).sites[0].spread == 0
    assert signals([site(apart)], apart).sites[0].spread == 1
    # A regression of 1000 to 1002 is right to have outputs that differ by as little.
    years = 1001 + apart
    assert signals([site(apart)], years).output_spread < 1e-5
    assert signals([site(apart)], years, years).output_spread == 1


def test_sites_that_the_same_numbers_enter_are_one_step():
    x, h = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 2))
    gradients = [np.full((4, 2), size) for size in (3.0, 4.0, 1.0, 1.0)]
    entering = [x, x.copy(), h, h + 1]
    sites = [site(h, gradient=g, entering=e) for g, e in zip(gradients, entering, strict=True)]
    found = signals(sites, h)
    assert [len(step) for step in found.steps] == [2, 1, 1]
    assert found.layers == 1
    assert_close(found.decades, math.log10(25))


def test_gradients_that_do_not_come_back():
    z = RNG.normal(size=(4, 2))
    sites = [site(z, gradient=size * np.ones((4, 2))) for size in (0.0, 1.0, 1.0)]
    assert signals(sites, z).decades == -math.inf
    assert signals(sites[1:], z).decades == 0.0
    sites[0] = site(z, gradient=np.full((4, 2), 1e200))
    assert signals(sites, z).decades == math.inf


def test_dead_units_are_those_that_never_fire_anywhere():
    z = -np.ones((3, 2, 4))
    z[2, 1, 0] = 1e-9
    z[:, :, 1] = 0
    assert dead_share(site(z, "relu")) == 0.75
    assert dead_share(site(z, "leaky_relu")) is None
    assert dead_share(site(-z, "relu", activated=z)) == 0.75


FLAT = {
    "tanh": lambda z: 1 / np.cosh(z) ** 2,
    "sigmoid": lambda z: 4 * np.exp(-z) / (1 + np.exp(-z)) ** 2,
    "erf": lambda z: np.exp(-(z**2)),
    "softsign": lambda z: 1 / (1 + abs(z)) ** 2,
    "hard_tanh": lambda z: abs(z) <= 1,
    "hard_sigmoid": lambda z: abs(z) <= 3,
}


@pytest.mark.parametrize("name", FLAT)
def test_saturated_entries_are_those_without_slope(name):
    z = np.linspace(-7, 7, 4001)[:, None]
    share = np.mean(FLAT[name](z) < 0.05)
    assert 0 < share < 1
    assert_close(saturated_share(site(z, name)), share)
    assert saturated_share(site(z, "relu")) is None


def test_effective_units():
    basis = np.concatenate([np.eye(5), -np.eye(5)])
    assert_close(effective_units(basis), 5.0)
    assert_close(effective_units(np.outer(RNG.normal(size=9), RNG.normal(size=4)) + 3), 1.0)
    assert_close(effective_units(basis[:3]), 2.0, ROUNDING["float64"])
    assert effective_units(np.ones((4, 3))) == 0
    stretched = basis * np.array([2.0, 1, 1, 1, 1])
    assert_close(effective_units(stretched), (4 + 4) ** 2 / (16 + 4))
