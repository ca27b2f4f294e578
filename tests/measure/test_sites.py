"""What enters and leaves every layer, and what flows back to it, in every library.

A site is right when z = W x + b holds for what enters and leaves it, and when d(u.f)/dW = sum g x^T and
d(u.f)/db = sum g hold for what flows back: both sides of these come from different code.
"""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import finitewidth as fw
from finitewidth.measure.jax.sites import This, program
from finitewidth.measure.specimen import specimen
from layer_models import JAX, TORCH, jax_model, torch_model
from tolerances import ROUNDING, assert_close

VECTORS = np.random.default_rng(5).normal(size=(6, 4))
IMAGES = np.random.default_rng(6).normal(size=(6, 4, 4, 2))


def looked_at(measured):
    u = np.random.default_rng(7).normal(size=measured.outputs().shape).astype(measured.weights.dtype)
    return measured.look(u), measured.transposed_jacobian_product(u), u


def rows(array):
    return array.reshape(-1, array.shape[-1])


def check_sites(measured, *, outputs_first, tolerance=ROUNDING["float64"]):
    """Every site against its parameters and against the derivative by its parameters."""
    sites, slope, _ = looked_at(measured)
    by_weight: dict = {}
    by_bias: dict = {}
    for site in sites:
        x, g = site.entering, site.gradient
        assert site.leaving.shape == g.shape
        name = site.parameter
        place, shape = measured.groups[name]
        weight = measured.weights[place].reshape(shape)
        if site.kind == "embedding":
            np.add.at(by_weight.setdefault(name, np.zeros(shape)), x, g)
            assert_close(site.leaving, weight[x], tolerance)
            continue
        # One weight under two names has a bias under each.
        layer = {"first#3": "again"}.get(site.name, name.rpartition(".")[0])
        packed = name.endswith("in_proj_weight")
        bias_name = f"{layer}.in_proj_bias" if packed else f"{layer}.bias"
        by_bias.setdefault(bias_name, []).append(rows(g).sum(0))
        if site.kind == "convolution":
            continue
        if packed:
            part = ["query", "key", "value"].index(site.name.rpartition(".")[2])
            weight = np.split(weight, 3)[part]
        inwards = weight.T if outputs_first else weight.reshape(x.shape[-1], g.shape[-1])
        bias = 0.0
        if bias_name in measured.groups:
            bias = measured.weights[measured.groups[bias_name][0]]
            bias = np.split(bias, 3)[part] if packed else bias
        assert_close(rows(site.leaving), rows(x) @ inwards + bias, tolerance)
        product = rows(x).T @ rows(g)
        by_weight.setdefault(name, []).append(product.T if outputs_first else product)
    for name, parts in {**by_weight, **by_bias}.items():
        if name not in measured.groups:
            continue
        together = name.endswith(("in_proj_weight", "in_proj_bias"))
        found = parts if isinstance(parts, np.ndarray) else np.concatenate(parts) if together else sum(parts)
        assert_close(found.ravel(), slope[measured.groups[name][0]], tolerance)
    return sites


def summary(sites):
    return [(site.name, site.kind, site.activation) for site in sites]


def read(model, x, params=None):
    """Parameter, kind and activation of every site, without compiling anything."""
    measured = specimen(model, x, params=params)
    given = This(measured.apply), measured.params, measured.x, np.zeros((len(x), 3))
    return [(r.parameter, r.kind, r.activation) for r in program.eval_shape(*given)[1]]


@pytest.mark.parametrize("name", TORCH)
def test_sites_of_every_layer_of_pytorch(name):
    model, x = torch_model(name)
    check_sites(specimen(model, x), outputs_first=True)


@pytest.mark.parametrize("name", JAX)
def test_sites_of_every_layer_of_flax(name):
    model, params, x = jax_model(name)
    measured = specimen(model, x, params=params)
    check_sites(measured, outputs_first=False)
    seen = program(This(measured.apply), measured.params, jnp.asarray(x), np.zeros((6, 3)))[0]
    assert_close(seen, measured.outputs())


