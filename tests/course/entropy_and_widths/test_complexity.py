"""Covers, embeddings and extensions against hand-made cases, brute force and inequalities that must hold."""

import itertools
import json
import pathlib

import jax
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

import finitewidth as fw
from finitewidth.course.entropy_and_widths.theory.embedding import (
    embed,
    embedding_dimension,
    linear_contraction_dimension,
)
from finitewidth.course.entropy_and_widths.theory.entropy import (
    ball_entropy,
    cube_entropy,
    ellipsoid_entropy,
    interval_entropy,
    lipschitz_centres,
    lipschitz_entropy,
    lipschitz_packing,
)
from finitewidth.course.entropy_and_widths.theory.extension import extend, image_within
from finitewidth.course.entropy_and_widths.theory.finite_sets import (
    farthest_points,
    finite_entropy,
    smallest_cover,
)
from finitewidth.course.entropy_and_widths.theory.networks import network_class
from finitewidth.course.entropy_and_widths.theory.stable_widths import entropy_from_stable_width, stable_code
from tolerances import assert_close

LECTURES = json.loads((pathlib.Path(__file__).parents[2] / "reference" / "exact-laws.json").read_text())
SIMPLE = LECTURES["entropy-numbers-simple-classes"]


def test_simple_classes_of_the_reference():
    for n in range(8):
        assert_close(lipschitz_entropy(n), SIMPLE["lip1_f0"][n])
        assert_close(interval_entropy(n), SIMPLE["interval"][n])
        assert_close(cube_entropy(n, 2), SIMPLE["cube_d2_sup"][n])
    assert cube_entropy(6, 3) == 1 / 8  # 64^(1/3) rounds down to 3 in floating point
    assert cube_entropy(300, 3) == 2.0**-101


@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_lipschitz_functions_are_covered_and_packed(n):
    """No zigzag with twice as many pieces is farther than 1/(n+1) from a centre, and some are that far."""
    fine = lambda values: np.array(
        [np.interp(np.linspace(0, n + 1, 2 * n + 3), np.arange(n + 2), v) for v in values]
    )
    signs = np.array(list(itertools.product((1, 0, -1), repeat=min(2 * n + 2, 8))))
    signs = np.pad(signs, ((0, 0), (0, 2 * n + 2 - signs.shape[1])), constant_values=1)
    functions = np.concatenate([np.zeros((len(signs), 1)), np.cumsum(signs, axis=1)], axis=1) / (2 * n + 2)
    nearest = cdist(functions, fine(lipschitz_centres(n)), "chebyshev").min(axis=1)
    assert_close(nearest.max(), lipschitz_entropy(n))
    packing = lipschitz_packing(n)
    assert packing.shape == (2 ** (n + 1), n + 2)
    assert_close(np.abs(np.diff(packing, axis=1)), np.full((2 ** (n + 1), n + 1), 1 / (n + 1)))
    assert_close(pdist(packing, "chebyshev").min(), 2 * lipschitz_entropy(n))


def test_bounds_by_volume():
    assert ball_entropy(6, 3) == (0.25, 0.75)
    assert ball_entropy(1, 5).upper == 1.0
    for n, expected in ((8, 1.07), (32, 1.30), (128, 1.39), (512, 1.43)):
        assert abs(n * ellipsoid_entropy(n, 1 / np.arange(1, 4 * n)).lower - expected) < 0.005
    # One axis is an interval of length two.
    one = ellipsoid_entropy(3, [1.0])
    assert one.lower == 2.0**-3
    assert one.upper >= 2.0**-3
    ball = ellipsoid_entropy(30, np.ones(3))
    assert_close(ball.lower, 2.0**-10)
    assert ball.upper == pytest.approx(2 / (2**10 - 1))
    assert ellipsoid_entropy(0, [0.3, 0.7]).upper == 0.7


def test_upper_bound_of_an_ellipsoid_is_reached_by_a_packing(rng):
    """A maximal packing of a sample at this distance has at most 2^n members."""
    axes = np.array([1.0, 0.5, 0.2])
    direction = rng.normal(size=(4000, 3))
    points = (
        direction / np.linalg.norm(direction, axis=1, keepdims=True) * rng.uniform(size=(4000, 1)) ** (1 / 3)
    )
    for n in (2, 4, 6):
        bounds = ellipsoid_entropy(n, axes)
        found = finite_entropy(points * axes, n)
        assert found.lower <= bounds.upper
        assert bounds.lower <= bounds.upper


def test_greedy_covers_certify_and_smallest_covers_are_smallest(rng):
    points = rng.normal(size=(14, 2))
    distance = cdist(points, points)
    for count in (1, 2, 3, 4):
        best = min(
            distance[list(chosen)].min(axis=0).max() for chosen in itertools.combinations(range(14), count)
        )
        cover = farthest_points(points, count)
        assert_close(distance[cover.centres].min(axis=0).max(), cover.radius)
        assert cover.radius / 2 <= best <= cover.radius + 1e-12
        exact = smallest_cover(points, best)
        assert len(exact.centres) <= count
        assert len(smallest_cover(points, best * (1 - 1e-9)).centres) > count
    two = finite_entropy(points, 1)
    assert two.upper == farthest_points(points, 2).radius == 2 * two.lower
    assert finite_entropy(points, 4) == (0.0, 0.0)


