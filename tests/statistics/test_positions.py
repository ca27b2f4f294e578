"""Kernels of networks with positions: against another library, by exact identities, and on real networks."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tolerances import SERIES, assert_close

import finitewidth as fw
from finitewidth.large.tiles import kernel_tiles
from finitewidth.statistics.wide import position_kernels

CASES = json.loads((pathlib.Path(__file__).parents[1] / "reference" / "positions.json").read_text())["cases"]
# The reference itself rounds the NTK of kinked activations on the diagonal.
ROUNDED_DIAGONAL = 2e-8


def both_agree(ours: fw.Kernels, theirs: fw.Kernels) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b)


def after(*layers, net=None):
    """A network of given first layers with numbers that all differ."""
    top = (fw.Activate("relu"), fw.Dense(1, 0.3, 1.2, 0.8, 0.6))
    return fw.Sequential(*layers, *top)


@pytest.fixture(scope="module")
def images():
    return jax.random.normal(jax.random.key(5), (5, 4, 3, 2))


@pytest.fixture(scope="module")
def tokens():
    return jax.random.normal(jax.random.key(6), (4, 3, 5))


@pytest.mark.parametrize("name", CASES)
def test_every_reference_is_met(name):
    case = CASES[name]
    x1, x2 = np.array(case["x1"]), np.array(case["x2"])
    nngp, ntk = (np.asarray(k) for k in fw.kernels(fw.network(case["spec"]), np.concatenate([x1, x2])))
    n = len(x1)
    off = ~np.eye(n, dtype=bool)
    for ours, word in ((nngp, "nngp"), (ntk, "ntk")):
        own, cross = np.array(case[f"{word}_11"]), np.array(case[f"{word}_12"])
        np.testing.assert_allclose(ours[:n, :n][off], own[off], rtol=SERIES)
        np.testing.assert_allclose(np.diag(ours[:n, :n]), np.diag(own), rtol=ROUNDED_DIAGONAL)
        np.testing.assert_allclose(ours[:n, n:], cross, rtol=SERIES)
    assert (nngp == nngp.T).all()
    assert (ntk == ntk.T).all()


@pytest.mark.parametrize("head", [fw.Flatten(), fw.GlobalAveragePool()], ids=["flatten", "pool"])
def test_tiles_lists_and_rectangles_are_parts_of_one_matrix(head, images, monkeypatch):
    conv = (fw.Conv(4, (3, 2), 1, "SAME", 0.1, 1.5, 0.7, 1.1), fw.Activate("tanh"))
    net = fw.Sequential(*conv, head, fw.Dense(1, 0.2, 1.1))
    whole = fw.kernels(net, images, terms=24)
    # Tiles of two inputs, and lists of one or two pairs.
    monkeypatch.setattr(position_kernels, "_ENTRIES", 2 * 12**2)
    jax.clear_caches()
    both_agree(fw.kernels(net, images, terms=24), whole)
    part = fw.kernels(net, images[:3], images[3:], terms=24)
    both_agree(part, fw.Kernels(*(k[:3, 3:] for k in whole)))
    jax.clear_caches()


def test_tiles_of_a_large_kernel_take_images(images):
    net = fw.ConvNet((3,), (3, 3), "relu", C_b=0.1, C_W=1.5)
    whole = fw.kernels(net, images)
    for tile in kernel_tiles(net, images, size=3):
        both_agree(fw.Kernels(tile.nngp, tile.ntk), fw.Kernels(*(k[tile.rows, tile.columns] for k in whole)))


def test_one_pixel_under_a_convolution_is_a_dense_layer(images):
    pixel = images[:, :1, :1]
    conv = fw.kernels(
        after(fw.Conv(4, (1, 1), 1, "VALID", 0.1, 1.5, 0.7, 1.1), fw.GlobalAveragePool()), pixel
    )
    both_agree(conv, fw.kernels(after(fw.Dense(4, 0.1, 1.5, 0.7, 1.1)), pixel[:, 0, 0]))


def test_a_window_over_the_whole_image_is_flatten_and_dense(images):
    conv = after(
        fw.Conv(4, (4, 3), 1, "VALID", 0.1, 1.5, 0.7, 1.1), fw.AveragePool((1, 1)), fw.GlobalAveragePool()
    )
    both_agree(
        fw.kernels(conv, images), fw.kernels(after(fw.Flatten(), fw.Dense(4, 0.1, 1.5, 0.7, 1.1)), images)
    )


def test_constant_images_are_their_pixel(images):
    pixel = images[:, 0, 0]
    constant = jnp.broadcast_to(pixel[:, None, None], images.shape)
    circular = fw.Conv(4, (3, 2), 1, "CIRCULAR", 0.1, 1.5, 0.7, 1.1)
    expected = fw.kernels(after(fw.Dense(4, 0.1, 1.5, 0.7, 1.1)), pixel)
    neurons, readout = after(circular).layers[1:]
    for head in (fw.GlobalAveragePool(), fw.Flatten()):
        both_agree(fw.kernels(fw.Sequential(circular, neurons, head, readout), constant), expected)


def test_circular_shifts_of_both_images_change_nothing(images):
    net = fw.Sequential(
        fw.Conv(4, (3, 2), 1, "CIRCULAR", 0.1, 1.5, 0.7, 1.1),
        fw.Activate("relu"),
        fw.Conv(4, (2, 2), 1, "CIRCULAR", 0.1, 1.5),
        fw.Activate("relu"),
        fw.GlobalAveragePool(),
        fw.Dense(1, 0.0, 1.0),
    )
    shifted = jnp.roll(images, (1, 2), axis=(1, 2))
    both_agree(fw.kernels(net, shifted), fw.kernels(net, images))
    # The average over all shifts of one image cannot see where the image stands.
    both_agree(fw.kernels(net, shifted, images), fw.kernels(net, images, images))


def test_all_pairs_of_positions_agree_with_equal_positions_on_the_diagonal(images):
    conv = (fw.Conv(4, (3, 2), (2, 1), "SAME", 0.1, 1.5, 0.7, 1.1), fw.Activate("relu"))
    diagonal = fw.Sequential(*conv, fw.Flatten(), fw.Dense(1, 0.2, 1.1))
    # A pool of one position asks for all pairs below it and changes nothing.
    pairs = fw.Sequential(*conv, fw.AveragePool((1, 1)), fw.Flatten(), fw.Dense(1, 0.2, 1.1))
    both_agree(fw.kernels(pairs, images), fw.kernels(diagonal, images))


def test_attention_of_one_token_is_two_dense_layers(tokens):
    token = tokens[:, :1]
    attention = fw.SelfAttention(8, 2, 4, "softmax", "linear", 0.1, 3.0, 2.0, 0.7, 0.4, 0.6)
    # Values and outputs have variance sqrt(C_OV) each, and no bias between them.
    dense = (fw.Dense(8, 0.0, 2**0.5, 0.0, 0.6), fw.Dense(8, 0.1, 2**0.5, 0.7, 0.6))
    first = fw.Dense(8, 0.2, 1.3, 0.5, 0.9)
    expected = fw.kernels(after(first, *dense), token[:, 0])
    both_agree(fw.kernels(after(first, attention, fw.GlobalAveragePool()), token), expected)
    untied = fw.SelfAttention(8, 2, 4, "softmax", "linear-untied", 0.1, 3.0, 2.0, 0.7, 0.4, 0.6)
    both_agree(
        fw.kernels(after(first, untied, fw.Flatten(), first), token),
        fw.kernels(after(first, *dense, first), token[:, 0]),
    )


def test_attention_that_reads_all_tokens_alike_reads_their_mean(tokens):
    untied = fw.SelfAttention(8, 2, 4, "softmax", "linear-untied", 0.1, 3.0, 2.0, 0.7, 0.4, 0.6)
    dense = (fw.Dense(8, 0.0, 2**0.5, 0.0, 0.6), fw.Dense(8, 0.1, 2**0.5, 0.7, 0.6))
    pooled = fw.kernels(after(fw.GlobalAveragePool(), *dense), tokens)
    both_agree(fw.kernels(after(untied, fw.GlobalAveragePool()), tokens), pooled)


def test_gradients_of_kernels_are_those_of_finite_differences(images):
    net = fw.Sequential(
        fw.Conv(4, (3, 2), 1, "SAME", 0.0, 1.5),
        fw.Activate("relu"),
        fw.GlobalAveragePool(),
        fw.Dense(1, 0.2, 1.1),
    )
    # Pixels without variance, as at the edges of digits.
    x = images[:2].at[:, 2:].set(0.0)
    total = lambda x: fw.kernels(net, x).ntk.sum()
    gradient = jax.grad(total)(x)
    assert bool(jnp.isfinite(gradient).all())
    step = 1e-6 * jnp.zeros_like(x).at[0, 0, 1, 0].set(1.0)
    measured = (total(x + step) - total(x - step)) / 2e-6
    assert abs(float(measured - gradient[0, 0, 1, 0])) < 1e-6 * abs(float(measured))


def test_real_networks_are_trained_as_predicted(images):
    net = fw.ConvNet((64,), (3, 3), "relu")
    y = jnp.sin(images.sum(axis=(1, 2, 3)))
    law = fw.predict(net, images[:3], y[:3], images[3:], fw.GradientDescent("auto", 20))
    check = fw.verify(law, networks=64)
    assert check.agrees
    assert fw.trajectory(net, images).nngp.shape == (2, 5)


def test_trajectory_is_the_variance_of_the_mean_position(images):
    # Two convolutions over a circle: the mean variance follows the dense recursion of the mean square.
    conv = fw.Conv(4, (3, 2), 1, "CIRCULAR", 0.1, 1.5)
    net = fw.Sequential(conv, conv, fw.GlobalAveragePool(), fw.Dense(1, 0.0, 1.0))
    first = 0.1 + 1.5 * jnp.mean(images**2, axis=(1, 2, 3))
    nngp = fw.trajectory(net, images).nngp
    assert_close(nngp[:2], jnp.stack([first, 0.1 + 1.5 * first]))
