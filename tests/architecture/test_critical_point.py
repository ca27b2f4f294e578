"""The layer response that decides about criticality, and where a network looks for its defaults."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
import oracle
from finitewidth.architecture.activations import as_activation
from finitewidth.architecture.critical_point import critical_point, layer_response
from tolerances import CLOSED_FORM, assert_close


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_layer_response_equals_quadrature(name):
    K = np.array([0.01, 0.7, 3.0, 30.0])
    found = layer_response(as_activation(name), jnp.asarray(K))
    truth = [oracle.layer(oracle.NEURONS[name], k) for k in K]
    assert_close(found.g, [t.g for t in truth])
    assert_close(np.asarray(found.g_prime) + 1, np.array([t.g_prime for t in truth]) + 1)
    assert_close(found.h, [t.h for t in truth])


@pytest.mark.parametrize(
    "name",
    [n for n in fw.ACTIVATION_NAMES if n not in ("sigmoid", "hard_sigmoid", "softplus", "cos", "step")],
)
def test_the_critical_point_is_a_fixed_point_with_unit_susceptibilities(name):
    """By quadrature; at K* = 0 the fixed point is approached, so look at a tiny variance."""
    point = critical_point(as_activation(name))
    assert point.exists
    at_zero = point.universality_class == "K*=0"
    K = 1e-12 if at_zero else 2.0 if np.isnan(point.K_star) else point.K_star
    layer = oracle.layer(oracle.NEURONS[name], K)
    tolerance = 1e-5 if at_zero else CLOSED_FORM  # sqrt(K) from the kink of ELU
    assert_close(point.C_b + point.C_W * layer.g, K, tolerance)
    assert_close([point.C_W * layer.g_prime, point.C_W * layer.h], [1.0, 1.0], tolerance)


def test_sigmoid_would_need_a_negative_bias_variance():
    """sigma(0) = 1/2 and sigma'(0) = 1/4: C_W = 16 and C_b = -16/4."""
    point = critical_point(as_activation("sigmoid"))
    assert not point.exists
    assert "C_b = -4 < 0" in point.reason


def test_a_neuron_that_is_nearly_scale_free_is_told_apart():
    """z + sin(z) / 1000 has 1 / 1.001^2 at K* = 0, where the slope is 1.001."""
    point = critical_point(fw.Activation(lambda z: z + 1e-3 * jnp.sin(z), name="nearly linear"))
    assert point.universality_class == "K*=0"
    assert_close(point.C_W, 1 / 1.001**2, CLOSED_FORM)


def test_a_shifted_sine_would_need_a_negative_bias_variance():
    """<sigma sigma''> = -<sin^2> vanishes at K = 0 alone, where the shift c leaves C_b = -c^2."""
    point = critical_point(fw.Activation(lambda z: jnp.sin(z) + 0.5, name="shifted"))
    assert not point.exists
    assert "C_b = -0.25 < 0" in point.reason


def test_the_answer_is_remembered_and_works_inside_jit():
    first = critical_point(as_activation("silu"))
    assert critical_point(as_activation("silu")) is first
    fresh = fw.Activation(lambda z: z * jax.nn.sigmoid(z), name="fresh")

    @jax.jit
    def C_W(x):
        return x * critical_point(fresh).C_W

    assert_close(C_W(1.0), first.C_W, CLOSED_FORM)


@pytest.mark.parametrize(("name", "C_W"), [("hard_tanh", 1.0), ("relu6", 2.0)])
def test_an_activation_that_is_straight_near_zero_keeps_small_variances(name, C_W):
    """By quadrature: a variance of 1e-3 stays, one of 100 shrinks."""
    point = critical_point(as_activation(name))
    assert (point.universality_class, point.C_b, point.C_W) == ("K*=0", 0.0, C_W)
    assert point.reason == "small variances stay, larger ones decay"
    small, large = (C_W * oracle.layer(oracle.NEURONS[name], K).g / K for K in (1e-3, 100.0))
    assert_close(small, 1.0, CLOSED_FORM)
    assert large < 0.5


def test_an_activation_that_is_straight_near_zero_and_steeper_beyond_has_none_there():
    steeper = fw.Activation(
        lambda z: z + jnp.sign(z) * jnp.maximum(jnp.abs(z) - 1, 0), kink_places=(-1.0, 1.0)
    )
    assert critical_point(steeper).universality_class == "none"
