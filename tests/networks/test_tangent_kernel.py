import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from dense_derivatives import flatten, jacobian
from finitewidth.networks.models import as_model
from finitewidth.networks.tangent import tangent_kernel
from finitewidth.networks.tangent.jacobians import bytes_per_point
from finitewidth.networks.tangent.jacobians import jacobian as jacobian_of
from tolerances import assert_close


def brute_force_kernel(net, params, x1, x2):
    flat = flatten(net, params)
    return jnp.einsum("aip,p,bjp->ijab", jacobian(flat, x1), flat.rates, jacobian(flat, x2))


@pytest.mark.parametrize(
    ("activation", "parametrisation"),
    [("tanh", "ntk"), ("relu", "standard"), ("gelu", "mean-field"), ("sin", "mup")],
)
def test_layer_grams_are_products_of_jacobians(activation, parametrisation, inputs):
    net = fw.MLP(
        hidden=(4, 6, 5), activation=activation, C_b=0.2, C_W=1.3, lambda_b=[0.3, 0.5, 0.7, 0.2],
        lambda_W=[1.0, 2.0, 0.5, 0.9], n_out=2, parametrisation=parametrisation,
    )  # fmt: skip
    params = net.init(jax.random.key(0), 3)
    assert_close(
        fw.empirical_ntk(net, params, inputs[2], inputs[1]),
        brute_force_kernel(net, params, *inputs[2:0:-1]),
        1e-12,
    )
    assert_close(
        fw.empirical_ntk(net, params, inputs[2]), brute_force_kernel(net, params, inputs[2], inputs[2]), 1e-12
    )


def test_a_large_set_with_itself_is_exactly_symmetric(net, params):
    x = jax.random.normal(jax.random.key(8), (301, 3))
    kernel = fw.empirical_ntk(net, params, x)
    assert np.array_equal(kernel, kernel.transpose(1, 0, 3, 2))
    assert_close(kernel, fw.empirical_ntk(net, params, x, x))


def test_a_linear_model_has_the_gram_matrix_of_its_inputs(key, inputs):
    net = fw.MLP(hidden=(), activation="linear", lambda_b=0.4, lambda_W=1.5)
    x = inputs[2]
    assert_close(fw.empirical_ntk(net, net.init(key, 3), x)[0, 0], 0.4 + 1.5 * x @ x.T / 3)


def test_blocked_jacobians_agree_with_layer_grams_at_any_memory_limit(net, params, inputs):
    rates = net.learning_rates(3)
    expected = fw.empirical_ntk(net, params, inputs[2], inputs[1])
    for limit in (2**30, 9000, 4000):
        assert_close(
            fw.empirical_ntk(net.apply, params, inputs[2], inputs[1], rates=rates, memory_limit=limit),
            expected,
        )
        assert_close(fw.empirical_ntk(net, params, inputs[2], inputs[1], memory_limit=limit), expected)
    symmetric = fw.empirical_ntk(net, params, inputs[2])
    assert_close(fw.empirical_ntk(net, params, inputs[2], memory_limit=900), symmetric)


def test_blocks_of_points_cover_all_points_within_the_limit(net, params):
    side = tangent_kernel.Side(params, jnp.arange(1200.0).reshape(400, 3))
    model = as_model(net.apply)
    limit = 9 * bytes_per_point(model, params, side.x)
    held = tangent_kernel._points_held(model, False, side, limit)
    pieces = tangent_kernel._split(side, held)
    assert held == 9
    assert max(len(piece.x) for piece in pieces) <= held
    assert_close(jnp.concatenate([piece.x for piece in pieces]), side.x, 0.0)


def test_memory_of_a_block_is_what_the_compiler_needs(net, params):
    """Ten points: outputs and temporaries of the compiled Jacobian stay within ten points' share."""
    model, x = as_model(net.apply), jnp.ones((10, 3))
    memory = jax.jit(lambda p, x: jacobian_of(model, p, x)).lower(params, x).compile().memory_analysis()
    assert memory.output_size_in_bytes + memory.temp_size_in_bytes <= 10 * bytes_per_point(model, params, x)


