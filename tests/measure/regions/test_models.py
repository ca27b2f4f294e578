"""Networks of every framework: the affine maps of all cells are those of the model itself."""

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import finitewidth as fw
from finitewidth.measure import regions
from finitewidth.measure.specimen import specimen

KEY = jax.random.key(0)


def assert_own_regions(model, entering, outputs, rng, params=None, more_than=1):
    """Cells of a random plane: areas sum to the whole, maps are the model's own, patterns differ."""
    program = regions.piecewise_linear(model, entering, params=params)
    plane = regions.as_plane(
        rng.normal(size=program.entering), rng.normal(size=(2, *program.entering)), polygon=2.0
    )
    found = regions.plane_regions(program, plane)
    assert found.number > more_than
    assert abs(found.areas.sum() / 16 - 1) < 1e-12
    assert len(np.unique(found.patterns, axis=0)) == found.number
    expected = np.asarray(outputs(plane.inputs(found.centroids))).reshape(found.number, -1)
    np.testing.assert_allclose(found.outputs, expected, rtol=1e-9, atol=1e-9)
    # The slopes, too: they are the derivatives of the model at the centres.
    step = 1e-6 * np.sqrt(found.areas.max())
    some = np.argsort(found.areas)[-5:]
    for axis in range(2):
        moved = found.centroids[some] + step * np.eye(2)[axis]
        change = np.asarray(outputs(plane.inputs(moved))).reshape(len(some), -1) - expected[some]
        np.testing.assert_allclose(found.slopes[some, :, axis], change / step, rtol=1e-4, atol=1e-4)
    return found


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "leaky_relu:0.3", "abs", "linear"])
def test_networks_of_layers(activation, rng):
    net = fw.MLP((6, 6), activation, 0.1, 2.0, n_out=2)
    params = net.init(KEY, 3)
    least = 0 if activation == "linear" else 10
    found = assert_own_regions(net, 3, lambda x: net.apply(params, jnp.asarray(x)), rng, params, least)
    assert found.patterns.shape[1] == (0 if activation == "linear" else 12)


def test_sequential_repeat_and_hard_tanh(rng):
    hard_tanh = fw.Activation(jax.nn.hard_tanh, kink_places=(-1.0, 1.0))
    block = fw.Sequential(fw.Dense(6, 0.1, 2.0), fw.Activate("relu"))
    net = fw.Sequential(
        fw.Dense(6, 0.1, 2.0), fw.Activate(hard_tanh), fw.Repeat(block, 2), fw.Dense(1, 0.1, 2.0)
    )
    params = net.init(KEY, 3)
    assert_own_regions(net, 3, lambda x: net.apply(params, jnp.asarray(x)), rng, params, 10)


def test_clip_maximum_minimum_masks_and_joined_branches(rng):
    weight = rng.normal(size=(3, 4))

    def network(params, x):
        z = x @ params
        one = jnp.clip(z, -0.5, jnp.array([0.2, 0.4, 0.6, 0.8]))
        two = jnp.minimum(z[:, ::-1], jnp.flip(z, axis=1) / 2 + 0.1)
        three = z * (z > 0.3) - jnp.where(z >= 0.3, 0.3, 0.0)
        four = jnp.where(jnp.array([True, False, True, False]), z, -z).sum(axis=1, keepdims=True)
        first, second = jnp.split(jnp.tile(one, (1, 2)), 2, axis=1)
        joined = jnp.concatenate([(first + second) / 2, two, three, four], axis=1)
        return jnp.stack([joined.max(axis=1), joined.min(axis=1), joined.mean(axis=1)], axis=1)

    assert_own_regions(network, 3, lambda x: network(weight, jnp.asarray(x)), rng, weight, 20)


