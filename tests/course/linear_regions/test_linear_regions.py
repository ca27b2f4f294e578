"""Counts of regions and mean numbers of breakpoints, against enumeration and random networks."""

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course.linear_regions.networks.relu_regions import random_layers, relu_program
from finitewidth.course.linear_regions.theory import linear_regions as law
from finitewidth.measure import regions


def test_hyperplanes():
    known = {(5, 2): 16, (7, 2): 29, (6, 3): 42, (3, 3): 8, (4, 5): 16, (20, 3): 1351, (50, 5): 2369936}
    assert {sizes: law.hyperplane_cells(*sizes) for sizes in known} == known
    assert law.hyperplane_cells(6, 2, central=True) == 12
    assert law.hyperplane_cells(0, 2) == law.hyperplane_cells(0, 2, central=True) == 1


def zigzag(folds):
    """A layer that folds [0, 1] `folds` times onto itself: slopes 1, -2, 2, ... times the number of folds."""
    weight = np.full((folds, 1), 2.0 * folds)
    weight[0] = folds
    bias = -2.0 * np.arange(folds)
    out = np.where(np.arange(folds) % 2, -1.0, 1.0)
    return weight, bias, out


def test_folded_networks_have_the_regions_that_are_reachable():
    hidden = (4, 3, 5)
    layers, out = [], np.ones(1)
    for n in hidden[:-1]:
        weight, bias, following = zigzag(n)
        layers.append((weight * out, bias))
        out = following
    cuts = (np.arange(hidden[-1]) + 0.6) / (hidden[-1] + 0.2)
    layers.append((np.outer(np.ones(hidden[-1]), out), -cuts))
    layers.append((np.arange(1.0, 6.0)[None], np.zeros(1)))
    found = regions.line_regions(relu_program(layers), [0.0], [1.0])
    assert found.number == law.reachable_regions(hidden, 1) == 4 * 3 * 6
    assert found.number <= law.most_regions(hidden, 1) == 5 * 4 * 6


def test_bounds_on_random_networks(rng):
    for hidden, n_in in (((4, 3), 2), ((3, 4), 2), ((2, 5), 3)):
        most = law.most_regions(hidden, n_in)
        net = fw.MLP(hidden, "relu", 1.0, 2.0)
        for layers in random_layers(net, n_in, jax.random.key(0), 3):
            assert regions.all_regions(relu_program(layers)).number <= most
    assert law.most_regions((4, 3), 2) == 11 * 7
    assert law.most_regions((1, 3), 2) == 2 * 4
    assert law.reachable_regions((4, 5), 2) == 4 * 16
    assert law.reachable_regions((), 2) == law.most_regions((), 2) == 1


def test_wide_breakpoints_are_cauchy():
    """Values of the lectures' formula with scales sqrt(l C_b / 2) at C_W = 2."""
    assert law.wide_breakpoints(fw.MLP((30,), "relu", 0.5, 2.0), [-1.0], [2.0]) == pytest.approx(
        [23.233117559165922]
    )
    assert law.wide_breakpoints(fw.MLP((40,) * 3, "relu", 0.5, 2.0), [-3.0], [3.0]) == pytest.approx(
        [35.79452346309973, 34.10547732964229, 32.84350499911733]
    )
    whole = law.wide_breakpoints(fw.MLP((7, 5), "relu", 0.5, 2.0), [0.0], [1.0], whole=True)
    assert whole == pytest.approx([7, 5])


@pytest.mark.parametrize("activation", ["relu", "abs", "leaky_relu:0.4"])
def test_expected_breakpoints_of_real_networks(activation):
    """On a slanted line in three dimensions, layer by layer, at widths far from infinity."""
    net = fw.MLP((4, 3, 5), activation, 0.3, 1.5)
    start, end = np.array([1.0, -0.5, 0.2]), np.array([-1.0, 1.5, 0.7])
    predicted = law.expected_breakpoints(net, start, end, key=jax.random.key(3), draws=20_000)
    slope = {"relu": None, "abs": -1.0}.get(activation, 0.4)
    counts = []
    for layers in random_layers(net, 3, jax.random.key(4), 300):
        found = regions.line_regions(_bent(layers, slope), start, end)
        changes = found.patterns[1:] != found.patterns[:-1]
        counts.append([part.sum() for part in np.split(changes, [4, 7], axis=1)])
    counts = np.array(counts)
    z = (counts.mean(axis=0) - predicted.value) / np.hypot(counts.std(axis=0) / np.sqrt(300), predicted.sem)
    assert np.abs(z).max() < 4
    # The limit of infinite width is another number at these widths.
    assert abs(counts.sum(axis=1).mean() - law.wide_breakpoints(net, start, end).sum()) > 0.15


def _bent(layers, slope):
    from measure.regions.test_plane import relu_network

    return relu_network(layers, slope)


def test_the_whole_line_and_the_recursion_agree():
    net = fw.MLP((2, 3, 2), "relu", 0.5, 2.0)
    law_on_line = law.expected_breakpoints(net, [0.0], [1.0], whole=True, key=jax.random.key(0), draws=40_000)
    exact = [2, 3 * 0.75, 2 * 0.75 * 0.875]
    assert law.line_breakpoints((2, 3, 2)) == pytest.approx(sum(exact))
    error = np.abs(law_on_line.value - exact)
    assert (error <= 4 * law_on_line.sem + 1e-12).all()


def test_very_wide_networks_are_at_the_limit():
    net = fw.MLP((2000, 2000), "relu", 0.5, 2.0)
    found = law.expected_breakpoints(net, [-3.0], [3.0], key=jax.random.key(0), draws=200)
    assert found.value == pytest.approx(law.wide_breakpoints(net, [-3.0], [3.0]), rel=2e-3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: law.wide_breakpoints(fw.MLP((3,), "tanh"), [0.0], [1.0]), "does not bend at zero"),
        (lambda: law.wide_breakpoints(fw.MLP((3,), "linear"), [0.0], [1.0]), "does not bend at zero"),
        (lambda: law.wide_breakpoints(fw.MLP((3,), "relu"), [0.0], [0.0]), "two different inputs"),
        (lambda: law.reachable_regions((1, 4), 2), "fewer than n_in=2"),
        (lambda: law.most_regions((0,), 2), "positive whole numbers"),
        (lambda: law.hyperplane_cells(-1, 2), "hyperplanes must be"),
        (lambda: law.sawtooth_pieces(0), "folds must be"),
    ],
)
def test_wrong_input(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
