import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from sklearn.metrics import log_loss

from finitewidth.networks.losses import LOSSES, as_labels, as_loss
from tolerances import assert_close

Z = np.array([[0.3, -1.2, 0.5], [2.0, 0.1, -0.4]])
SIGNS = jnp.array([[1, -1, 1], [-1, 1, 1]])


def test_values_against_other_libraries():
    assert_close(LOSSES["mse"].value(jnp.asarray(Z), jnp.ones_like(Z)), 0.5 * np.linalg.norm(Z - 1) ** 2)
    probabilities = scipy.special.softmax(Z, axis=1)
    expected = log_loss([2, 0], probabilities, labels=[0, 1, 2], normalize=False)
    assert_close(LOSSES["cross_entropy"].value(jnp.asarray(Z), jnp.array([2, 0])), expected)
    assert_close(
        LOSSES["logistic"].value(jnp.asarray(Z), SIGNS), -np.log(scipy.special.expit(SIGNS * Z)).sum()
    )
    assert_close(LOSSES["exponential"].value(jnp.asarray(Z), SIGNS), np.exp(-SIGNS * Z).sum())


def test_one_output_takes_a_flat_list_of_labels():
    for name, labels in (("mse", [0.5, 1.5]), ("logistic", [1, -1])):
        assert as_labels(LOSSES[name], labels, (2, 1), jnp.dtype(float)).tolist() == [[v] for v in labels]


def test_labels_of_another_kind_are_refused():
    dtype = jnp.dtype(float)
    refused = {
        ("cross_entropy", (2, 1), (0, 1)): "one output per class; this one has a single output",
        ("cross_entropy", (2, 3), (0.5, 1.5)): r"whole-number classes of shape \(2,\)",
        ("cross_entropy", (2, 3), (0, 3)): "classes between 0 and 2, one per output",
        ("logistic", (2, 1), (0, 1)): "labels -1 and 1",
        ("exponential", (2, 1), (0.3, 1)): "labels -1 and 1",
        ("mse", (2, 3), (0, 1)): r"real numbers of shape \(2, 3\)",
        ("mse", (3, 1), (0, 1)): "y has 2 labels for 3 points",
        ("mse", (2, 1), (0, float("nan"))): "y holds NaN",
        ("mse", (2, 1), ("cat", "dog")): "y must hold numbers",
    }
    for (name, shape, labels), sentence in refused.items():
        with pytest.raises(ValueError, match=sentence):
            as_labels(LOSSES[name], list(labels), shape, dtype)


def test_an_unknown_loss_lists_the_known():
    with pytest.raises(
        ValueError, match=r"unknown loss 'hinge'. Known: mse, cross_entropy, logistic, exponential"
    ):
        as_loss("hinge")
