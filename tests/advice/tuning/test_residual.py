"""Advice for residual networks: against kernels, and the code it hands out is run."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import finitewidth as fw
from finitewidth.architecture.networks import parametrisation_of
from tolerances import SERIES, assert_close

NORMS = ("none", "pre", "post")


def run(code: str) -> dict:
    namespace: dict = {}
    exec(compile(code, "snippet", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("norm", NORMS)
def test_signals_are_those_of_the_kernels(norm):
    """The last variance, and the first gradient: the NTK of a network whose first layer alone learns."""
    advice = fw.tune_residual("gelu", 5, 16, norm=norm, branch_scale=0.7)
    signal = advice.signals["recommended"]
    body = fw.Sequential(*advice.net.layers[:2])
    x = np.ones((1, 1))
    assert_close(signal.variance[-1:], np.diag(fw.kernels(body, x).nngp), SERIES)
    top = (fw.LayerNorm(),) if norm == "pre" else ()
    repeat = advice.net.layers[1]
    still = jax.tree_util.tree_map_with_path(
        lambda path, leaf: 0 * leaf if "lambda" in jax.tree_util.keystr(path) else leaf, repeat
    )
    moving = fw.Sequential(fw.Dense(16, 0.0, 1.0, 0.5, 0.5), still, *top, fw.Scale(1.0))
    assert_close(signal.gradient[0], fw.kernels(moving, x).ntk[0, 0], SERIES)
    assert_close(advice.eta_max, 2 / fw.kernels(advice.net, x).ntk[0, 0], SERIES)


def test_a_smaller_readout_shrinks_the_outputs_and_the_step_follows(rng):
    """Outputs have a quarter of the variance, in the network and in the program."""
    x = rng.normal(size=(4, 3))
    whole, half = (fw.tune_residual("gelu", 3, 8, x, norm="pre", readout_scale=s) for s in (1.0, 0.5))
    kernels = fw.kernels(half.net, x)
    assert_close(kernels.nngp, fw.kernels(whole.net, x).nngp / 4, SERIES)
    assert_close(half.eta_max, 2 / np.linalg.eigvalsh(kernels.ntk)[-1], SERIES)
    assert run(half.code())["C_W_last"] == pytest.approx(run(whole.code())["C_W_last"] / 4)


def test_defaults_explode_and_the_advice_does_not():
    advice = fw.tune_residual("relu", 100, 128)
    assert advice.branch_scale == 0.1
    assert advice.signals["recommended"].variance[-1] < 3
    assert advice.signals["Flax nn.Dense"].variance[-1] == pytest.approx(1.5**100, rel=1e-6)
    assert "would grow by 2 in every block" in advice.reasons["branch scale"]
    # 15.7 units of V/K^2 at 64 blocks, 15.8 at 100, over the width.
    assert advice.depth.signal == pytest.approx(15.8 / 128, rel=0.01)


def test_room_for_depth_is_where_the_fluctuations_reach_their_limit():
    """With branches of scale one the next block is one too many; with 1/sqrt(blocks) none ever is."""

    def largest(blocks, beta):
        t = fw.corrections(fw.ResidualMLP(blocks, 128, "relu", beta=beta), [[1.0]])
        return max(t.V.item() / t.K.item() ** 2 / 128, t.ntk_variance.item() / t.Theta.item() ** 2)

    found = fw.tune_residual("relu", 100, 128).depth
    assert found.most_blocks == np.inf
    assert found.to_dict()["most_blocks"] is None
    most = int(found.most_blocks_of_scale_one)
    assert largest(most, 1.0) <= 0.2 < largest(most + 1, 1.0)
    assert fw.tune_residual("relu", 100, found.least_width).depth.signal <= 0.2
    assert fw.tune_residual("relu", 100, found.least_width - 1).depth.signal > 0.2
    fixed = fw.tune_residual("relu", 4, 128, branch_scale=0.5).depth
    assert largest(int(fixed.most_blocks), 0.5) <= 0.2 < largest(int(fixed.most_blocks) + 1, 0.5)


def test_room_beyond_the_deepest_network_is_extrapolated():
    deep = fw.tune_residual("relu", 2, 2000, branch_scale=1.0).depth
    t = fw.corrections(fw.ResidualMLP(int(deep.most_blocks), 2000, "relu", beta=1.0), [[1.0]])
    assert t.V.item() / t.K.item() ** 2 / 2000 == pytest.approx(0.2, rel=0.03)
    # V/K^2 tends to 15.92: at a width of 79 the limit is reached between 64 blocks and infinity.
    between = fw.tune_residual("relu", 2, 79).depth
    t = fw.corrections(fw.ResidualMLP(int(between.most_blocks), 79, "relu"), [[1.0]])
    assert t.V.item() / t.K.item() ** 2 / 79 == pytest.approx(0.2, rel=0.001)


@pytest.mark.parametrize(
    ("width", "branch_scale", "words"),
    [
        (128, None, "wide: .* any number of blocks keeps it so, with branches of scale one 4 blocks"),
        (128, 0.5, "wide: .* at this width up to .* blocks keep it so"),
        (40, None, "visible: .*; take a width of 7. rather than fewer blocks"),
        (8, None, "too narrow: two draws differ by order one; take a width of 7. rather"),
    ],
)
def test_the_verdict_says_what_to_do(width, branch_scale, words):
    advice = fw.tune_residual("relu", 8, width, branch_scale=branch_scale)
    assert re.match(words, advice.verdict), advice.verdict


def test_real_networks_vary_as_much_as_the_advice_says():
    """Tangent kernels of 600 networks; the next order is (coefficient / width)^2."""
    advice = fw.tune_residual("tanh", 6, 64)
    found = fw.monte_carlo_kernels(advice.net, np.ones((1, 4)), key=jax.random.key(0), draws=600, at_once=100)
    measured = 600 * found.ntk.sem.item() ** 2 / found.ntk.value.item() ** 2
    assert measured == pytest.approx(advice.depth.ntk, rel=0.25)
    assert fw.tune_residual("tanh", 6, 64, norm="pre").depth is None


@pytest.mark.parametrize("norm", NORMS)
def test_pytorch_and_flax_are_the_recommended_network(norm, rng):
    advice = fw.tune_residual("tanh", 3, 6, norm=norm, n_in=4, n_out=2)
    x = rng.normal(size=(5, 4))
    torch.manual_seed(0)
    model = run(advice.code("pytorch"))["model"].double()
    space = run(advice.code("flax"))
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    arrays = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in linear]
    names = ["first", "block_0", "block_1", "block_2", "last"]
    tree = {}
    for name, (weight, bias) in zip(names, arrays, strict=True):
        leaf = {"kernel": jnp.asarray(weight.T), "bias": jnp.asarray(bias)}
        tree[name] = leaf if name in ("first", "last") else {"linear": leaf}
    stacked = lambda i: jnp.stack([jnp.asarray(arrays[j][i]) for j in (1, 2, 3)])
    params = jax.tree.unflatten(
        jax.tree.structure(advice.net.init(jax.random.key(0), 4)),
        [*map(jnp.asarray, arrays[0]), stacked(0), stacked(1), *map(jnp.asarray, arrays[4])],
    )
    ours = advice.net.apply(params, jnp.asarray(x))
    assert_close(model(torch.as_tensor(x)).detach().numpy(), ours, 1e-9)
    assert_close(space["model"].apply({"params": tree}, jnp.asarray(x)), ours, 1e-9)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "muon"])
@pytest.mark.parametrize("scaling", ["standard", "mup"])
def test_every_program_trains(optimizer, scaling, rng):
    """Ten steps of each optimiser and scaling, lower the loss."""
    x, y = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")
    advice = fw.tune_residual("gelu", 4, 64, x, norm="pre")
    code = run(advice.code("pytorch", optimizer, scaling, base_width=32))
    loss = lambda: 0.5 * ((code["model"](torch.tensor(x)) - torch.tensor(y)) ** 2).sum()
    before = loss().item()
    for _ in range(10):
        for method in code["optimizers"]:
            method.zero_grad()
        loss().backward()
        for method in code["optimizers"]:
            method.step()
    assert loss().item() < before


def test_the_optax_program_steps_by_its_groups(rng):
    advice = fw.tune_residual("gelu", 2, 8, n_in=4)
    code = run(advice.code("flax", learning_rate=0.5))
    params = code["model"].init(jax.random.key(0), jnp.ones((1, 4)))["params"]
    gradient = jax.tree.map(jnp.ones_like, params)
    step, _ = code["optimizer"].update(gradient, code["optimizer"].init(params), params)
    rates = advice.rates(learning_rate=0.5)
    assert_close(step["first"]["kernel"], jnp.full((4, 8), -0.5 / 4), 1e-5)
    assert_close(step["block_1"]["linear"]["kernel"], jnp.full((8, 8), -rates["block weights"]), 1e-5)
    assert_close(step["last"]["bias"], jnp.full((1,), -0.5), 1e-5)
    for other in ("adam", "muon"):
        made = run(advice.code("flax", other))
        step, _ = made["optimizer"].update(gradient, made["optimizer"].init(params), params)
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(step))


def test_rates_of_the_network_itself_for_gradient_steps():
    advice = fw.tune_residual("gelu", 4, 16, n_in=5)
    own, rates = advice.net.learning_rates(5), advice.rates(learning_rate=1.0)
    first, last = own[0], own[-1]
    assert_close(rates["first weights"], first.weight)
    assert_close(rates["block weights"], own[1].body[-1].weight)
    assert_close(rates["last weights"], last.weight)
    assert parametrisation_of(advice.net).name == "ntk"


def test_maximal_update_scales_by_width_and_depth():
    """Twice the base width and four times the base depth, worked out by hand."""
    advice = fw.tune_residual("gelu", 8, 32, n_in=5)
    adam = advice.rates("adam", "mup", learning_rate=0.1, base_width=16, base_blocks=2)
    assert adam == pytest.approx(
        {"first weights": 0.1, "block weights": 0.025, "last weights": 0.05, "hidden biases": 0.1,
         "last bias": 0.1}
    )  # fmt: skip
    sgd = advice.rates("sgd", "mup", learning_rate=1.0, base_width=16, base_blocks=2)
    assert sgd == pytest.approx(
        {"first weights": 2 / 5, "block weights": 1 / 16, "last weights": 1 / 32, "hidden biases": 2.0,
         "last bias": 1.0}
    )  # fmt: skip
    assert "C_b, C_W, C_W_last = 0, 1.983058257, 0.9915291287" in advice.code(scaling="mup", base_width=16)


def test_wrong_arguments_get_a_sentence(unchecked_annotations):
    with pytest.raises(ValueError, match="norm must be one of none, pre, post, got 'batch'"):
        fw.tune_residual("relu", 4, 8, norm="batch")
    with pytest.raises(ValueError, match="blocks must be a whole number of at least 1, got 0"):
        fw.tune_residual("relu", 0, 8)
    advice = fw.tune_residual("relu", 2, 8)
    with pytest.raises(ValueError, match="optimizer must be one of sgd, adam, muon, got 'lion'"):
        advice.rates("lion")
    with pytest.raises(ValueError, match="framework must be one of pytorch, flax, got 'keras'"):
        advice.code("keras")