def test_parts_of_the_kernel_are_the_groups_of_parameters(net, params, inputs):
    parts = fw.empirical_ntk_by_group(net, params, inputs[2], inputs[1])
    for l, layer in enumerate(parts):
        for name in ("weight", "bias"):
            only = jax.tree.map(jnp.zeros_like, net.learning_rates(3))
            only = list(only)
            only[l] = only[l]._replace(**{name: getattr(net.learning_rates(3)[l], name)})
            expected = fw.empirical_ntk(net.apply, params, inputs[2], inputs[1], rates=tuple(only))
            assert_close(getattr(layer, name), expected)
    assert_close(sum(jax.tree.leaves(parts)), fw.empirical_ntk(net, params, inputs[2], inputs[1]))


def test_a_rate_for_every_single_weight(net, params, inputs):
    rates = jax.tree.map(lambda leaf: jnp.arange(leaf.size).reshape(leaf.shape) + 1.0, params)
    flat = flatten(net, params)
    weights = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(rates)])
    j = jacobian(flat, inputs[2])
    assert_close(
        fw.empirical_ntk(net, params, inputs[2], rates=rates), jnp.einsum("aip,p,bjp->ijab", j, weights, j)
    )


def test_a_flax_model(inputs):
    class Convolutional(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(3, (2, 2))(x))
            return nn.Dense(2)(x.reshape(x.shape[0], -1))

    x = jax.random.normal(jax.random.key(0), (5, 3, 3, 1))
    model = Convolutional()
    variables = model.init(jax.random.key(1), x)
    theta, unravel = jax.flatten_util.ravel_pytree(variables)
    j = jax.jacfwd(lambda t: model.apply(unravel(t), x))(theta)
    expected = jnp.einsum("aip,bjp->ijab", j, j)
    assert_close(fw.empirical_ntk(model.apply, variables, x), expected)
    assert_close(fw.empirical_ntk(model.apply, variables, x, memory_limit=4 * 10**4), expected)


def test_an_equinox_model(inputs):
    model = eqx.nn.MLP(3, 2, 6, 2, activation=jnp.tanh, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)

    def apply(params, x):
        return jax.vmap(eqx.combine(params, static))(x)

    theta, unravel = jax.flatten_util.ravel_pytree(params)
    j = jax.jacfwd(lambda t: apply(unravel(t), inputs[2]))(theta)
    assert_close(fw.empirical_ntk(apply, params, inputs[2]), jnp.einsum("aip,bjp->ijab", j, j))


def test_a_function_with_one_number_per_point(inputs):
    x = inputs[2]
    kernel = fw.empirical_ntk(lambda w, x: jnp.tanh(x @ w), jnp.ones(3), x)
    slope = 1 - jnp.tanh(x.sum(1)) ** 2
    assert_close(kernel[0, 0], jnp.outer(slope, slope) * (x @ x.T))


def test_distance_from_the_infinite_width_kernel_falls_as_the_root_of_width():
    x = jax.random.normal(jax.random.key(4), (4, 3))
    widths = np.array([32, 128, 512])
    distances = []
    for n in widths:
        net = fw.MLP(hidden=(int(n),) * 2, activation="tanh", C_b=0.1, C_W=1.2)
        limit = fw.kernels(net, x).ntk
        one = jax.jit(jax.vmap(lambda key, net=net: fw.empirical_ntk(net, net.init(key, 3), x)[0, 0]))
        drawn = one(jax.random.split(jax.random.key(6), 64))
        distances.append(float(jnp.sqrt(jnp.mean((drawn - limit) ** 2))))
    assert abs(np.polyfit(np.log(widths), np.log(distances), 1)[0] + 0.5) < 0.1


def test_bad_input_gets_one_sentence(net, params, inputs):
    x = inputs[0]
    with pytest.raises(ValueError, match=r"x1 has points of shape \(3,\) and x2 of \(2,\)"):
        fw.empirical_ntk(net, params, x, x[:, :2])
    with pytest.raises(
        ValueError, match="memory_limit=10 bytes is too small: the gradients of two inputs take"
    ):
        fw.empirical_ntk(net.apply, params, x, memory_limit=10)
    with pytest.raises(ValueError, match=r"params\[0\].weight has shape \(4, 3\)"):
        fw.empirical_ntk(net, params, jnp.ones((2, 7)))
    with pytest.raises(ValueError, match="does not fit params"):
        fw.empirical_ntk(net, params, x, rates=(1.0, 2.0))
    with pytest.raises(ValueError, match="x1 holds NaN"):
        fw.empirical_ntk(net, params, x * jnp.nan)
    with pytest.raises(ValueError, match="its first axis must be the inputs"):
        fw.empirical_ntk(lambda w, x: jnp.sum(x @ w), jnp.ones(3), x)
