"""Parity and jumps of activations; ramps and their arc-cosine averages."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
import oracle
from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.kinked.kinks import (
    HIGHEST_JUMP,
    RampPairs,
    ramp_coefficients,
    ramp_tails_at_one,
    shape_at_zero,
    value_and_slope,
)
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector
from tolerances import SERIES, assert_close

ORDERS = range(1, HIGHEST_JUMP + 1)


def ramp(order: int) -> oracle.Neuron:
    """f_m and its derivative f_(m-1)."""

    def value(z, m):
        return np.where(z > 0, z, 0.0) ** m / math.factorial(m) if m > 0 else np.where(z > 0, 1.0, 0.0)

    return oracle.Neuron(lambda z: value(z, order), lambda z: value(z, order - 1))


@pytest.mark.parametrize(
    ("name", "jumps"),
    [
        ("relu", (1, 0, 0, 0, 0)),
        ("leaky_relu:0.3", (0.7, 0, 0, 0, 0)),
        ("abs", (2, 0, 0, 0, 0)),
        ("elu", (0, -1, -1, -1, -1)),
        ("selu", tuple(oracle.SELU_SCALE * (np.array([1, 0, 0, 0, 0]) - oracle.SELU_ALPHA))),
    ],
)
def test_jumps_of_kinked_activations(name, jumps):
    assert_close(shape_at_zero(as_activation(name).function).jumps, np.array(jumps, float), SERIES)


@pytest.mark.parametrize(
    "name", ["linear", "erf", "sin", "cos", "gelu", "tanh", "sigmoid", "softplus", "silu", "mish"]
)
def test_smooth_activations_have_no_jumps(name):
    assert shape_at_zero(as_activation(name).function).jumps == ()


@pytest.mark.parametrize(
    ("names", "first", "stride"),
    [
        (["linear", "erf", "sin", "tanh", "sigmoid"], 3, 2),
        (["relu", "leaky_relu", "abs", "cos", "gelu", "softplus", "silu"], 2, 2),
        (["elu", "selu", "mish"], 2, 1),
    ],
)
def test_parity_up_to_constant_and_linear_part(names, first, stride):
    for name in names:
        shape = shape_at_zero(as_activation(name).function)
        assert (shape.first, shape.stride) == (first, stride), name


@pytest.mark.parametrize("exponent", [0.5, 1.5, 2.5])
def test_a_root_is_not_a_jump(exponent):
    """|z|^p has derivatives that diverge or vanish at zero; none of them jumps by a finite amount."""
    assert shape_at_zero(lambda z: jnp.abs(z) ** exponent).jumps == ()


def test_a_jump_of_the_function_itself_is_refused():
    with pytest.raises(ValueError, match=r"jumps by 2 at zero.*continuous.*'step'"):
        fw.Activation(jnp.sign).law()


def test_jumps_are_found_inside_jit():
    @jax.jit
    def doubled(x):
        return 2 * x * shape_at_zero(jax.nn.relu6).jumps[0]

    assert float(doubled(1.0)) == 2.0


@pytest.mark.parametrize("name", [n for n in fw.ACTIVATION_NAMES if n != "step"])
def test_functions_and_slopes_are_what_their_names_say(name):
    z = np.concatenate([np.linspace(-30, 30, 240), [-1e-9, 1e-9]])
    value, slope = value_and_slope(as_activation(name).function, jnp.asarray(z))
    assert_close(value, oracle.NEURONS[name].value(z))
    assert_close(slope, oracle.NEURONS[name].slope(z))


def test_ramp_coefficients_equal_quadrature():
    terms = 40
    nodes, _ = gaussian_rule(terms)
    projected = np.stack([ramp(m).value(nodes) @ hermite_projector(terms) for m in ORDERS])
    assert_close(ramp_coefficients(terms), projected)


@pytest.mark.parametrize("rho", [-1.0, -0.8, 0.0, 0.55, 0.99, 1.0])
def test_ramp_pairs_equal_quadrature(rho):
    pairs = RampPairs(jnp.asarray(rho))
    for m in range(HIGHEST_JUMP + 1):
        truth, _ = oracle.pair_averages(ramp(m), 1.0, 1.0, rho)
        scale = oracle.layer(ramp(m), 1.0).g
        assert_close(float(pairs(m, m)) / scale + 1, truth / scale + 1)


def test_mixed_ramp_pairs_sum_their_series():
    rho = 0.7
    low, pairs = ramp_coefficients(160), RampPairs(jnp.asarray(rho))
    for m in ORDERS:
        for n in ORDERS:
            assert_close(pairs(m, n), (low[m - 1] * low[n - 1]) @ rho ** np.arange(160))
            assert float(pairs(m, n)) == float(pairs(n, m))


def test_first_ramp_pair_is_the_arc_cosine_kernel():
    rho = np.linspace(-1, 1, 9)
    angle = np.arccos(rho)
    found = RampPairs(jnp.asarray(rho))
    assert_close(found(0, 0), (np.pi - angle) / (2 * np.pi))
    assert_close(found(1, 1), (np.sin(angle) + (np.pi - angle) * rho) / (2 * np.pi))
    assert_close(found(2, 2), (3 * np.sin(angle) * rho + (np.pi - angle) * (1 + 2 * rho**2)) / (8 * np.pi))


@pytest.mark.parametrize("terms", [1, 6, 30])
def test_ramp_tails_are_what_the_head_leaves(terms):
    """E[f_m f_n] and E[f_(m-1) f_(n-1)] by quadrature, less the orders below `terms`."""
    head = ramp_coefficients(terms)
    value, slope = ramp_tails_at_one(terms)
    nodes, weights = gaussian_rule()
    for m in ORDERS:
        for n in ORDERS:
            full = weights @ (ramp(m).value(nodes) * ramp(n).value(nodes))
            full_slope = weights @ (ramp(m).slope(nodes) * ramp(n).slope(nodes))
            product = head[m - 1] * head[n - 1]
            assert_close(value[m - 1, n - 1] + product.sum(), full)
            assert_close(slope[m - 1, n - 1] + product @ np.arange(terms), full_slope)
