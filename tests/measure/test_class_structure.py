"""The class structure of gradients, features and errors, against sums that are written out."""

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.measure.loss.candidates import candidates
from finitewidth.measure.loss.class_structure import PARTS, class_structure
from finitewidth.measure.loss.layer_structure import error_structure, feature_structure
from finitewidth.measure.specimen import specimen
from tolerances import CLOSED_FORM, ROUNDING

CLASSES, N_IN = 4, 3
NET = fw.MLP((6, 5), "relu", n_out=CLASSES)
LABELS = np.repeat(np.arange(CLASSES), (3, 5, 9, 7))


@pytest.fixture(scope="module")
def network():
    x = np.random.default_rng(0).normal(size=(len(LABELS), N_IN))
    return specimen(NET, x, LABELS, params=NET.init(jax.random.key(0), N_IN))


def written_out(probabilities, vectors):
    """The four parts from vectors (points, candidates, size), each sum as it stands in the definition."""
    points, size = len(vectors), vectors.shape[2]
    w = probabilities / points
    parts = {name: np.zeros((size, size)) for name in PARTS}
    for c in range(CLASSES):
        members = np.flatnonzero(c == LABELS)
        mean = {
            k: sum(w[i, k] * vectors[i, k] for i in members) / w[members, k].sum() for k in range(CLASSES)
        }
        wrong = [k for k in range(CLASSES) if k != c]
        w_c = sum(w[members, k].sum() for k in wrong)
        g_c = sum(w[members, k].sum() * mean[k] for k in wrong) / w_c
        parts["class_part"] += w_c * np.outer(g_c, g_c)
        for k in wrong:
            parts["cross_class"] += w[members, k].sum() * np.outer(mean[k] - g_c, mean[k] - g_c)
            for i in members:
                apart = vectors[i, k] - mean[k]
                parts["within_class"] += w[i, k] * np.outer(apart, apart)
        for i in members:
            parts["same_label"] += w[i, c] * np.outer(vectors[i, c], vectors[i, c])
    return parts


def softmax(outputs):
    exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def parts(network):
    """The four parts of G, dense, from all gradients."""
    p = softmax(network.outputs())
    residuals = p[:, None] - np.eye(CLASSES)
    return written_out(p, np.einsum("nks,nck->ncs", network.jacobian(), residuals))


def dense(operator):
    return operator @ np.eye(operator.shape[0])


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_its_definition(network, parts, name):
    found = dense(class_structure(network).part(name))
    np.testing.assert_allclose(found, parts[name], atol=ROUNDING["float64"] * np.abs(parts[name]).max())


def test_the_parts_sum_to_the_gauss_newton_matrix(network):
    found = class_structure(network)
    G = np.stack([network.gauss_newton_product(v) for v in np.eye(network.weights.size)])
    total = sum(dense(found.part(name)) for name in PARTS)
    np.testing.assert_allclose(total, G, atol=CLOSED_FORM * np.abs(G).max())
    two = dense(found.class_part().operator()) + dense(found.cross_class_part().operator())
    np.testing.assert_allclose(two + dense(found.bulk()), G, atol=CLOSED_FORM * np.abs(G).max())


def test_factors_give_the_class_and_cross_class_part(network, parts):
    found = class_structure(network)
    for factored, name in ((found.class_part(), "class_part"), (found.cross_class_part(), "cross_class")):
        part = parts[name]
        np.testing.assert_allclose(
            factored.factor @ factored.factor.T, part, atol=CLOSED_FORM * np.abs(part).max()
        )
        largest = np.linalg.eigvalsh(part)[::-1][: factored.factor.shape[1]]
        np.testing.assert_allclose(factored.eigenvalues(), largest, atol=CLOSED_FORM * largest[0])
        np.testing.assert_allclose(factored.trace, np.trace(part), rtol=CLOSED_FORM)
    assert found.class_part().rank == CLASSES
    assert found.cross_class_part().rank == CLASSES * (CLASSES - 2)


