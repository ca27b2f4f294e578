"""Which cells share an edge: exact counts, Euler's formula, lines that walk from cell to cell."""

import itertools

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from finitewidth.measure import regions
from measure.regions.test_plane import PLANE, degenerate_layers, gaussian_layers, relu_network


def vertices(found, closest=1e-8):
    """How many points the corners of all cells are."""
    points = np.concatenate([found.cell(k) for k in range(found.number)])
    pairs = cKDTree(points).query_pairs(closest, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(points), len(points)))
    return connected_components(graph, directed=False)[0]


def check_euler(found, pairs):
    """V - E + F = 1 for a subdivision of a disk, every edge counted once."""
    assert found.counts.sum() == 2 * pairs.number + pairs.outer
    assert vertices(found) - (pairs.number + pairs.outer) + found.number == 1


@pytest.mark.parametrize("lines", [0, 1, 2, 7, 15])
def test_lines_that_all_cross(lines):
    """n lines of which each two cross in the square: each is cut into n parts, and is one neuron's."""
    angles = np.pi * (np.arange(lines) + 0.3) / max(lines, 1)
    weight = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    offsets = 0.4 * np.sin(1.0 + 2.3 * np.arange(lines) ** 2)
    layers = [(weight, offsets), (np.ones((1, lines)), np.zeros(1))]
    if not lines:
        layers = [(np.ones((1, 2)), np.zeros(1))]
    found = regions.plane_regions(relu_network(layers), regions.as_plane([0.0, 0.0], np.eye(2), 40.0))
    pairs = found.neighbours()
    assert found.number == 1 + lines + lines * (lines - 1) // 2
    assert pairs.number == lines**2
    assert np.bincount(pairs.neurons, minlength=lines).tolist() == [lines] * lines
    assert pairs.outer == 4 + 2 * lines
    check_euler(found, pairs)


@pytest.fixture(scope="module")
def found():
    layers = gaussian_layers(np.random.default_rng(5), 2, 24, 24, 24, 2)
    return layers, regions.plane_regions(relu_network(layers), PLANE)


def test_deep_networks(found):
    _, cells = found
    pairs = cells.neighbours()
    check_euler(cells, pairs)
    first, second = pairs.cells.T
    # The patterns of neighbours differ in the neuron that is named, and in no other.
    different = cells.patterns[first] != cells.patterns[second]
    assert (different.sum(axis=1) == 1).all()
    assert different[np.arange(pairs.number), pairs.neurons].all()
    # The network is continuous: both maps agree at both ends of the edge.
    for end in np.moveaxis(pairs.ends, 1, 0):
        values = [np.einsum("eou,eu->eo", cells.slopes[k], end) + cells.offsets[k] for k in (first, second)]
        np.testing.assert_allclose(*values, atol=1e-9)
    assert (pairs.lengths > 0).all()
    graph = coo_array((np.ones(pairs.number), pairs.cells.T), shape=(cells.number, cells.number))
    assert connected_components(graph, directed=False)[0] == 1


def test_a_line_walks_from_neighbour_to_neighbour(found):
    layers, cells = found
    pairs = cells.neighbours()
    number = {pattern.tobytes(): k for k, pattern in enumerate(cells.patterns.astype(np.int8))}
    shared = {frozenset(pair) for pair in pairs.cells.tolist()}
    rng = np.random.default_rng(2)
    for left, right in rng.uniform(-3, 3, size=(4, 2)):
        line = regions.line_regions(relu_network(layers), [-2.99, left], [2.99, right])
        walked = [number[pattern.tobytes()] for pattern in line.patterns.astype(np.int8)]
        assert len(walked) > 20
        assert all(frozenset(step) in shared for step in itertools.pairwise(walked))
        middle = walked[len(walked) // 2]
        assert {walked[len(walked) // 2 - 1], walked[len(walked) // 2 + 1]} <= set(pairs.of(middle).tolist())


def test_degenerate_networks():
    """Lines that coincide change several neurons at one edge, and are one edge."""
    rng = np.random.default_rng(11)
    several = 0
    for _ in range(15):
        cells = regions.plane_regions(relu_network(degenerate_layers(rng)), PLANE)
        pairs = cells.neighbours()
        check_euler(cells, pairs)
        several += int(np.sum(pairs.neurons == -1))
    assert several > 0
