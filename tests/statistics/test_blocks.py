"""Susceptibilities, growth and phases of blocks of layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.statistics.depth.block_response import block_response
from finitewidth.statistics.wide import rules
from finitewidth.statistics.wide.kernels import default_laws
from tolerances import CLOSED_FORM, assert_close


def residual(name="gelu", C_b=0.1, C_W=1.5, **scales):
    return fw.Residual(fw.Activate(name), fw.Dense(8, C_b, C_W), **scales)


def test_a_plain_layer_has_the_susceptibilities_of_its_activation():
    K = np.array([0.3, 1.0, 4.0])
    layer = fw.Sequential(fw.Activate("tanh"), fw.Dense(8, 0.2, 1.4))
    assert_close(np.array(fw.susceptibilities(layer, K)), np.array(fw.susceptibilities("tanh", K, 1.4)))


def test_a_residual_block_mixes_them_with_one():
    chi, plain = (
        fw.susceptibilities(residual(alpha=0.8, beta=0.6), 2.0),
        fw.susceptibilities("gelu", 2.0, 1.5),
    )
    assert_close(np.array(chi), 0.64 + 0.36 * np.array(plain), CLOSED_FORM)


def test_the_perpendicular_one_is_the_slope_of_the_covariance_at_equal_inputs():
    block, K = fw.Sequential(residual(), fw.LayerNorm(), fw.Activate("erf"), fw.Dense(8, 0.3, 1.1)), 0.7
    laws, none = default_laws(block), jnp.zeros(1)
    features = rules.own(block, rules.Kernels(jnp.array([K]), none), laws)[1]

    def covariance(k):
        return rules.cross(block, rules.Kernels(k, none[None]), features, features, laws).nngp

    k = jnp.array([[K]])
    _, slope = jax.jvp(covariance, (k,), (jnp.ones_like(k),))
    assert_close(block_response(block, jnp.asarray(K)).perpendicular, slope[0, 0], CLOSED_FORM)


# From the recursions written out: 100 blocks of variance one, branches with C_b = 0 and C_W = 2 (tanh 1).
PRE_NORM = {
    "relu": (101.0, 101.0, 1.0),
    "gelu": (86.0443, 115.366, 1.07203),
    "tanh": (40.4294, 75.2290, 1.17781),
}


@pytest.mark.parametrize("name", PRE_NORM)
def test_many_normalised_blocks(name):
    dense = fw.Dense(8, 0.0, 1.0 if name == "tanh" else 2.0)
    block = fw.criticality(fw.Repeat(fw.Residual(fw.LayerNorm(), fw.Activate(name), dense), 100))
    assert_close([block.variance, block.gradient, block.p], PRE_NORM[name], 1e-5, elementwise=True)
    assert "variance growing about as depth^1.0" in block.growth
    assert block.beta == 0.1
    behind = fw.Sequential(fw.Residual(fw.Activate(name), dense), fw.LayerNorm())
    assert_close(fw.criticality(behind).C_b, block.C_b, CLOSED_FORM)
    # With the recommended bias the gradients of networks with norms behind their blocks are critical.
    mended = fw.Dense(8, block.C_b, float(dense.C_W))
    critical = fw.criticality(fw.Sequential(fw.Residual(fw.Activate(name), mended), fw.LayerNorm()))
    assert_close([critical.p, critical.perpendicular], [1.0, 1.0], CLOSED_FORM)
    assert critical.growth == "variance staying as it is; squared gradient staying as it is"


def test_growth_without_norms():
    words = {
        name: fw.criticality(residual(name, 0.0, 1.0 if name == "tanh" else 2.0)) for name in ("relu", "tanh")
    }
    assert words["relu"].growth.startswith("variance growing exponentially, by a factor 2 a block")
    assert words["tanh"].growth.endswith("growing faster than any power of depth, slower than exponentially")
    scaled = fw.criticality(fw.Repeat(residual("relu", 0.0, 2.0, beta=0.1), 100))
    assert_close([scaled.variance, scaled.gradient], [1.01**100] * 2, CLOSED_FORM)


def test_phases_of_a_block_are_those_of_its_layer_with_longer_lengths():
    C_W, C_b = np.array([0.5, 1.0, 3.0]), np.array([0.0, 0.1])
    block = fw.phase_diagram(residual("tanh", alpha=0.8, beta=0.6), C_W, C_b)
    plain = fw.phase_diagram("tanh", C_W, C_b)
    assert_close(block.K_star, plain.K_star, 1e-8)
    assert_close(block.chi_perpendicular, 0.64 + 0.36 * plain.chi_perpendicular, 1e-6)
    assert block.phase.tolist() == plain.phase.tolist()
    growing = fw.phase_diagram(residual("relu"), np.array([1.0]), np.array([0.1]))
    assert np.isinf(growing.K_star).all()


def test_wrong_calls():
    with pytest.raises(ValueError, match=r"C_W = 1\.0 was given beside a block of layers"):
        fw.susceptibilities(residual(), 1.0, 1.0)
    with pytest.raises(ValueError, match="need C_W"):
        fw.susceptibilities("tanh", 1.0)
    with pytest.raises(ValueError, match="a block without an activation has no phase diagram"):
        fw.phase_diagram(fw.Dense(8, 0.1, 1.0))
    with pytest.raises(ValueError, match="a Residual adds branches"):
        fw.criticality(fw.Residual(fw.Activate("tanh")))
