import jax
import numpy as np
import optax
import pytest
import torch

import finitewidth as fw
from finitewidth.measure.layers.coordinate_check import CoordinateCheck, coordinate_check
from finitewidth.networks.training.optimizers import network_optimizer
from finitewidth.report.coordinate_figure import coordinate_figure
from tolerances import assert_close

WIDTHS = (32, 128, 512)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 4)).astype(np.float32)
    return x, np.sin(x[:, :1])


def torch_network(mup):
    """Two hidden layers. Maximal update at base width 32: hidden and last rates, and last weights, scaled."""

    def build(width, seed):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(4, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 1)]
        ratio = 32 / width if mup else 1.0
        with torch.no_grad():
            layers[2].weight *= ratio**0.5
        groups = [
            {"params": [layer.weight], "lr": 0.01 * scale}
            for layer, scale in zip(layers, (1, ratio, ratio), strict=True)
        ]
        groups.append({"params": [layer.bias for layer in layers], "lr": 0.01})
        module = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
        return module, torch.optim.Adam(groups)

    return build


def test_adam_grows_with_width_in_the_standard_parametrisation(data):
    check = coordinate_check(torch_network(mup=False), WIDTHS, *data, steps=3, draws=2)
    assert check.sites == ("0", "2", "4")
    assert check.growing[0] == "2"
    assert "not stable in width" in check.verdict
    # A hidden layer's first step is coherent over its inputs: every weight moves by the learning rate.
    assert abs(check.exponents(0).value[1] - 1) < 0.2


def test_maximal_update_does_not(data):
    check = coordinate_check(torch_network(mup=True), WIDTHS, *data, steps=3, draws=2)
    assert check.growing == check.vanishing == ()
    assert check.verdict.startswith("stable in width: after 3 steps no change")


def test_networks_of_layers_with_their_own_rates(data):
    def build(width, seed):
        net = fw.MLP((width, width), "tanh", C_b=0.0, C_W=1.0, parametrisation="mup:16")
        return net, net.init(jax.random.key(seed), 4), network_optimizer(net, 4, "adam", 0.01)

    check = coordinate_check(build, (16, 128), *data, steps=2, draws=2)
    assert check.verdict.startswith("stable in width")
    assert np.all(check.losses[:, -1] < check.losses[:, 0])


def made_up(powers, noise=0.0):
    """A check whose changes are known powers of the width."""
    rng = np.random.default_rng(0)
    scatter = np.exp(noise * rng.normal(size=(len(powers), 3, 1, 4)))
    changes = np.array(WIDTHS)[None, :, None, None] ** np.array(powers)[:, None, None, None] * scatter
    names = tuple(f"layer{i}" for i in range(len(powers)))
    return CoordinateCheck(WIDTHS, names, np.concatenate([changes, changes], 2), changes, np.ones((3, 2, 4)))


def test_powers_are_found():
    check = made_up([0.5, 0.0, -1.0])
    assert_close(check.exponents().value, np.array([0.5, 0.0, -1.0]), scale=1.0)
    assert (check.growing, check.vanishing) == (("layer0",), ("layer2",))
    assert "the change of layer0 grows as width^0.50" in check.verdict
    assert "moves layer0 4 times too far at width 512" in check.verdict


def test_laziness_and_noise_have_their_words():
    assert (
        "lazy in width: after 1 steps the change of layer1 falls as width^-0.50"
        in made_up([0.0, -0.5]).verdict
    )
    noisy = made_up([0.3], noise=3.0)
    assert noisy.exponents().sem[0] > 0.1
    assert noisy.growing == ()


def test_the_picture_has_one_line_for_every_site_and_quantity(data):
    axes = coordinate_figure(made_up([0.5, 0.0])).axes
    assert [len(panel.containers) for panel in axes] == [2, 2, 2]
    assert axes[2].get_legend_handles_labels()[1] == ["layer0: power +0.50", "layer1: power +0.00"]


def test_wrong_networks_get_a_sentence(data):
    with pytest.raises(ValueError, match=r"widths must be at least two rising whole numbers, got \(8, 4\)"):
        coordinate_check(torch_network(True), (8, 4), *data)
    with pytest.raises(ValueError, match="at width 4 it returned a tuple of 2"):
        coordinate_check(lambda width, seed: (fw.MLP((width,), "relu"), None), (4, 8), *data)
    net = fw.MLP((4,), "relu")
    with pytest.raises(TypeError, match="must be Optax's, got str"):
        coordinate_check(lambda w, s: (net, net.init(jax.random.key(0), 4), "adam"), (4, 8), *data)

    def other(width, seed):
        net = fw.MLP((width,) * (1 if width == 4 else 2), "relu")
        return net, net.init(jax.random.key(0), 4), optax.sgd(0.1)

    with pytest.raises(ValueError, match="must be the same network at another width"):
        coordinate_check(other, (4, 8), *data, steps=1, draws=2)