def test_names_kinds_and_activations():
    model, params, x = jax_model("convolution, dense, norms")
    assert read(model, x, params) == [
        ("Conv_0.kernel", "convolution", "silu"),
        ("Dense_1.kernel", "dense", "gelu"),
        ("Dense_0.kernel", "dense", None),
    ]
    model, params, x = jax_model("attention and embedding")
    assert [kind for _, kind, _ in read(model, x, params)] == ["embedding", *["attention"] * 4, "dense"]
    model, x = torch_model("transformer")
    assert summary(looked_at(specimen(model, x))[0]) == [
        ("tokens", "embedding", None),
        ("block.self_attn.query", "attention", None),
        ("block.self_attn.key", "attention", None),
        ("block.self_attn.value", "attention", None),
        ("block.self_attn.out", "attention", None),
        ("block.linear1", "dense", "gelu"),
        ("block.linear2", "dense", None),
        ("head", "dense", None),
    ]
    model, x = torch_model("shared weights")
    names = [site.name for site in looked_at(specimen(model, x))[0]]
    assert names == ["first", "first#2", "first#3", "head"]


def with_its_own_derivative(function):
    wrapped = jax.custom_jvp(function)
    wrapped.defjvp(lambda given, slopes: (wrapped(*given), slopes[1] @ given[0] + given[1] @ slopes[0]))
    return wrapped


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint, with_its_own_derivative])
def test_a_function_within_holds_the_product_and_its_bias_stands_outside(wrap):
    product = wrap(lambda w, x: x @ w)
    model = lambda p, x: jnp.tanh(product(p["w"], x) / 2 + p["b"]) @ p["v"]
    params = {"w": np.arange(16.0).reshape(4, 4) / 9, "b": np.ones(4), "v": np.ones((4, 3))}
    sites, _, u = looked_at(specimen(model, VECTORS, params=params))
    assert summary(sites) == [("w", "dense", "tanh"), ("v", "dense", None)]
    assert_close(sites[0].leaving, VECTORS @ params["w"] / 2 + 1)
    assert_close(sites[0].gradient, (u @ params["v"].T) / np.cosh(sites[0].leaving) ** 2)


def test_branches_and_loops_are_passed_through():
    params = {"w": np.eye(4), "v": np.ones((4, 3))}

    def model(p, x):
        h = jax.lax.cond(True, lambda h: 2 * h, lambda h: h @ p["w"], x @ p["w"])
        return jax.lax.while_loop(lambda h: False, lambda h: h @ p["w"], jax.lax.stop_gradient(h)) @ p["v"]

    sites = specimen(model, VECTORS, params=params).look(np.ones((6, 3)))
    assert [site.name for site in sites] == ["w", "v"]
    assert_close(sites[1].entering, 2 * VECTORS)


def test_the_derivative_that_an_author_gave_is_kept():
    """At zero the slope of jax.nn.relu is zero by its author's will; that of its formula is a half."""
    params = {"w": np.zeros((4, 4)), "v": np.ones((4, 3))}
    model = lambda p, x: jax.nn.relu(x @ p["w"]) @ p["v"]
    site = looked_at(specimen(model, VECTORS, params=params))[0][0]
    assert_close(site.gradient, np.zeros((6, 4)))


class Conv(eqx.Module):
    """A network of Equinox: one input, channels first, attention without biases."""

    conv: eqx.nn.Conv2d
    attention: eqx.nn.MultiheadAttention
    head: eqx.nn.MLP

    def __init__(self):
        keys = jax.random.split(jax.random.key(0), 3)
        self.conv = eqx.nn.Conv2d(2, 4, 3, key=keys[0])
        self.attention = eqx.nn.MultiheadAttention(2, 4, key=keys[1])
        self.head = eqx.nn.MLP(4, 3, 5, 1, activation=jnp.tanh, key=keys[2])

    def __call__(self, x):
        h = jax.nn.relu(self.conv(jnp.moveaxis(x, -1, 0))).reshape(4, -1).T
        return self.head(self.attention(h, h, h).mean(0))