def test_curvature_is_attributed_to_the_parts(network, parts):
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(network.weights.size, 3)))[0]
    found = class_structure(network).attribute(directions)
    H = np.stack([network.hessian_product(v) for v in np.eye(network.weights.size)])
    expected = [[v @ part @ v for part in parts.values()] for v in directions.T]
    np.testing.assert_allclose(found.parts, expected, rtol=CLOSED_FORM)
    np.testing.assert_allclose(found.curvatures, np.diag(directions.T @ H @ directions), rtol=CLOSED_FORM)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0, rtol=CLOSED_FORM)
    np.testing.assert_allclose(
        found.rest, found.curvatures - np.sum(expected, axis=1), atol=CLOSED_FORM * found.curvatures.max()
    )


def test_a_confident_network_keeps_its_means():
    """Probabilities of exp(-1200) underflow; their means over points do not."""
    x = np.array([[2.0, 0.5], [3.0, 0.1], [0.3, 2.0], [0.2, 3.0]])
    linear = specimen(lambda w, x: 800 * x @ w, x, np.array([0, 0, 1, 1]), params=np.eye(2))
    found = candidates(linear)
    assert (found.weights[:2, 1] == 0.0).all()
    # The second point is surer, so the first has all the weight of label 1: exp(-1200) against exp(-2320).
    np.testing.assert_allclose(found.point_shares[:2, 1], [1.0, 0.0])
    np.testing.assert_allclose(found.pair_shares, [[0, 1], [1, 0]])
    assert np.isfinite(class_structure(linear).class_part().factor).all()
    assert np.isfinite(dense(class_structure(linear).part("within_class"))).all()


def test_errors_of_every_layer_split_like_gradients(network):
    p = softmax(network.outputs())
    looks = [network.look(p - np.eye(CLASSES)[k]) for k in range(CLASSES)]
    for layer, found in enumerate(error_structure(network)):
        errors = np.stack([look[layer].gradient for look in looks], axis=1)
        for name, part in written_out(p, errors).items():
            factor = getattr(found, name).factor
            np.testing.assert_allclose(
                factor @ factor.T, part, atol=ROUNDING["float64"] * np.abs(part).max(), err_msg=name
            )


def test_features_split_by_classes_of_unequal_sizes(network):
    for site, found in zip(network.look(np.zeros((24, CLASSES))), feature_structure(network), strict=True):
        h = site.entering
        means = np.stack([h[c == LABELS].mean(axis=0) for c in range(CLASSES)])
        class_part = sum(np.outer(means[c], means[c]) for c in LABELS) / 24
        within = (h - means[LABELS]).T @ (h - means[LABELS]) / 24
        pieces = {"class_part": class_part, "within": within}
        pieces["between"] = class_part - np.outer(h.mean(axis=0), h.mean(axis=0))
        for name, expected in pieces.items():
            factor = getattr(found, name).factor
            np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-14, err_msg=name)
        np.testing.assert_allclose(dense(found.class_part.operator()) + within, h.T @ h / 24, atol=1e-14)


@pytest.mark.parametrize(
    ("labels", "loss", "words"),
    [
        (np.where(LABELS == 2, 1, LABELS), None, "class 2 has no samples among the 24 labels"),
        (np.eye(CLASSES)[LABELS], "mse", "loss='cross_entropy' with labels, got loss='mse'"),
        (None, None, "loss='cross_entropy' with labels, got loss=None"),
    ],
)
def test_refusals(network, labels, loss, words):
    other = specimen(NET, network.x, labels, params=NET.init(jax.random.key(0), N_IN), loss=loss)
    with pytest.raises(ValueError, match=words):
        class_structure(other)


def test_an_unknown_part_is_refused(network):
    with pytest.raises(ValueError, match=r"part must be one of class_part, .*, got 'between'"):
        class_structure(network).part("between")
