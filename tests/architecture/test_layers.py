"""Networks put together from layers, against `MLP`, and the parameters they refuse."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tolerances import assert_close

import finitewidth as fw
from finitewidth.architecture.networks import settings_of


def stack(parametrisation: str = "ntk") -> fw.Sequential:
    """Three dense layers with hyperparameters that all differ."""
    return fw.Sequential(
        fw.Dense(7, 0.1, 1.5, 0.7, 1.1),
        fw.Activate("tanh"),
        fw.Dense(5, 0.2, 1.2, 0.3, 0.9),
        fw.Activate("tanh"),
        fw.Dense(2, 0.3, 1.7, 0.5, 1.3),
        parametrisation=parametrisation,
    )


def as_mlp(parametrisation: str = "ntk") -> fw.MLP:
    return fw.MLP(
        (7, 5), "tanh", (0.1, 0.2, 0.3), (1.5, 1.2, 1.7), (0.7, 0.3, 0.5), (1.1, 0.9, 1.3), 2, parametrisation
    )


def repeated(times: int = 3) -> fw.Sequential:
    block = fw.Sequential(fw.Activate("gelu"), fw.Dense(6, 0.1, 1.8))
    return fw.Sequential(
        fw.Dense(6, 0.1, 1.8), fw.Repeat(block, times), fw.Activate("gelu"), fw.Dense(1, 0.1, 1.8)
    )


@pytest.fixture(scope="module")
def x():
    return jax.random.normal(jax.random.key(3), (4, 3))


@pytest.mark.parametrize("parametrisation", ["ntk", "standard", "mean-field", "mup:4"])
def test_a_stack_of_layers_is_the_mlp_of_the_same_numbers(parametrisation, x):
    layers, mlp = stack(parametrisation), as_mlp(parametrisation)
    drawn, own = layers.init(jax.random.key(0), 3), mlp.init(jax.random.key(0), 3)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, [drawn[0], drawn[2], drawn[4]], list(own)))
    assert_close(layers.apply(drawn, x), mlp.apply(own, x))
    for geometry in ("gradient", "entrywise", "spectral"):
        rates, expected = layers.learning_rates(3, geometry), mlp.learning_rates(3, geometry)
        assert_close(jnp.array(jax.tree.leaves(rates)), jnp.array(jax.tree.leaves(expected)))


def test_kernels_trajectory_and_corrections_of_layers_and_of_the_mlp_agree(x):
    for ours, theirs in zip(fw.kernels(stack(), x), fw.kernels(as_mlp(), x), strict=True):
        assert_close(ours, theirs)
    for ours, theirs in zip(fw.trajectory(stack(), x), fw.trajectory(as_mlp(), x), strict=True):
        assert_close(ours, theirs)
    assert_close(fw.corrections(stack(), x[:1]).V, fw.corrections(as_mlp(), x[:1]).V)
    assert_close(fw.depth_growth(stack(), 1.0).A, fw.depth_growth(as_mlp(), 1.0).A)


def test_repeat_is_the_same_layer_written_out(x):
    block = (fw.Activate("gelu"), fw.Dense(6, 0.1, 1.8))
    written = fw.Sequential(
        fw.Dense(6, 0.1, 1.8), *block, *block, *block, fw.Activate("gelu"), fw.Dense(1, 0.1, 1.8)
    )
    for ours, theirs in zip(fw.kernels(repeated(), x), fw.kernels(written, x), strict=True):
        assert_close(ours, theirs)
    params = repeated().init(jax.random.key(0), 3)
    repeats = [jax.tree.map(lambda a, t=t: a[t], params[1]) for t in range(3)]
    unrolled = (params[0], *(part for own in repeats for part in own), *params[2:])
    assert_close(repeated().apply(params, x), written.apply(unrolled, x))
    assert not jnp.array_equal(repeats[0][1].weight, repeats[1][1].weight)


def test_the_tangent_kernel_of_layers_is_the_sum_over_their_parameters(x):
    net = repeated()
    params = net.init(jax.random.key(0), 3)
    jacobian = jax.jacobian(lambda p: net.apply(p, x)[:, 0])(params)
    rates = jax.tree.broadcast(net.learning_rates(3), params)
    parts = jax.tree.map(lambda rate, j: rate * (j.reshape(4, -1) @ j.reshape(4, -1).T), rates, jacobian)
    assert_close(fw.empirical_ntk(net, params, x)[0, 0], sum(jax.tree.leaves(parts)))
    groups = fw.empirical_ntk_by_group(net, params, x)
    assert jax.tree.structure(groups) == jax.tree.structure(params)
    jax.tree.map(lambda ours, part: assert_close(ours[0, 0], part), groups, parts)


def test_a_dense_layer_takes_the_critical_point_of_its_neighbour():
    net = fw.Sequential(fw.Dense(8), fw.Activate("relu"), fw.Dense(1))
    assert [float(net.layers[i].C_W) for i in (0, 2)] == [2.0, 2.0]
    given = fw.Sequential(fw.Dense(8), fw.Activate("relu"), fw.Dense(1, 0.5, 1.0))
    assert float(given.layers[2].C_W) == 1.0
    alone = fw.Dense(8)
    assert alone.hyperparameters.C_W == 1.0


def test_settings_tell_networks_apart_by_their_last_digit():
    settings = [
        json.dumps(settings_of(fw.Sequential(fw.Dense(3, 0.1, C_W)))) for C_W in (1.5, 1.5, 1.5 + 1e-15)
    ]
    assert settings[0] == settings[1] != settings[2]


def test_sequences_within_sequences_are_one_sequence(x):
    inner = fw.Sequential(fw.Activate("tanh"), fw.Dense(5, 0.2, 1.2, 0.3, 0.9))
    nested = fw.Sequential(*stack().layers[:1], inner, *stack().layers[3:])
    assert eqx.tree_equal(nested, stack())


def test_a_saved_network_comes_back_bit_by_bit(tmp_path):
    for net in (stack("mup:8"), repeated()):
        net.save(tmp_path / "net.npz")
        assert eqx.tree_equal(fw.load(tmp_path / "net.npz"), net)


@pytest.mark.usefixtures("unchecked_annotations")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fw.Sequential(fw.Dense(3), "relu"), "argument 1 is 'relu'"),
        (lambda: fw.Repeat("relu", 2), "Repeat takes a layer, got 'relu'"),
        (lambda: fw.Repeat(fw.Activate("relu"), 0), r"times must hold positive whole numbers, got \(0,\)"),
        (lambda: fw.Sequential(), "Sequential needs at least one layer"),
        (
            lambda: fw.Repeat(fw.Activate("relu"), 2.5),
            r"times must hold positive whole numbers, got \(2\.5,\)",
        ),
        (lambda: fw.Dense("a"), r"width must hold positive whole numbers, got \('a',\)"),
        (lambda: fw.Dense(True), r"width must hold positive whole numbers, got \(True,\)"),
        (lambda: fw.trajectory(fw.Scale(2.0), [[1.0]]), "no layer with parameters"),
        (lambda: fw.Dense(0), r"width must hold positive whole numbers, got \(0,\)"),
        (lambda: fw.Dense(4, C_W=1.0), "C_W was given without C_b"),
        (lambda: fw.Dense(4, (0.1, 0.2), 1.0), r"C_b has shape \(2,\); give one number"),
        (lambda: fw.Dense(4, 0.1, -1.0), "C_W must be finite and positive, got -1.0"),
        (lambda: fw.Repeat(fw.Dense(4), 2).leaving((3,)), r"turns inputs of shape \(3,\) into \(4,\)"),
    ],
)
def test_layers_that_cannot_be(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_parameters_of_another_network_are_refused(x):
    params = stack().init(jax.random.key(0), 3)
    with pytest.raises(ValueError, match=r"params has 2 entries; this network has 5 layers"):
        stack().apply(params[:2], x)
    with pytest.raises(
        ValueError, match=r"got inputs of shape \(2,\); its weight, \(7, 3\), takes 3 channels"
    ):
        stack().apply(params, x[:, :2])
    with pytest.raises(ValueError, match=r"this network with inputs of shape \(2,\) needs"):
        fw.empirical_ntk(stack(), params, x[:, :2])


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (fw.Sequential(fw.Dense(4), fw.Activate("tanh")), "the network is Dense Activate"),
        (fw.Sequential(fw.Dense(4), fw.Dense(1)), "the network is Dense Dense"),
        (
            fw.Sequential(fw.Dense(4), fw.Activate("tanh"), fw.Dense(4), fw.Activate("relu"), fw.Dense(1)),
            "one activation throughout; the network has relu, tanh",
        ),
    ],
)
def test_expansions_in_width_are_known_for_stacks_of_dense_layers_only(net, words, x):
    with pytest.raises(ValueError, match=words):
        fw.corrections(net, x[:1])


def test_two_activations_have_kernels_all_the_same():
    x = np.array([[1.0, 0.5]])
    net = fw.Sequential(
        fw.Dense(4, 0.1, 1.0),
        fw.Activate("erf"),
        fw.Dense(4, 0.2, 1.3),
        fw.Activate("relu"),
        fw.Dense(1, 0.0, 2.0),
    )
    K = 0.1 + 1.25 / 2
    K = 0.2 + 1.3 * 2 / np.pi * np.arcsin(2 * K / (1 + 2 * K))
    assert_close(fw.kernels(net, x).nngp, [[2.0 * K / 2]])
