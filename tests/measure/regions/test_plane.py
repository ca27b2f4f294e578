"""Every region of a plane, against rational arithmetic, grids and the networks themselves."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from finitewidth.measure import regions
from finitewidth.measure.regions.program import Builder
from measure.regions.exact_cells import exact_patterns

PLANE = regions.as_plane([0.0, 0.0], np.eye(2), polygon=3.0)


def relu_network(layers, slope=None):
    build = Builder((np.shape(layers[0][0])[1],))
    value = 0
    for number, (weight, bias) in enumerate(layers):
        value = build.linear(value, np.asarray(weight, float), np.asarray(bias, float))
        if number < len(layers) - 1:
            gate = build.gate(value)
            low = None if slope is None else build.scale(value, np.array(slope))
            value = build.select(gate, low, value)
    return build.program(value, (len(layers[-1][1]),))


def gaussian_layers(rng, *widths, bias=0.1):
    return [
        (rng.normal(size=(m, n)) * np.sqrt(2 / n), np.sqrt(bias) * rng.normal(size=m))
        for n, m in itertools.pairwise(widths)
    ]


def forward(layers, x):
    """Outputs and patterns at inputs (points, n)."""
    gates = []
    for weight, bias in layers[:-1]:
        z = x @ weight.T + bias
        gates.append(z > 0)
        x = np.maximum(z, 0)
    return x @ layers[-1][0].T + layers[-1][1], np.concatenate(gates, axis=1)


@pytest.fixture(scope="module")
def layers():
    return gaussian_layers(np.random.default_rng(5), 2, 24, 24, 24, 2)


@pytest.fixture(scope="module")
def found(layers):
    return regions.plane_regions(relu_network(layers), PLANE)


def test_areas_sum_to_the_whole(found):
    assert abs(found.areas.sum() / 36 - 1) < 1e-12
    assert (found.areas > 0).all()
    assert found.density == found.number / 36


def test_maps_and_patterns_are_the_networks_own(found, layers):
    outputs, patterns = forward(layers, found.centroids)
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(found.patterns, patterns)
    assert len(np.unique(found.patterns, axis=0)) == found.number > 1500


def test_a_grid_can_only_undercount(found, layers):
    u = np.linspace(-3, 3, 301)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
    seen = {row.tobytes() for row in forward(layers, grid)[1].astype(np.uint8)}
    listed = {row.tobytes() for row in found.patterns}
    assert seen <= listed
    assert len(seen) < 0.9 * len(listed)


def test_corners_belong_to_their_cells(found):
    """The affine maps of neighbours agree at shared corners, because the network is continuous."""
    number = found.number // 2
    cell = found.cell(number)
    assert len(cell) == found.counts[number] >= 3
    own = cell @ found.slopes[number].T + found.offsets[number]
    for corner, value in zip(cell, own, strict=True):
        near = (np.abs(found.corners - corner).max(axis=2) < 1e-13).any(axis=1)
        others = found.slopes[near] @ corner + found.offsets[near]
        np.testing.assert_allclose(others, np.broadcast_to(value, others.shape), atol=1e-10)
        assert near.sum() >= 2


def degenerate_layers(rng):
    """Small whole numbers: parallel, repeated and concurrent lines, and neurons that vanish."""
    widths = (2, 6, 5, 1)
    drawn = [
        (rng.integers(-2, 3, size=(m, n)), rng.integers(-2, 3, size=m)) for n, m in itertools.pairwise(widths)
    ]
    drawn[0][0][1], drawn[0][1][1] = drawn[0][0][0], drawn[0][1][0]
    drawn[0][0][2], drawn[0][1][2] = -drawn[0][0][0], -drawn[0][1][0]
    drawn[1][0][0], drawn[1][1][0] = 0, 0
    return drawn


TURN = [[Fraction(3, 5), Fraction(4, 5)], [Fraction(-4, 5), Fraction(3, 5)]]
SQUARE = [(-3, -3), (3, -3), (3, 3), (-3, 3)]


@pytest.mark.parametrize("turned", [False, True])
def test_degenerate_networks_against_rational_arithmetic(turned):
    directions = TURN if turned else [[1, 0], [0, 1]]
    plane = regions.as_plane([0.0, 0.0], np.array(directions, float), polygon=3.0)
    rng = np.random.default_rng(11)
    for _ in range(15):
        drawn = degenerate_layers(rng)
        expected = exact_patterns(drawn, SQUARE, [0, 0], directions)
        found = regions.plane_regions(relu_network(drawn), plane)
        assert sorted(map(tuple, found.patterns.tolist())) == sorted(expected)
        assert abs(found.areas.sum() / 36 - 1) < 1e-12


def test_lines_through_one_point_at_small_angles():
    """n of them make 2 n cells; a rounded crossing would make slivers that no two share."""
    rng = np.random.default_rng(8)
    for spread in (1.0, 1e-2, 1e-4):
        point = rng.normal(size=2)
        angles = 0.3 + spread * rng.random(40)
        weight = rng.exponential(size=(40, 1)) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        layers = [(weight, -weight @ point), (np.ones((1, 40)), np.zeros(1))]
        assert regions.plane_regions(relu_network(layers), PLANE).number == 80


def test_rounding_that_is_left_of_a_zero_is_no_neuron():
    """Two neurons cancel but for rounding; without a bias above them, what is left looks like a line."""
    rng = np.random.default_rng(3)
    first = rng.normal(size=(4, 2))
    second = np.zeros((2, 4))
    third = np.array([[0.1, 0.2, -0.3, 0.0]])
    layers = [
        (np.vstack([first[0]] * 3 + [first[1]]), np.full(4, 0.1)),
        (np.vstack([third, second[0]]), np.zeros(2)),
        (np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),
        (np.ones((1, 2)), np.zeros(1)),
    ]
    for slope in (None, 0.1):
        assert regions.plane_regions(relu_network(layers, slope), PLANE).number == 4


def test_without_biases_cells_are_a_fan():
    layers = gaussian_layers(np.random.default_rng(0), 2, 10, 10, 1, bias=0.0)
    bounded = regions.plane_regions(relu_network(layers), PLANE)
    whole = regions.whole_plane_regions(relu_network(layers), PLANE)
    assert bounded.number == whole.number
    assert whole.bounded == 0
    assert abs(bounded.areas.sum() / 36 - 1) < 1e-12


def test_lines_of_the_whole_plane():
    """n lines in general position make 1 + n + n (n - 1) / 2 cells, of which 2 n are unbounded."""
    n = 30
    layers = gaussian_layers(np.random.default_rng(2), 2, n, 1, bias=1.0)
    whole = regions.whole_plane_regions(relu_network(layers), PLANE)
    assert whole.number == 1 + n + n * (n - 1) // 2
    assert whole.number - whole.bounded == 2 * n
    outputs, patterns = forward(layers, whole.points)
    np.testing.assert_array_equal(whole.patterns, patterns)
    own = np.einsum("cou,cu->co", whole.slopes, whole.points) + whole.offsets
    np.testing.assert_allclose(own, outputs, rtol=1e-9, atol=1e-9)


def test_bounded_cells_of_the_whole_plane_have_the_areas_of_a_large_square(layers):
    program = relu_network([*layers[:1], (np.ones((1, 24)), np.zeros(1))])
    whole = regions.whole_plane_regions(program, PLANE)
    reach = 10 * np.abs(whole.points).max()
    square = regions.plane_regions(program, regions.as_plane([0.0, 0.0], np.eye(2), reach))
    areas = {row.tobytes(): area for row, area in zip(square.patterns, square.areas, strict=True)}
    for row, area in zip(whole.patterns, whole.areas, strict=True):
        if np.isfinite(area) and row.tobytes() in areas:
            assert areas[row.tobytes()] <= area * (1 + 1e-6)


def test_batches_change_nothing(layers, monkeypatch):
    from finitewidth.measure.regions import execution

    expected = regions.plane_regions(relu_network(layers), PLANE)
    monkeypatch.setattr(execution, "_ENTRIES", 5000)
    found = regions.plane_regions(relu_network(layers), PLANE)
    order, other = (np.lexsort(r.patterns.T) for r in (expected, found))
    np.testing.assert_array_equal(found.patterns[other], expected.patterns[order])
    np.testing.assert_allclose(found.areas[other], expected.areas[order], rtol=1e-9)


def test_a_polygon_of_ones_own_and_slanted_directions(layers):
    corners = np.array([[0.0, 0.0], [2.0, 0.5], [1.0, 2.0]])
    plane = regions.as_plane([0.3, -0.2], [[1.0, 0.5], [0.0, 2.0]], corners)
    found = regions.plane_regions(relu_network(layers), plane)
    assert abs(found.areas.sum() / 1.75 - 1) < 1e-12
    np.testing.assert_allclose(plane.coordinates(plane.inputs(found.centroids)), found.centroids, atol=1e-12)
    np.testing.assert_allclose(found.outputs, forward(layers, plane.inputs(found.centroids))[0], atol=1e-10)


def test_plane_through_three_points(rng):
    points = rng.normal(size=(3, 2, 5))
    plane = regions.plane_through(points)
    u = plane.coordinates(points)
    np.testing.assert_allclose(plane.inputs(u), points, atol=1e-12)
    np.testing.assert_allclose(
        plane.directions.reshape(2, -1) @ plane.directions.reshape(2, -1).T, np.eye(2), atol=1e-12
    )
    low, high = plane.corners.min(axis=0), plane.corners.max(axis=0)
    assert (u > low).all()
    assert (u < high).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([0.0, 0.0], [[1.0, 0.0], [2.0, 0.0]]), "parallel"),
        (([0.0, 0.0], [[1.0, 0.0], [0.0, 0.0]]), "direction 1 is zero"),
        (([0.0, 0.0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), r"of shape \(2, 2\), got \(2, 3\)"),
        (([0.0, np.nan], np.eye(2)), "finite"),
        (([0.0, 0.0], np.eye(2), 0.0), "half the side of a square"),
        (([0.0, 0.0], np.eye(2), [[0, 0], [1, 1]]), "at least three"),
        (([0.0, 0.0], np.eye(2), [[0, 0], [2, 0], [0.1, 0.1], [0, 2]]), "convex"),
    ],
)
def test_planes_that_do_not_exist(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        regions.as_plane(*arguments)


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], "on one line"),
        ([[0.0, 0.0], [0.0, 0.0], [2.0, 2.0]], "are the same"),
        ([[0.0, 0.0], [1.0, 1.0]], "three points"),
    ],
)
def test_points_without_a_plane(points, sentence):
    with pytest.raises(ValueError, match=sentence):
        regions.plane_through(points)