def test_embedding_dimensions():
    assert embedding_dimension(256, 0.5) == 206
    assert abs(embedding_dimension(2**400, 0.5) / 400 - 25.672117798516492) < 1 / 400
    assert embedding_dimension(1000, 0.3) <= 8 * np.log(1000) / 0.3**2
    assert embedding_dimension(1000, 0.5) > 8 * np.log(1000) / 0.5**2
    assert linear_contraction_dimension(4096, 0.5) == 1024


def test_an_embedding_contracts_its_points(rng):
    points = rng.normal(size=(40, 200))
    found = embed(points, 100, jax.random.key(0), 0.5)
    ratios = pdist(found.images) / pdist(points)
    assert_close(ratios.max(), 1.0)
    assert_close(ratios.min(), found.least)
    assert found.least >= 0.5
    assert_close(found.images, points @ found.matrix.T)
    with pytest.raises(ValueError, match=r"dimension = 2 is too small for 40 points and epsilon = 0\.5"):
        embed(points, 2, jax.random.key(0), 0.5)


def test_the_smallest_ball_around_a_triangle():
    """Equilateral, right-angled, and obtuse, where one corner does not count."""
    side = 2 / np.sqrt(3)
    equilateral = side * np.array([[1, 0], [-0.5, np.sqrt(3) / 2], [-0.5, -np.sqrt(3) / 2]])
    assert_close(image_within(equilateral, np.ones(3)).constant, side)
    assert_close(image_within(np.array([[0.0, 0], [2, 0], [0, 2]]), np.ones(3)).constant, np.sqrt(2))
    found = image_within(np.array([[-2.0, 0], [2, 0], [0, 0.5]]), np.ones(3))
    assert_close(found.image, np.zeros(2), scale=1.0)
    assert_close(found.constant, 2.0)


@pytest.mark.parametrize("constant", [1.0, 2.5])
def test_lipschitz_maps_extend(rng, constant):
    """Random maps with the constant, at new points near and far; a known point goes where it went."""
    known = rng.normal(size=(30, 5))
    images = np.sin(3 * known @ rng.normal(size=(5, 7)))
    images *= constant / np.max(pdist(images) / pdist(known))
    for scale in (0.01, 1.0, 10.0):
        new = known[0] + scale * rng.normal(size=5)
        found = extend(known, images, new, constant)
        reached = np.linalg.norm(found.image - images, axis=1) / np.linalg.norm(new - known, axis=1)
        assert_close(reached.max(), found.constant, 1e-8)
        assert found.constant <= constant * (1 + 1e-6)
    assert_close(extend(known, images, known[3], constant).image, images[3])


def test_an_isometry_extends_in_one_way_only(rng):
    """Inside the hull of the known points no image but the rotated one keeps all distances."""
    known = rng.normal(size=(12, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    new = known.mean(axis=0) + 0.1 * rng.normal(size=3)
    found = extend(known, known @ turn, new)
    assert_close(found.image, new @ turn, 1e-4)
    assert found.constant <= 1 + 1e-6


def test_stable_codes_return_members(rng):
    points = rng.normal(size=(60, 40)) / np.arange(1, 41)
    code = stable_code(points, 5, jax.random.key(0), dimension=60)
    assert code.codes.shape == (32, 60)
    assert_close(code.radius, farthest_points(points, 32).radius)
    for point in points[:10]:
        assert np.linalg.norm(code.decode(code.encode(point)) - point) <= 3 * code.radius * (1 + 1e-6)
    assert_close(code.decode(code.codes[7]), code.centres[7])


def test_a_stable_code_bounds_the_entropy():
    found = entropy_from_stable_width(4, 0.1, 0.8)
    assert found.index == int(np.ceil(4 * np.log2(24)))
    assert_close(found.upper, 0.4)
    with pytest.raises(ValueError, match="error = 2 is larger than radius = 1: one ball covers"):
        entropy_from_stable_width(4, 2, 1)


def test_a_class_of_networks():
    """Linear networks in one variable are one line of functions; the Jacobian of one weight is known."""
    x = np.linspace(-1, 2, 7)[:, None]
    net = fw.MLP((), "linear", 0.0, 1.0)
    found = network_class(net, x, jax.random.key(0), 5)
    assert found.parameters == 2
    assert found.linear_width(0) > 0.1
    assert_close(found.linear_width(1), 0.0, scale=1.0)
    features = np.concatenate([x, np.ones((7, 1))], axis=1) / np.sqrt(7)
    assert_close(found.lipschitz, np.full(5, np.linalg.norm(features, 2)))
    assert found.lipschitz_bound == found.lipschitz.max()
    slopes = np.array([(f[-1] - f[0]) / 3 for f in found.functions]) * np.sqrt(7)
    spread = np.abs(slopes[:, None] - slopes).max() * np.linalg.norm(x) / np.sqrt(7)
    assert found.entropy(0).lower <= spread
    assert_close(found.entropy(3).upper, 0.0, scale=1.0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cube_entropy(3, 0), "dimension must be a whole number of at least 1, got 0"),
        (lambda: lipschitz_entropy(-1), "n must be a whole number of at least 0, got -1"),
        (lambda: ellipsoid_entropy(3, [1.0, -1.0]), "an axis must be a positive number"),
        (lambda: embedding_dimension(10, 1.5), r"epsilon must lie between 0 and 1, got 1\.5"),
        (lambda: embed(np.ones((3, 2)), 2, jax.random.key(0)), "points must be at least two different ones"),
        (lambda: smallest_cover(np.ones((3, 2)), 0), "radius must be a positive number, got 0"),
        (lambda: extend(np.eye(2), np.eye(2), np.ones(2), -1), "constant must be a positive number, got -1"),
    ],
)
def test_what_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