class ConvolutionalNetwork(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Conv(2, (3, 3), strides=(1, 2))(x)
        x = linen.relu(linen.BatchNorm(use_running_average=True)(x))
        pooled = linen.max_pool(x, (2, 2), strides=(1, 1), padding="SAME")
        x = jnp.concatenate([pooled, linen.avg_pool(x, (2, 2), strides=(1, 1), padding="SAME")], axis=-1)
        return linen.Dense(2)(x.reshape(x.shape[0], -1))


def test_flax_convolutions_and_pooling(rng):
    model = ConvolutionalNetwork()
    variables = model.init(KEY, jnp.ones((1, 4, 4, 1)))
    outputs = lambda x: model.apply(variables, jnp.asarray(x))
    assert_own_regions(model, (4, 4, 1), outputs, rng, variables, 50)


def test_nnx_and_equinox(rng):
    model = nnx.Sequential(nnx.Linear(3, 5, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(5, 1, rngs=nnx.Rngs(1)))
    assert_own_regions(model, 3, lambda x: model(jnp.asarray(x)), rng)
    other = eqx.nn.MLP(3, 2, 6, 2, key=KEY)
    assert_own_regions(other, 3, lambda x: jax.vmap(other)(jnp.asarray(x)), rng)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.grouped = nn.Conv2d(2, 2, 3, padding=1, groups=2, bias=False)
        self.pool, self.average = nn.MaxPool2d(2), nn.AvgPool2d(2, stride=1, padding=1)
        self.last, self.hard = nn.Linear(18, 4), nn.Hardtanh(-0.3, 0.4)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = x + nn.functional.leaky_relu(self.grouped(x), 0.2)
        x = self.average(self.pool(x))
        x = self.hard(self.last(x.view(x.size(0), -1)))
        return torch.cat([2 * x - 1, x[:, :1].abs()], dim=1)


def torch_outputs(module):
    def outputs(x):
        with torch.no_grad():
            return module(torch.as_tensor(x)).numpy()

    return outputs


def test_torch_modules(rng):
    torch.manual_seed(0)
    module = Residual().double().eval()
    module.norm.running_mean += 0.1
    module.norm.running_var *= 2.0
    assert_own_regions(module, (1, 4, 4), torch_outputs(module), rng, more_than=50)
    plain = nn.Sequential(
        nn.Linear(3, 8), nn.PReLU(8), nn.Dropout(), nn.Linear(8, 8), nn.ReLU6(), nn.Linear(8, 1)
    )
    assert_own_regions(plain.double().eval(), 3, torch_outputs(plain), rng, more_than=10)


def test_torch_at_a_state_dict_and_specimens(rng):
    torch.manual_seed(1)
    module, other = (nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1)).double() for _ in range(2))
    plane = regions.as_plane([0.0, 0.0], np.eye(2), 4.0)
    expected = regions.plane_regions(other, plane)
    np.testing.assert_array_equal(
        regions.plane_regions(module, plane, params=other.state_dict()).areas, expected.areas
    )
    x = rng.normal(size=(3, 2))
    np.testing.assert_array_equal(regions.plane_regions(specimen(other, x), plane).areas, expected.areas)
    net = fw.MLP((6,), "relu", 0.5, 2.0)
    params = net.init(KEY, 2)
    np.testing.assert_array_equal(
        regions.plane_regions(specimen(net, x, params=params), plane).areas,
        regions.plane_regions(net, plane, params=params).areas,
    )


def test_both_frameworks_make_the_same_cells(rng):
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    weights = [part.detach().numpy() for part in module.parameters()]
    net = fw.MLP((8, 8), "relu")
    params = tuple(fw.architecture.Affine(w, b) for w, b in zip(weights[::2], weights[1::2], strict=True))
    plane = regions.as_plane([0.0, 0.0], np.eye(2), 3.0)
    one, other = regions.plane_regions(module, plane), regions.plane_regions(net, plane, params=params)
    np.testing.assert_array_equal(one.patterns, other.patterns)
    np.testing.assert_allclose(one.slopes, other.slopes, atol=1e-14)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "softplus", "sin"])
def test_activations_that_bend_everywhere_are_refused_by_name(activation):
    net = fw.MLP((4,), activation, 0.1, 1.0)
    with pytest.raises(ValueError, match=f"activation '{activation}' is not piecewise linear: relu"):
        regions.piecewise_linear(net, 2, params=net.init(KEY, 2))


def test_functions_that_are_not_piecewise_linear_are_refused():
    weight = jnp.ones((2, 2))
    for network, words in (
        (lambda p, x: jax.nn.silu(x @ p), r"silu \(logistic\)"),
        (lambda p, x: jnp.tanh(x @ p), "tanh"),
        (lambda p, x: (x @ p) * (x @ p), "multiplies two things"),
        (lambda p, x: (x @ p) / jnp.abs(x).sum(), "div"),
    ):
        with pytest.raises(ValueError, match=words):
            regions.piecewise_linear(network, 2, params=weight)


def test_torch_modules_that_are_refused():
    for module, words in (
        (nn.Sequential(nn.Linear(2, 2), nn.GELU()), "nn.GELU"),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), r"statistics of its batch: call module.eval\(\)"),
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout()), "random in training mode"),
        (nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1)), "nn.Softmax"),
    ):
        with pytest.raises(ValueError, match=words):
            regions.piecewise_linear(module, 2)


def test_the_shape_of_inputs_is_needed():
    with pytest.raises(ValueError, match="entering is missing"):
        regions.piecewise_linear(nn.Linear(2, 2))


def test_number_of_regions_during_training(rng):
    net = fw.MLP((8, 8), "relu", 0.1, 2.0)
    first = net.init(KEY, 2)
    shrunk = jax.tree.map(lambda p: p * 0.5, first)
    plane = regions.as_plane([0.0, 0.0], np.eye(2), 1.0)
    history = regions.regions_in_training(net, [first, shrunk, first], plane)
    counts = [regions.plane_regions(net, plane, params=p).number for p in (first, shrunk, first)]
    assert history.cells.tolist() == counts
    assert history.median_areas[0] == history.median_areas[2]
    with pytest.raises(ValueError, match="checkpoints is empty"):
        regions.regions_in_training(net, [], plane)
