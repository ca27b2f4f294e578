"""Neural collapse on features that are made by hand, and on the same network in JAX and in PyTorch."""

import math

import jax
import numpy as np
import pytest
import torch

import finitewidth as fw
from finitewidth.measure.loss.collapse import classifier, collapse
from finitewidth.measure.specimen import specimen
from tolerances import CLOSED_FORM

FIELDS = [
    "variability",
    "equinorm",
    "equiangle",
    "mean_cosine",
    "frame_distance",
    "self_duality",
    "mismatch",
    "fresh_mismatch",
]


def linear(x, y, weight):
    """A network of one layer, whose features are its inputs."""
    return specimen(lambda w, x: x @ w.T, x, y, params=np.asarray(weight, float))


def test_a_collapsed_network():
    """Features at the vertices of a simplex, and a classifier proportional to them."""
    frame = np.eye(4) - 0.25
    y = np.repeat(np.arange(4), 3)
    (found,) = collapse(linear(5.0 + 2 * frame[y], y, 7 * frame), fresh=5.0 + frame)
    zeros = [getattr(found, name) for name in FIELDS if name != "mean_cosine"]
    np.testing.assert_allclose(zeros, 0.0, atol=1e-14)
    np.testing.assert_allclose(found.mean_cosine, -1 / 3)


def test_numbers_by_hand():
    """Three classes in the plane: means (1, 0), (-1, 0) and (0, 2) about their mean, with spread along x."""
    centres = np.array([[1.0, -2 / 3], [-1.0, -2 / 3], [0.0, 4 / 3]])
    y = np.repeat(np.arange(3), 2)
    x = 10.0 + centres[y] + 0.1 * np.tile([[1.0, 0.0], [-1.0, 0.0]], (3, 1))
    weight = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    (found,) = collapse(linear(x, y, weight), fresh=np.array([[11.0, 9.0], [9.0, 12.0]]))
    norms = np.linalg.norm(centres, axis=1)
    # Sigma_B = diag(2/3, 8/9) and Sigma_W = diag(0.01, 0).
    np.testing.assert_allclose(found.variability, 0.01 / (2 / 3) / 3)
    np.testing.assert_allclose(found.equinorm, norms.std() / norms.mean())
    cosines = [(-1 + 4 / 9) / (13 / 9), -(8 / 9) / (norms[0] * norms[2]), -(8 / 9) / (norms[1] * norms[2])]
    np.testing.assert_allclose(found.equiangle, np.std(cosines))
    np.testing.assert_allclose(found.mean_cosine, np.mean(cosines))
    gram = centres @ centres.T
    frame = (np.eye(3) - 1 / 3) / np.sqrt(2)
    np.testing.assert_allclose(found.frame_distance, np.linalg.norm(gram / np.linalg.norm(gram) - frame))
    duality = np.linalg.norm(weight / np.sqrt(2) - centres / np.linalg.norm(centres))
    np.testing.assert_allclose(found.self_duality, duality)
    # The network always predicts class 0; the nearest mean is right, and of the fresh points one has class 2.
    np.testing.assert_allclose(found.mismatch, 2 / 3)
    np.testing.assert_allclose(found.fresh_mismatch, 1 / 2)


def test_sizes_of_classes_weigh_the_points_and_not_the_means():
    centres = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
    y = np.repeat(np.arange(3), (2, 2, 6))
    x = centres[y] + 0.1 * np.tile([[1.0, 0.0], [-1.0, 0.0]], (5, 1))
    (found,) = collapse(linear(x, y, np.eye(3)[:, :2]))
    np.testing.assert_allclose(found.variability, 0.01 / (2 / 3) / 3)
    norms = np.linalg.norm(centres - [0, 2 / 3], axis=1)
    np.testing.assert_allclose(found.equinorm, norms.std() / norms.mean())


def test_equal_means_have_no_frame():
    y = np.array([0, 0, 1, 1])
    (found,) = collapse(linear(np.tile([[1.0, 2.0], [1.0, -2.0]], (2, 1)), y, np.eye(2)))
    assert found.variability == math.inf
    assert all(math.isnan(getattr(found, name)) for name in ("equinorm", "equiangle", "frame_distance"))
    assert math.isnan(found.fresh_mismatch)


@pytest.fixture(scope="module")
def twins():
    """One network in JAX and in PyTorch, in float32."""
    net = fw.MLP((7, 6), "relu", n_out=3)
    params = net.init(jax.random.key(0), 4, dtype=np.float32)
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 7), torch.nn.ReLU(), torch.nn.Linear(7, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)
    )
    with torch.no_grad():
        for layer, (weight, bias) in zip(module[::2], params, strict=True):
            layer.weight.copy_(torch.tensor(np.asarray(weight)))
            layer.bias.copy_(torch.tensor(np.asarray(bias)))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 4)).astype("float32"), np.arange(30) % 3
    fresh = rng.normal(size=(9, 4)).astype("float32")
    return specimen(net, x, y, params=params), specimen(module, x, y), fresh


def test_the_same_numbers_from_jax_and_pytorch(twins):
    one, other, fresh = twins
    layers = [collapse(network, fresh=fresh) for network in (one, other)]
    assert len(layers[0]) == len(layers[1]) == 3
    for pair in zip(*layers, strict=True):
        numbers = [[getattr(found, name) for name in FIELDS] for found in pair]
        np.testing.assert_allclose(*numbers, rtol=1e-5)
    assert not math.isnan(layers[0][-1].self_duality)
    assert math.isnan(layers[0][0].self_duality)


def test_the_classifier_is_found_either_way_round(twins):
    network = twins[0]
    x, y, weight = network.x, network.y, np.random.default_rng(1).normal(size=(3, 4))
    for params, apply in ((weight, lambda w, x: x @ w.T), (weight.T, lambda w, x: x @ w)):
        bare = specimen(lambda p, x, apply=apply: apply(p["w"], x) + p["b"], x, y,
                        params={"b": np.ones(3), "w": params})  # fmt: skip
        found = classifier(bare, bare.look(np.zeros((30, 3)))[-1])
        np.testing.assert_allclose(found, weight, rtol=CLOSED_FORM)
    site = bare.look(np.zeros((30, 3)))[-1]
    assert classifier(bare, site._replace(leaving=2 * site.leaving)) is None


def test_one_hot_labels_are_classes(twins):
    one = twins[0]
    again = specimen(
        lambda w, x: x @ w.T, one.x, np.eye(3, dtype="float32")[one.y], params=np.ones((3, 4), "float32")
    )
    first = specimen(lambda w, x: x @ w.T, one.x, one.y, params=np.ones((3, 4), "float32"))
    assert collapse(again)[0].variability == collapse(first)[0].variability


def test_refusals(twins):
    one = twins[0]
    with pytest.raises(ValueError, match="no labels y"):
        collapse(one.on(one.x, None))
    with pytest.raises(ValueError, match="class 2 has no samples among the 4 labels"):
        collapse(one.on(one.x[:4], np.array([0, 1, 0, 1])))
    numbers = specimen(lambda w, x: x @ w.T, one.x, one.x[:, :2], params=np.ones((2, 4), "float32"))
    with pytest.raises(ValueError, match="y must hold whole-number classes, got shape \\(30, 2\\)"):
        collapse(numbers)
