"""Real networks with residual blocks, norms and branches: rates, plain data, files, wrong input."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tolerances import assert_close

import finitewidth as fw

GELU = fw.Activate("gelu")


def everything(width: int = 6) -> fw.Sequential:
    """Every layer at least once."""
    dense = fw.Dense(width, 0.1, 1.3, 0.7, 1.1)
    return fw.Sequential(
        dense,
        fw.Repeat(fw.Residual(fw.LayerNorm(0.3, 0.2), dense, GELU, dense, alpha=0.9, beta=0.5), 2),
        fw.Residual(GELU, dense, shortcut=[dense, fw.Scale(0.5)]),
        fw.Sum(dense, [GELU, dense]),
        fw.Product([dense], [dense, GELU]),
        fw.RMSNorm(epsilon=1e-3),
        fw.Concat([dense], [fw.Dense(2 * width, 0.1, 1.0), GELU]),
        fw.Dropout(0.8),
        fw.Dense(1, 0.1, 1.0),
        parametrisation="mup:4",
    )


@pytest.fixture(scope="module")
def x():
    return jax.random.normal(jax.random.key(3), (4, 3))


def test_outputs_are_what_the_words_say(x):
    dense = fw.Dense(5, 0.2, 1.0)
    block = fw.Residual(GELU, dense, alpha=0.9, beta=0.4)
    params, z = block.init(jax.random.key(0), 5), jax.random.normal(jax.random.key(1), (4, 5))
    branch = dense.apply(params.body[1], GELU.apply((), z))
    assert_close(block.apply(params, z), 0.9 * z + 0.4 * branch)
    norm = fw.LayerNorm(1.0, 1.0)
    gain, shift = jnp.arange(1.0, 6.0), jnp.arange(5.0)
    centred = np.asarray(z) - np.asarray(z).mean(axis=1, keepdims=True)
    expected = gain * centred / np.asarray(z).std(axis=1, keepdims=True) + shift
    assert_close(
        norm.apply(norm.init(jax.random.key(0), 5)._replace(gain=gain, shift=shift), z), expected, 1e-10
    )
    rms = fw.RMSNorm(epsilon=0.0)
    assert_close(jnp.mean(rms.apply(rms.init(jax.random.key(0), 5), z) ** 2, axis=1), jnp.ones(4))
    for kind, join in ((fw.Sum, jnp.add), (fw.Product, jnp.multiply)):
        both = kind([GELU], [fw.Scale(3.0)])
        assert_close(both.apply(((), ()), z), join(GELU.apply((), z), 3 * z))
    assert_close(fw.Concat([], fw.Scale(2.0)).apply(((), ()), z), jnp.concatenate([z, 2 * z], axis=1))


def test_dropout_keeps_the_mean_and_draws_for_every_input():
    z = jnp.ones((400, 50))
    found = fw.Dropout(0.8).training_pass((), z, jax.random.key(0))
    assert set(np.unique(found)) == {0.0, 1.25}
    assert abs(float(found.mean()) - 1) < 4.5 * np.sqrt(0.25 / z.size)
    assert not jnp.array_equal(found[0], found[1])
    net = everything()
    params, x = net.init(jax.random.key(0), 3), jnp.ones((2, 3))
    assert not jnp.allclose(*(net.training_pass(params, x, jax.random.key(s)) for s in (0, 1)))


@pytest.mark.parametrize("geometry", ["gradient", "entrywise", "spectral"])
@pytest.mark.parametrize("parametrisation", ["ntk", "standard", "mean-field", "mup:4"])
def test_rates_and_variances_inside_a_block_are_those_of_the_layer_outside(parametrisation, geometry):
    dense, body = fw.Dense(6, 0.1, 1.3, 0.7, 1.1), (GELU, fw.Dense(6, 0.2, 1.5, 0.3, 0.9))
    inside = fw.Sequential(dense, fw.Residual(*body), GELU, fw.Dense(1), parametrisation=parametrisation)
    outside = fw.Sequential(dense, *body, GELU, fw.Dense(1), parametrisation=parametrisation)
    found, expected = (net.learning_rates(3, geometry) for net in (inside, outside))
    assert_close(jnp.array(jax.tree.leaves(found)), jnp.array(jax.tree.leaves(expected)))
    weights = [net.init(jax.random.key(0), 3)[i] for net, i in ((inside, 1), (outside, 2))]
    assert weights[0].body[1].weight.shape == weights[1].weight.shape


def test_gain_and_shift_have_the_rates_of_biases():
    net = fw.Sequential(fw.Dense(8), fw.LayerNorm(0.5, 0.25), GELU, fw.Dense(1), parametrisation="mup:4")
    rates = net.learning_rates(3)
    assert_close(np.array(rates[1]), np.array([0.5, 0.25]) * float(rates[0].bias))


def test_the_tangent_kernel_is_the_sum_over_the_parameters(x):
    net = everything()
    params = net.init(jax.random.key(0), 3)
    jacobian = jax.jacobian(lambda p: net.apply(p, x)[:, 0])(params)
    rates = jax.tree.broadcast(net.learning_rates(3), params)
    parts = jax.tree.map(lambda rate, j: rate * (j.reshape(4, -1) @ j.reshape(4, -1).T), rates, jacobian)
    assert_close(fw.empirical_ntk(net, params, x)[0, 0], sum(jax.tree.leaves(parts)))


def test_plain_data_and_files_hold_the_whole_network(tmp_path):
    net = everything()
    again = fw.network(json.loads(json.dumps(net.spec)), parametrisation=net.parametrisation)
    assert eqx.tree_equal(again, net)
    net.save(tmp_path / "net.npz")
    assert eqx.tree_equal(fw.load(tmp_path / "net.npz"), net)
    (tmp_path / "net.json").write_text(json.dumps({"parametrisation": "mup:4", "layers": net.spec}))
    assert eqx.tree_equal(fw.network(tmp_path / "net.json"), net)
    mlp = fw.MLP((7, 5), "tanh", n_out=2)
    assert eqx.tree_equal(fw.network(mlp.spec), fw.Sequential(*mlp.parts()))


def test_variances_and_rates_that_are_left_out():
    net = fw.network([{"layer": "Dense", "C_W": 2.0, "C_b": 0.3}, {"layer": "Dense"}], width=7, n_out=3)
    assert [layer.width for layer in net.layers] == [7, 3]
    assert [float(a) for a in net.layers[0].hyperparameters] == [0.3, 2.0, 0.3, 2.0]
    assert [float(a) for a in net.layers[1].hyperparameters] == [0.0, 1.0, 1.0, 1.0]
    relu, normed = (fw.Residual(*before, GELU, fw.Dense(4)).body[-1] for before in ((), (fw.LayerNorm(),)))
    assert float(relu.C_b) == 0.0
    # C_W (h - g) with g = <s^2> and h = <s'^2> of GELU at variance one.
    assert_close(normed.C_b / normed.C_W, 0.0306293831, 1e-8)


def test_predicted_trained_and_verified(x):
    net = fw.ResidualMLP(blocks=4, width=128, activation="tanh", norm=fw.LayerNorm())
    y = jnp.sin(x[:3, :1])
    law = fw.predict(net, x[:3], y, x[3:], fw.GradientDescent(0.05, 60))
    assert fw.verify(law, networks=40).agrees
    with pytest.raises(
        ValueError, match=r"the network is Dense Residual Residual Residual Residual LayerNorm"
    ):
        fw.predict(net, x[:3], y, x[3:], order=1)
    fitted = fw.estimators.NTKRegressor(net=net.spec, ridge=0.1).fit(np.asarray(x[:3]), np.asarray(y[:, 0]))
    same = fw.predict(net, x[:3], y, x[3:], ridge=0.1)
    assert_close(fitted.predict(np.asarray(x[3:])), same.mean[:, 0], 1e-9)
    assert fw.trajectory(net, x).nngp.shape == (6, 4)


@pytest.mark.usefixtures("unchecked_annotations")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fw.Residual(), "Residual needs at least one layer"),
        (lambda: fw.Residual(GELU, beta="a"), "beta must be a finite number, got 'a'"),
        (lambda: fw.Sum(), "Sum needs at least one branch"),
        (lambda: fw.Sum("relu"), "Sum takes layers or lists of layers; branch 0 is 'relu'"),
        (lambda: fw.Dropout(0.0), "keep is a probability above zero"),
        (lambda: fw.LayerNorm(epsilon=-1.0), "epsilon must be zero or positive"),
        (
            lambda: (
                fw.Residual(GELU, fw.Dense(3)).init(jax.random.key(0), 4)
                and fw.Residual(fw.Dense(3)).leaving((4,))
            ),
            r"body of a Residual turns inputs of shape \(4,\) into \(3,\) and its shortcut into \(4,\)",
        ),
        (lambda: fw.Sum(fw.Dense(3), fw.Dense(4)).leaving((2,)), r"branches of a Sum .* into \(3,\), \(4,\)"),
        (
            lambda: fw.Concat([], []).leaving((2, 3)) and fw.network(3),
            "the spec must be a list of layers, got 3",
        ),
        (
            lambda: fw.network([{"layer": "Dens"}]),
            "layer 0 is called 'Dens'. Known: Activation, .*Dense",
        ),
        (lambda: fw.network([{"layer": "Scale"}]), r"layer 0 \(Scale\) needs factor, a number"),
        (
            lambda: fw.network([{"layer": "Dropout", "keep": 2}]),
            r"layer 0 \(Dropout\): keep is a probability",
        ),
        (
            lambda: fw.network([{"layer": "LayerNorm", "gain": 1}]),
            r"layer 0 \(LayerNorm\) has no setting 'gain'",
        ),
        (
            lambda: fw.network([{"layer": "Residual", "body": [{"layer": "Activation", "name": 3}]}]),
            r"layer 0 \(Residual\), body, layer 0 \(Activation\) needs name, a word, got 3",
        ),
        (lambda: fw.network({"layers": [], "depth": 3}), "a network has no setting 'depth'"),
        (lambda: fw.network("net.yaml"), r"read from a \.toml or \.json file, got net\.yaml"),
    ],
)
def test_wrong_input(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_dropout_is_not_trained_or_predicted_silently(x):
    net = fw.Sequential(fw.Dense(4), GELU, fw.Dropout(0.5), fw.Dense(1))
    with pytest.raises(
        ValueError, match="masks drawn in every step is not known, and the network has Dropout"
    ):
        fw.predict(net, x[:3], x[:3, :1], x[3:])
    with pytest.raises(ValueError, match="training draws no masks, and the network has Dropout"):
        fw.train(net, net.init(jax.random.key(0), 3), x, x[:, :1], steps=1, learning_rate=0.1)


def test_one_number_in_place_of_a_list_of_channels_gets_a_sentence(unchecked_annotations):
    for build in (fw.ResNet, fw.ConvNet):
        with pytest.raises(TypeError, match="channels must be a list of positive whole numbers, got 8"):
            build(8)


def test_order_one_is_refused_by_name_before_any_kernel(rng):
    x = rng.normal(size=(3, 2))
    with pytest.raises(ValueError, match=r"^order=1 is known for dense layers with an activation between"):
        fw.predict(fw.ResidualMLP(2, 8, "tanh"), x, x[:, :1], x, order=1)


def test_training_on_images_without_flatten_names_the_remedy(rng):
    net = fw.Sequential(fw.Dense(4), fw.Activate("relu"), fw.Dense(1))
    images, labels = rng.normal(size=(3, 5, 5, 2)), rng.normal(size=(3, 1))
    with pytest.raises(ValueError, match=r"turns them into \(5, 5, 1\), outputs at every position: put Flat"):
        fw.train_ensemble(net, jax.random.key(0), 2, images, labels, steps=1, learning_rate=0.1)