def test_sites_of_equinox():
    sites = check_sites(specimen(Conv(), IMAGES), outputs_first=True)
    assert summary(sites) == [
        ("conv", "convolution", "relu"),
        ("attention.query_proj", "attention", None),
        ("attention.key_proj", "attention", None),
        ("attention.value_proj", "attention", None),
        ("attention.output_proj", "attention", None),
        ("head.layers.0", "dense", "tanh"),
        ("head.layers.1", "dense", None),
    ]
    assert sites[0].leaving.shape == (6, 2, 2, 4)


def test_a_repeated_layer_has_the_sites_of_its_copies():
    """Of fw.Repeat, with the activation before the weights, so that it follows the step before."""
    inner = fw.Sequential(fw.Activate("relu"), fw.Dense(4, C_b=0.1, C_W=2.0))
    head = fw.Dense(2, C_b=0.0, C_W=1.0)
    net = fw.Sequential(fw.Dense(4, C_b=0.1, C_W=2.0), fw.Repeat(inner, 3), head)
    params = net.init(jax.random.key(3), 4)
    copies = fw.Sequential(net.layers[0], *[inner] * 3, head)
    layers = [part for i in range(3) for part in jax.tree.map(lambda leaf, i=i: leaf[i], params[1])]
    apart = (params[0], *layers, params[2])
    scanned = looked_at(specimen(net, VECTORS, params=params))[0]
    written = looked_at(specimen(copies, VECTORS, params=apart))[0]
    assert [site.name for site in scanned] == ["0", "1.1[0]", "1.1[1]", "1.1[2]", "2"]
    assert [site.activation for site in written] == ["relu", "relu", "relu", None, None]
    for one, other in zip(scanned, written, strict=True):
        assert one.activation == other.activation
        assert_close(one.entering, other.entering)
        assert_close(one.leaving, other.leaving)
        assert_close(one.gradient, other.gradient)
        assert_close(one.into_activation, other.into_activation)


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return x + nn.Dense(4)(nn.relu(nn.LayerNorm()(x))), None


class Stack(nn.Module):
    @nn.compact
    def __call__(self, x):
        blocks = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=2)
        return nn.Dense(3)(nn.tanh(blocks()(nn.Dense(4)(x), None)[0]))


def test_layers_that_flax_scans_over():
    """The ReLU of each block is that of the sum that enters it."""
    params = Stack().init(jax.random.key(0), VECTORS)
    assert read(Stack(), VECTORS, params) == [
        ("Dense_1.kernel", "dense", "relu"),
        ("ScanBlock_0.Dense_0.kernel", "dense", "relu"),
        ("ScanBlock_0.Dense_0.kernel", "dense", "tanh"),
        ("Dense_0.kernel", "dense", None),
    ]


class Recurrent(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.recurrent = nnx.RNN(nnx.SimpleCell(4, 4, rngs=rngs))
        self.head = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(self.recurrent(x).mean(1))


def test_a_recurrent_layer_of_flax():
    """It draws its first state, which counts as writing to the model."""
    sites = read(Recurrent(), np.ones((6, 3, 4), np.float32))
    assert [kind for _, kind, _ in sites] == ["dense"] * 3
    assert sites[-1][0] == "head.kernel"
    assert "tanh" in [activation for *_, activation in sites]


def test_a_scan_over_positions_is_one_site():
    """A recurrent layer, backwards: h_t = tanh(W h_{t+1} + x_t); what flows back is that of all times."""
    weights = {"w": np.random.default_rng(1).normal(size=(4, 4)), "out": np.ones((4, 2))}

    def recurrent(params, x):
        step = lambda h, now: (jnp.tanh(h @ params["w"] + now), h)
        return (
            jax.lax.scan(step, jnp.zeros_like(x[:, 0]), jnp.moveaxis(x, 1, 0), reverse=True)[0]
            @ params["out"]
        )

    measured = specimen(recurrent, np.random.default_rng(2).normal(size=(6, 3, 4)), params=weights)
    sites, slope, _ = looked_at(measured)
    assert summary(sites) == [("w", "dense", "tanh"), ("out", "dense", None)]
    assert sites[0].leaving.shape == (6, 3, 4)
    found = rows(sites[0].entering).T @ rows(sites[0].gradient)
    assert_close(found.ravel(), slope[measured.groups["w"][0]])
