"""Tokens from block to block: the law of nearly equal logits, the rules of other attention, real blocks."""

import jax
import numpy as np
import pytest

from finitewidth import Dense, GlobalAveragePool, LayerNorm, Residual, Scale, SelfAttention, Sequential
from finitewidth.course.architectures.networks.token_correlations import drawn_token_correlations
from finitewidth.course.architectures.theory.token_correlations import token_correlations

T, Q, C = 6, 1.5, 0.4


def test_logits_that_hardly_differ_cube_the_difference():
    C_b, C_QK, C_OV = 0.2, 0.02, 1.3
    attention = SelfAttention(8, C_b=C_b, C_QK=C_QK, C_OV=C_OV)
    found = token_correlations(attention, 1, T, variance=Q, correlation=C, samples=2**15)
    own = C_OV * Q * (1 - C) * C_QK**2 * Q**2 * (1 - C) ** 2 * (1 - 1 / T) / T
    common = C_b + C_OV * Q * (C + (1 - C) / T)
    law, (value, sem) = own / (own + common), found.difference[1]
    assert abs(value - law) < 5 * sem < 0.05 * law
    np.testing.assert_allclose(found.variance.value[1], common + own, rtol=C_QK**2)


def test_weights_far_apart_pick_one_token_each():
    """With huge logits a row of S is one-hot: sum_j S_ij^2 = 1, and two uncorrelated tokens agree in 1/T."""
    found = token_correlations(SelfAttention(8, C_QK=1e6), 1, T, correlation=0.0)
    value, sem = found.difference[1]
    assert abs(value - (1 - 1 / T)) < 5 * sem < 0.05


def test_attention_with_a_closed_form_and_a_shortcut_obey_their_rules():
    C_QK, C_OV, alpha, beta = 0.7, 1.2, 0.8, 0.5
    block = Residual(SelfAttention(8, scaling="linear", C_QK=C_QK, C_OV=C_OV), alpha=alpha, beta=beta)
    K = Q * (C + (1 - C) * np.eye(T))
    S = np.exp(C_QK * K) / np.exp(C_QK * K).sum(axis=1, keepdims=True)
    above = alpha**2 * K + beta**2 * C_OV * S @ K @ S.T
    found = token_correlations(Sequential(block, LayerNorm()), 1, T, variance=Q, correlation=C)
    np.testing.assert_allclose(found.correlation.value, [C, above[0, 1] / above[0, 0]], rtol=1e-12)
    np.testing.assert_allclose(found.variance.value, [Q, 1.0], rtol=1e-4)


def test_real_tokens_have_the_variance_and_correlation_asked_for():
    found = drawn_token_correlations(
        Sequential(Dense(256, 0.0, 1.0), Scale(2.0)), 1, T,
        key=jax.random.key(0), draws=40, variance=Q, correlation=C,
    )  # fmt: skip
    for value, law in ((found.variance, [Q, 4 * Q]), (found.correlation, [C, C])):
        assert (np.abs(value.value - law) < 4.5 * value.sem).all()
        assert (value.sem < 0.05 * np.array(law)).all()


def asked(blocks=1, tokens=3, **numbers):
    return lambda: token_correlations(Dense(4, 0.0, 1.0), blocks, tokens, **numbers)


WRONG = {
    "one token": (asked(tokens=1), "tokens must be a whole number of at least 2"),
    "correlation": (asked(correlation=1.5), "correlation must be between 0 and 1"),
    "no blocks": (asked(blocks=0), "blocks must be a whole number of at least 1"),
    "variance": (asked(variance=-1.0), "variance must be a positive number"),
    "another shape": (
        lambda: token_correlations(Sequential(Dense(4, 0.0, 1.0), GlobalAveragePool()), 1, 3),
        "must keep the shape",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_get_one_sentence(name):
    call, sentence = WRONG[name]
    with pytest.raises(ValueError, match=sentence):
        call()
