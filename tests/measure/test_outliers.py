"""Outliers of the Hessian and the space of its largest eigenvectors, against dense eigenvalue problems."""

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.measure.loss.class_structure import class_structure
from finitewidth.measure.loss.outliers import largest_gap, outliers, top_spaces
from finitewidth.measure.specimen import specimen
from tolerances import CLOSED_FORM

# Lanczos' method stops at residuals of a thousandth.
ITERATION = 1e-3
NET = fw.MLP((6,), "tanh", n_out=3)


@pytest.fixture(scope="module")
def network():
    rng, y = np.random.default_rng(0), np.arange(24) % 3
    x = 3.0 + 2 * np.eye(3)[y] + 0.3 * rng.normal(size=(24, 3))
    return specimen(NET, x, y, params=NET.init(jax.random.key(0), 3))


def dense_hessian(network):
    return np.stack([network.hessian_product(v) for v in np.eye(network.weights.size)])


def test_outliers_are_the_largest_eigenvalues_and_their_parts(network):
    found = outliers(network, k=5)
    values, vectors = np.linalg.eigh(dense_hessian(network))
    np.testing.assert_allclose(found.values, values[::-1][:5], rtol=ITERATION)
    bulk = class_structure(network).bulk() @ np.eye(network.weights.size)
    np.testing.assert_allclose(found.bulk_edge, np.linalg.eigvalsh(bulk)[-1], rtol=ITERATION)
    assert found.above_bulk == np.sum(values[-5:] > found.bulk_edge) > 0
    assert found.by_gap == largest_gap(values[::-1][:5])
    expected = class_structure(network).attribute(vectors[:, :-3:-1])
    np.testing.assert_allclose(found.attribution.shares[:2], expected.shares, atol=0.01)


def test_two_eigenvalues_for_each_class_are_computed_by_default(network):
    assert len(outliers(network).values) == 8


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([9.0, 8.0, 7.0, 1.0, 0.9], 3),
        ([9.0, 1.0, 0.9, 0.8], 1),
        ([9.0, 4.0, 0.4, 0.35], 2),
        ([2.0, 1.9, -1e-9, -5.0], 1),
        ([3.0], 1),
        ([-1.0], 0),
    ],
)
def test_the_largest_gap_is_a_ratio_of_positive_numbers(values, count):
    assert largest_gap(np.array(values)) == count


def test_top_spaces_along_a_path(network):
    start = network.weights
    path = [start, start + 0.3 * np.random.default_rng(1).normal(size=start.size), 1.5 * start]
    found = top_spaces(network, path, 2)
    spaces = []
    for weights, values, share in zip(path, found.values, found.shares, strict=True):
        here = network.at(weights)
        all_values, vectors = np.linalg.eigh(dense_hessian(here))
        spaces.append(vectors[:, -2:])
        np.testing.assert_allclose(values, all_values[:-3:-1], rtol=ITERATION)
        gradient = here.gradient()
        inside = spaces[-1] @ (spaces[-1].T @ gradient)
        np.testing.assert_allclose(share, inside @ inside / (gradient @ gradient), atol=0.01)
    expected = [[np.trace(a @ a.T @ b @ b.T) / 2 for b in spaces] for a in spaces]
    np.testing.assert_allclose(found.overlaps, expected, atol=0.01)
    np.testing.assert_allclose(np.diag(found.overlaps), 1.0, rtol=CLOSED_FORM)


def test_an_empty_path_is_refused(network):
    with pytest.raises(ValueError, match="path has no weights"):
        top_spaces(network, [], 2)
