"""Every breakpoint on a line, all cells of small networks, and distances to boundaries."""

import itertools

import numpy as np
import pytest

from finitewidth.course.linear_regions.networks.sawtooth import sawtooth
from finitewidth.measure import regions
from measure.regions.test_plane import gaussian_layers, relu_network


def breakpoints_by_points(layers, start, end) -> np.ndarray:
    """Another algorithm: values at sorted points, and roots between each two of them, layer by layer."""
    t = np.array([0.0, 1.0])
    h = start + t[:, None] * (end - start)
    for weight, bias in layers[:-1]:
        z = h @ weight.T + bias
        left, neuron = np.nonzero(z[:-1] * z[1:] < 0)
        way = z[left, neuron] / (z[left, neuron] - z[left + 1, neuron])
        new = z[left] + way[:, None] * (z[left + 1] - z[left])
        new[np.arange(len(way)), neuron] = 0.0
        t, z = np.append(t, t[left] + way * (t[left + 1] - t[left])), np.concatenate([z, new])
        order = np.argsort(t)
        t, h = t[order], np.maximum(z[order], 0)
    return t[1:-1]


def test_breakpoints_of_a_deep_network(rng):
    layers = gaussian_layers(rng, 3, 20, 20, 20, 20, 2)
    start, end = 3 * rng.normal(size=(2, 3))
    found = regions.line_regions(relu_network(layers), start, end)
    np.testing.assert_allclose(found.breakpoints, breakpoints_by_points(layers, start, end), atol=1e-11)
    assert found.number == len(found.breakpoints) + 1 > 15
    whole = regions.line_regions(relu_network(layers), start, end, whole=True)
    inside = whole.breakpoints[(whole.breakpoints > 0) & (whole.breakpoints < 1)]
    np.testing.assert_allclose(inside, found.breakpoints, atol=1e-11)
    # The output is continuous.
    t = whole.breakpoints[:, None]
    left = whole.slopes[:-1] * t + whole.offsets[:-1]
    right = whole.slopes[1:] * t + whole.offsets[1:]
    np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-10)


def test_one_hidden_layer_on_the_whole_line(rng):
    (weight, bias), last = gaussian_layers(rng, 1, 40, 1, bias=1.0)
    found = regions.line_regions(relu_network([(weight, bias), last]), [0.0], [1.0], whole=True)
    np.testing.assert_allclose(found.breakpoints, np.sort(-bias / weight[:, 0]), rtol=1e-9)
    assert found.pieces == 41
    kinks = np.diff(found.slopes[:, 0])
    expected = (np.abs(weight[:, 0]) * last[0][0])[np.argsort(-bias / weight[:, 0])]
    np.testing.assert_allclose(kinks, expected, rtol=1e-9)


def test_neurons_that_no_output_sees():
    """Where the second layer is shut, a breakpoint of the first changes the pattern and no output."""
    layers = [
        (np.array([[1.0], [1.0]]), np.array([0.0, -1.0])),
        (np.array([[1.0, 0.0]]), np.array([-2.0])),
        (np.ones((1, 1)), np.zeros(1)),
    ]
    found = regions.line_regions(relu_network(layers), [-1.0], [4.0])
    np.testing.assert_allclose(found.breakpoints, [0.2, 0.4, 0.6])
    assert found.visible.tolist() == [False, False, True]
    assert found.pieces == 2


