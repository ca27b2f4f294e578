"""Residual networks at order 1/width: the limit without a skip, the rule, and the sentences."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.expectations.two_layers import plane_rule
from tolerances import SERIES, TENSORS_OF_SERIES, assert_close

LETTERS = ("K", "Theta", "V", "D", "F", "A", "B")


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_without_the_skip_it_is_a_stack_of_dense_layers(activation):
    """Every hyperparameter differs from one; the recursion of layered networks is another derivation."""
    settings = {"lambda_b": 0.5, "lambda_W": 0.9}
    net = fw.ResidualMLP(3, 32, activation, alpha=0.0, beta=1.0, C_b=0.2, C_W=1.3, **settings)
    dense = fw.MLP((32,) * 4, activation, [0.0, 0.2, 0.2, 0.2, 0.0], [1.0, 1.3, 1.3, 1.3, 1.3], **settings)
    ours, theirs = fw.corrections(net, [[0.8]]), fw.corrections(dense, [[0.8]])
    for letter in LETTERS:
        assert_close(getattr(ours, letter), getattr(theirs, letter), TENSORS_OF_SERIES)


def test_kernels_are_those_of_infinite_width():
    net = fw.ResidualMLP(6, 16, "tanh", alpha=0.9, beta=0.7, C_b=0.1, C_W=1.2, lambda_b=0.3, lambda_W=0.8)
    x = np.array([[0.5, -1.0]])
    tensors, kernels = fw.corrections(net, x), fw.kernels(net, x)
    assert_close(tensors.K, kernels.nngp, SERIES)
    assert_close(tensors.Theta, kernels.ntk, SERIES)


def test_a_linear_network_with_one_block_by_hand():
    """f = w.(alpha + beta W) z: |z|^2 varies by 2/n, and W adds 4 alpha^2 beta^2 + 2 beta^4."""
    alpha, beta = 0.8, 0.6
    net = fw.ResidualMLP(1, 50, "linear", alpha=alpha, beta=beta, C_b=0.0, C_W=1.0)
    t = fw.corrections(net, [[1.0]])
    total = alpha**2 + beta**2
    assert_close(t.K.item(), total)
    assert_close(t.V.item(), 2 * total**2 + 4 * alpha**2 * beta**2 + 2 * beta**4, SERIES)


def test_one_over_root_depth_stops_the_growth_with_depth():
    """Relative fluctuations of 8 and 64 blocks: 14.2 and 15.7 for ReLU instead of a factor of eight."""
    ratio = {}
    for blocks in (8, 64):
        t = fw.corrections(fw.ResidualMLP(blocks, 100, "relu", C_b=0.0, C_W=2.0), [[1.0]])
        ratio[blocks] = t.V.item() / t.K.item() ** 2
    assert ratio[64] / ratio[8] < 1.15
    assert_close(ratio[64], 15.7, 0.005)


def test_the_rule_averages_kinked_functions_of_two_numbers():
    """Both positive: 1/4 + arcsin(rho)/2 pi; and a smooth average that a series gives."""
    rho = np.array([-0.9, 0.0, 0.3, 1.0])
    u, v, w = plane_rule(rho)
    assert_close(np.sum(w, axis=1), np.ones(4))
    assert_close(np.sum(w * (u > 0) * (v > 0), axis=1), 0.25 + np.arcsin(rho) / (2 * np.pi))
    assert_close(np.sum(w * (u**2 - 1) * (v**2 - 1), axis=1), 2 * rho**2, scale=1.0)


def test_what_is_not_known_is_refused_in_one_sentence():
    net = fw.ResidualMLP(2, 8, "tanh")
    with pytest.raises(ValueError, match=r"x has 2 points; .* known for one input at a time"):
        fw.corrections(net, np.eye(2))
    with pytest.raises(ValueError, match="known for dense layers with an activation between each two"):
        fw.corrections(fw.ResidualMLP(2, 8, "tanh", norm=fw.LayerNorm()), np.ones((1, 2)))
    x = np.array([[1.0], [-0.5], [0.3]])
    with pytest.raises(ValueError, match="known for dense layers with an activation between each two"):
        fw.predict(net, x, x, x, order=1)
