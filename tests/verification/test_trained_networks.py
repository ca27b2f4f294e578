"""The law measured on trained networks with partners."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.networks.training.control_variates import PairedEnsemble
from finitewidth.verification.trained_networks import _covariance

X = np.array([[1.1, 0.2, -0.5], [-0.8, 1.0, 0.3], [0.1, -1.2, 0.8], [0.3, 0.6, 1.3]])
Y = np.array([0.9, -0.7, 0.5, 1.1])
X_TEST = np.array([[0.7, 0.8, 0.2], [-0.4, -0.3, 0.5]])
NET = fw.MLP((24,), "tanh", 0.1, 1.3, 0.1)
RIDGE = 1.5


@pytest.fixture(scope="module")
def measured():
    return fw.predict(NET, X, Y, X_TEST, ridge=RIDGE, method=fw.TrainedNetworks(128))


def test_networks_follow_the_mean_field(measured):
    """Two routes to the law at width 24: networks trained by descent, and neurons in their mean field."""
    law = fw.predict(NET, X, Y, X_TEST, ridge=RIDGE, method=fw.MeanField(4096))
    error = np.hypot(measured.correction.mean_error, law.correction.mean_error)
    assert (np.abs(measured.mean - law.mean) < 4 * error).all()
    error = np.hypot(measured.correction.covariance_error, law.correction.covariance_error)
    assert (np.abs(measured.covariance - law.covariance) < 4 * error).all()


def test_the_answer_is_that_of_plain_networks(measured):
    """Partners change the noise, not the mean: an ensemble without them, with fewer digits."""
    check = fw.verify(measured, networks=300)
    error = np.hypot(check.sem, measured.correction.mean_error)
    assert (np.abs(check.mean - measured.mean) < 4 * error).all()
    assert (measured.correction.mean_error < check.sem * np.sqrt(300 / 128) / 2).all()


def test_covariance_is_unbiased(rng):
    """Random numbers in place of networks: the average of many estimates is the covariance they have."""
    shape, root = (6, 2, 2, 1), np.array([[1.0, 0.0], [0.6, 0.5]])
    centre, found = np.array([[0.3], [-0.2]]), []
    for _ in range(3000):
        linear, draws = (np.einsum("ab,dsbo->dsao", root, rng.normal(size=shape)) for _ in range(2))
        outputs = linear + 0.4 * np.einsum("ab,dsbo->dsao", root, rng.normal(size=shape)) + 0.1
        nonlinear, alone = (outputs - linear).mean(axis=(0, 1)), draws.mean(axis=(0, 1))
        mean = type("Mean", (), {"value": nonlinear + alone})
        pairs = PairedEnsemble(None, None, None, mean, outputs, linear, draws, {})
        found.append(_covariance(pairs, centre).value)
    expected = (1 + 0.4**2) * root @ root.T
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - expected) < 4 * error).all()


def test_any_network_that_can_be_trained(tmp_path):
    net, y = fw.MLP((16, 16), "relu", n_out=2), np.stack([Y, -Y], axis=1)
    law = fw.predict(net, X, y, X_TEST, fw.GradientDescent(0.01, 10), method=fw.TrainedNetworks(4))
    assert law.mean.shape == (2, 2)
    law.save(tmp_path / "law.npz")
    again = fw.load(tmp_path / "law.npz")
    assert (again.provenance.method.networks, again.range) == (4, law.range)
    assert again.range.method == "TrainedNetworks"


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="in pairs: give an even number, got 5"):
        fw.TrainedNetworks(5)
    with pytest.raises(ValueError, match="networks must be a whole number of at least 4, got 2"):
        fw.TrainedNetworks(2)


def test_training_that_does_not_settle_is_told():
    with pytest.warns(UserWarning, match="networks stop at most_steps=5"):
        fw.predict(NET, X, Y, X_TEST, ridge=0.1, method=fw.TrainedNetworks(4, most_steps=5))