def test_equal_neurons_have_one_breakpoint():
    weight, bias = np.array([[1.0], [1.0], [-1.0]]), np.array([0.1, 0.1, -0.1])
    program = relu_network([(weight, bias), (np.ones((1, 3)), np.zeros(1))])
    for whole in (False, True):
        found = regions.line_regions(program, [-1.0], [1.0], whole=whole)
        assert found.breakpoints == pytest.approx([0.45])
        assert found.patterns.tolist() == [[0, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize("folds", [1, 2, 3, 7, 12])
def test_sawtooth(folds):
    net, params = sawtooth(folds)
    found = regions.line_regions(net, [0.0], [1.0], params=params)
    assert found.pieces == 2**folds
    np.testing.assert_array_equal(found.breakpoints, np.arange(1, 2**folds) / 2**folds)
    assert set(np.abs(found.slopes[:, 0])) == {2.0**folds}
    line = regions.line_regions(net, [0.0], [1.0], whole=True, params=params)
    assert line.pieces == (3 if folds == 1 else 2**folds + 2)


def test_all_cells_of_small_networks(rng):
    layers = gaussian_layers(rng, 2, 5, 4, 1, bias=1.0)
    found = regions.all_regions(relu_network(layers))
    whole = regions.whole_plane_regions(relu_network(layers), regions.as_plane([0.0, 0.0], np.eye(2)))
    assert sorted(map(tuple, found.patterns.tolist())) == sorted(map(tuple, whole.patterns.tolist()))
    assert found.affine_maps <= found.number
    h = np.maximum(found.points @ layers[0][0].T + layers[0][1], 0)
    outputs = np.maximum(h @ layers[1][0].T + layers[1][1], 0) @ layers[2][0].T + layers[2][1]
    own = np.einsum("con,cn->co", found.slopes, found.points) + found.offsets
    np.testing.assert_allclose(own, outputs, rtol=1e-8, atol=1e-8)


def test_hyperplanes_in_three_dimensions(rng):
    """Every sign vector of three hyperplanes is a cell; of six, 42 are (and 32 through the origin)."""
    for n, bias, expected in ((3, 1.0, 8), (6, 1.0, 42), (6, 0.0, 32)):
        layers = gaussian_layers(rng, 3, n, 1, bias=bias)
        assert regions.all_regions(relu_network(layers)).number == expected


def test_too_many_cells_are_refused(rng):
    with pytest.raises(ValueError, match="more than most_cells=10 cells"):
        regions.all_regions(relu_network(gaussian_layers(rng, 2, 8, 1)), most_cells=10)


def test_distance_to_the_nearest_boundary(rng):
    """The nearest breakpoint on lines in many directions comes close to the distance, and is never nearer."""
    layers = gaussian_layers(rng, 2, 10, 10, 1)
    program = relu_network(layers)
    x = rng.normal(size=(4, 2))
    found = regions.boundary_distance(program, x)
    for point, distance in zip(x, found, strict=True):
        nearest = min(
            first
            for angle in np.linspace(0, 2 * np.pi, 300)
            for first in regions.line_regions(
                program, point, point + 5 * np.array([np.cos(angle), np.sin(angle)])
            ).breakpoints[:1]
        )
        assert distance <= 5 * nearest * (1 + 1e-9)
        assert 5 * nearest < 1.001 * distance
        along = regions.boundary_distance(program, point[None], within=[[3.0, 4.0]])
        ways = [
            regions.line_regions(program, point, point + sign * np.array([30.0, 40.0])).breakpoints[0]
            for sign in (1, -1)
        ]
        assert along == pytest.approx([50 * min(ways)], rel=1e-9)


def test_distance_in_a_max_pooled_network():
    """max(x_1, x_2, 0.5 x_3) at (2, 1, 3): 1.5 is nearest to 2, at a distance 0.5 / sqrt(1 + 0.25)."""
    from finitewidth.measure.regions.program import Builder

    build = Builder((3,))
    value = build.largest(build.scale(0, np.array([1.0, 1.0, 0.5])), np.array([[0, 1, 2]]))
    program = build.program(value, (1,))
    found = regions.boundary_distance(program, [[2.0, 1.0, 3.0]])
    assert found == pytest.approx([0.5 / np.sqrt(1.25)])


def test_cells_of_a_maximum_are_not_cut_by_losers(rng):
    """Upper envelopes of planes: a cell per winner, where pairwise cuts would make more."""
    from finitewidth.measure.regions.program import Builder

    weight, bias = rng.normal(size=(6, 2)), 0.3 * rng.normal(size=6)
    build = Builder((2,))
    program = build.program(build.largest(build.linear(0, weight, bias), np.arange(6)[None]), (1,))
    plane = regions.as_plane([0.0, 0.0], np.eye(2), 3.0)
    found = regions.plane_regions(program, plane)
    u = np.linspace(-3, 3, 400)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
    winners = np.unique(np.argmax(grid @ weight.T + bias, axis=1))
    assert sorted(found.patterns[:, 0]) == winners.tolist()
    assert abs(found.areas.sum() / 36 - 1) < 1e-12
    assert regions.all_regions(program).number >= found.number
    line = regions.line_regions(program, [-3.0, -3.0], [3.0, 2.0])
    t = np.linspace(0, 1, 100_001)[:, None]
    ways = np.argmax((np.array([-3.0, -3.0]) + t * np.array([6.0, 5.0])) @ weight.T + bias, axis=1)
    assert line.number == 1 + sum(a != b for a, b in itertools.pairwise(ways))


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        (([0.0], [0.0]), "the same input"),
        (([0.0], [0.0, 1.0]), "of one shape"),
        (([0.0], [np.inf]), "finite"),
    ],
)
def test_lines_that_do_not_exist(ends, sentence, rng):
    with pytest.raises(ValueError, match=sentence):
        regions.line_regions(relu_network(gaussian_layers(rng, 1, 3, 1)), *ends)


def test_wrong_points_and_directions(rng):
    program = relu_network(gaussian_layers(rng, 2, 3, 1))
    with pytest.raises(ValueError, match="x must be inputs"):
        regions.boundary_distance(program, [1.0, 2.0])
    with pytest.raises(ValueError, match="depend on each other"):
        regions.boundary_distance(program, [[1.0, 2.0]], within=[[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(ValueError, match="within must be directions"):
        regions.boundary_distance(program, [[1.0, 2.0]], within=[1.0, 1.0])
