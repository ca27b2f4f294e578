"""Gradient noise, fluctuation and dissipation, noisy labels: on losses whose answers are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.course.stochastic_gradients.networks.fluctuation_dissipation import fluctuation_dissipation
from finitewidth.course.stochastic_gradients.networks.label_noise import label_noise_runs
from finitewidth.course.stochastic_gradients.theory.least_squares import least_squares_steady_state
from finitewidth.measure.loss.gradient_noise import gradient_noise

KEY = jax.random.key(3)


def loss(params, batch):
    x, y = batch
    return 0.5 * jnp.mean((x @ params["w"] - y) ** 2)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return rng.normal(size=(12, 2)), rng.normal(size=12)


def test_gradients_and_hessian_of_a_regression(data):
    x, y = data
    w = np.array([0.3, -0.2])
    found = gradient_noise(loss, {"w": jnp.asarray(w)}, data)
    g = (x @ w - y)[:, None] * x
    np.testing.assert_allclose(found.gradients, g, rtol=1e-12)
    np.testing.assert_allclose(found.hessian, x.T @ x / 12, rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(g.T, bias=True), rtol=1e-12)
    assert found.noise_scale == pytest.approx(np.trace(np.cov(g.T, bias=True)) / np.sum(g.mean(axis=0) ** 2))
    best = np.linalg.lstsq(found.hessian.reshape(-1, 1), found.covariance.ravel(), rcond=None)
    assert found.alpha == pytest.approx(best[0][0])
    assert found.departure == pytest.approx(np.sqrt(best[1][0]) / np.linalg.norm(found.covariance))


@pytest.mark.parametrize("sampling", ["without replacement", "with replacement"])
def test_steady_state_of_a_regression(data, sampling):
    """Every number against the exact one, |z| < 4."""
    exact = least_squares_steady_state(*data, batch_size=3, eta=0.3, sampling=sampling)
    run = fluctuation_dissipation(
        loss, {"w": jnp.asarray(exact.minimiser)}, data, batch_size=3, learning_rate=0.3, steps=1200,
        burn_in=100, key=KEY, sampling=sampling, chains=64, keep_positions=True,
    )  # fmt: skip
    base = 0.5 * np.mean((data[0] @ exact.minimiser - data[1]) ** 2)
    pairs = (
        (run.dissipation, exact.dissipation),
        (run.fluctuation, 0.15 * np.trace(exact.gradient_moment)),
        (run.loss, base + exact.excess_loss),
        (run.ratio, 1.0),
        (run.covariance, exact.covariance),
    )
    for found, right in pairs:
        assert np.all(np.abs(found.value - right) < 4 * found.sem)
        assert np.all(found.sem < 0.05 * np.abs(np.trace(np.atleast_2d(right))))


def test_passes_dissipate_less(data):
    """A shuffled pass takes back at its end what it did at its beginning."""
    run = fluctuation_dissipation(
        loss, {"w": jnp.zeros(2)}, data, batch_size=3, learning_rate=0.1, steps=1200, burn_in=200, key=KEY,
        sampling="passes", chains=32,
    )  # fmt: skip
    assert run.ratio.value < 0.5
    with pytest.raises(ValueError, match="keep_positions=True"):
        run.covariance  # noqa: B018


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"batch_size": 13}, "batch_size=13 is larger than the data of 12 points"),
        ({"learning_rate": 50.0}, "learning_rate=50 is beyond stability"),
        ({"sampling": "often"}, "sampling must be one of"),
        ({"chains": 1}, "chains must be a whole number of at least 2"),
    ],
)
def test_wrong_input(data, changed, sentence):
    settings = {"batch_size": 3, "learning_rate": 0.1, "steps": 600, "burn_in": 10, "key": KEY, "chains": 2}
    with pytest.raises(ValueError, match=sentence):
        fluctuation_dissipation(loss, {"w": jnp.zeros(2)}, data, **(settings | changed))


def test_wrong_data(data):
    with pytest.raises(ValueError, match="one row for each point"):
        gradient_noise(loss, {"w": jnp.zeros(2)}, (data[0], data[1][:5]))
    with pytest.raises(ValueError, match="loss must return one number"):
        gradient_noise(lambda p, b: b[0] @ p["w"], {"w": jnp.zeros(2)}, data)


def test_noisy_labels_of_a_linear_model_are_a_steady_state():
    """f = w: the loss stays at half of eta sigma^2/(b (2 - eta)), and the trace is one."""
    x, y = np.ones((4, 1)), np.full(4, 0.7)
    run = label_noise_runs(
        lambda w, x: x @ w, jnp.array([0.7]), x, y, noise_std=0.5, batch_size=2, learning_rate=0.4, steps=400,
        key=KEY, chains=512, record_every=40,
    )  # fmt: skip
    assert run.times.tolist() == list(range(0, 401, 40))
    late = run.loss
    right = 0.5 * 0.4 * 0.25 / (2 * (2 - 0.4))
    assert np.all(np.abs(late.value[3:] - right) < 4 * late.sem[3:])
    np.testing.assert_allclose(run.traces, 1.0)
    with pytest.raises(ValueError, match="batch_size=5 is larger than the data of 4 points"):
        label_noise_runs(
            lambda w, x: x @ w, jnp.array([0.7]), x, y, noise_std=0.5, batch_size=5, learning_rate=0.4,
            steps=4, key=KEY,
        )  # fmt: skip
