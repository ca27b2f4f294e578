"""Tensors of order 1/width: independent reference values, symmetries, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

import finitewidth as fw
from tolerances import CLOSED_FORM, SERIES, STIFF_SOLVE, TENSORS, TENSORS_OF_SERIES, assert_close

CASES = json.loads((Path(__file__).parents[1] / "reference" / "finite-width-tensors.json").read_text())[
    "networks"
]


def network(case) -> fw.MLP:
    return fw.MLP(
        case["hidden"], *(case[name] for name in ("activation", "C_b", "C_W", "lambda_b", "lambda_W"))
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_tensor_agrees_with_the_reference(case):
    tensors = fw.corrections(network(case), case["x"])
    for name, expected in case["tensors"].items():
        assert_close(getattr(tensors, name), np.array(expected), TENSORS)


@pytest.fixture(scope="module")
def tensors():
    net = fw.MLP((30, 20, 25), "gelu", (0.3, 0.1, 0.2, 0.0), (1.2, 1.8, 1.5, 2.0), (0.5, 0.1, 0.3, 0.2), 0.7)
    return fw.corrections(net, np.array([[1.0, 0.4], [-0.3, 0.9], [0.6, -1.1]]))


SYMMETRIES = {
    "V": [(1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)],
    "D": [(1, 0, 2, 3), (0, 1, 3, 2)],
    "A": [(1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)],
    "F": [(2, 3, 0, 1)],
    "B": [(2, 3, 0, 1), (1, 0, 3, 2)],
    "P": [(0, 2, 1, 3)],
    "R": [(0, 1, 3, 2)],
    "S": [(1, 0, 3, 2)],
    "T": [(2, 3, 0, 1)],
}


@pytest.mark.parametrize(("name", "permutations"), SYMMETRIES.items())
def test_symmetries(tensors, name, permutations):
    tensor = np.asarray(getattr(tensors, name))
    for permutation in permutations:
        assert_close(tensor.transpose(permutation), tensor, CLOSED_FORM)


@pytest.mark.parametrize("name", ["Q", "U"])
def test_tensors_without_symmetry(tensors, name):
    tensor = np.asarray(getattr(tensors, name))
    assert np.abs(tensor - tensor.transpose(1, 0, 2, 3)).max() > 0.01 * np.abs(tensor).max()


def test_kernels_are_those_of_infinite_width(tensors):
    net = fw.MLP((30, 20, 25), "gelu", (0.3, 0.1, 0.2, 0.0), (1.2, 1.8, 1.5, 2.0), (0.5, 0.1, 0.3, 0.2), 0.7)
    nngp, ntk = fw.kernels(net, np.array([[1.0, 0.4], [-0.3, 0.9], [0.6, -1.1]]))
    assert_close(tensors.K, nngp, STIFF_SOLVE)
    assert_close(tensors.Theta, ntk, STIFF_SOLVE)


def test_labels_follow_the_inputs(rng):
    net = fw.MLP((8, 12), "tanh", 0.1, 1.3)
    x = rng.normal(size=(4, 2)) / 2
    order = np.array([2, 0, 3, 1])
    straight, permuted = fw.corrections(net, x), fw.corrections(net, x[order])
    for name in ("V", "F", "Q", "U"):
        expected = np.asarray(getattr(straight, name))[np.ix_(order, order, order, order)]
        assert_close(getattr(permuted, name), expected, TENSORS_OF_SERIES)


def test_equal_inputs_share_their_tensors():
    net = fw.MLP((8, 12), "tanh", 0.1, 1.3)
    tensors = fw.corrections(net, [[0.5, -0.2], [0.5, -0.2]])
    for name in ("G1", "V", "H1", "D", "A", "P", "R", "T"):
        tensor = np.asarray(getattr(tensors, name))
        assert_close(tensor, np.full_like(tensor, tensor.flat[0]), TENSORS_OF_SERIES)


@pytest.mark.parametrize("widths", [(20, 20, 20), (20, 40, 10)])
def test_vertex_of_linear_networks_adds_up_reciprocal_widths(widths):
    """Khat is a product of independent chi-square factors: Var = 2 K^2 sum 1/n to first order."""
    tensors = fw.corrections(fw.MLP(widths, "linear"), [[1.0, 2.0]])
    expected = 2 * widths[-1] * sum(1 / n for n in widths)
    assert_close(tensors.V[0, 0, 0, 0] / tensors.K[0, 0] ** 2, expected, SERIES)


@pytest.mark.parametrize(
    ("net", "x", "sentence"),
    [
        (fw.MLP((), "tanh"), [[1.0]], "no hidden layer"),
        (fw.MLP((8, 1), "tanh"), [[1.0]], r"net\.hidden = \(8, 1\) has a layer of width 1"),
        (fw.MLP((8,), "tanh"), np.ones((21, 2)), "21 points; the dense tensors are limited to 20.*order=1"),
        (fw.MLP((8,), "tanh", parametrisation="mup"), [[1.0]], "parametrisation"),
        (fw.MLP((8,), "tanh", 0.0, 1.0), [[np.nan]], "NaN"),
        (fw.MLP((8,), "tanh", 0.0, 1e5), [[1.0]], "standardise inputs"),
    ],
    ids=["no hidden layer", "width 1", "many points", "parametrisation", "NaN", "variance"],
)
def test_bad_input(net, x, sentence):
    with pytest.raises(ValueError, match=sentence):
        fw.corrections(net, x)


def test_tolerance_must_be_positive():
    with pytest.raises(ValueError, match="tolerance must be a positive number, got 0"):
        fw.corrections(fw.MLP((8,), "tanh"), [[1.0]], tolerance=0.0)
