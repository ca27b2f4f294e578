"""The standard errors of sampled corrections, and the keys that keep samples independent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import finitewidth as fw
from finitewidth.prediction.methods.first_order.kernel_variance import sampled_kernel_variance
from finitewidth.prediction.methods.first_order.sampled import stratified
from finitewidth.prediction.methods.first_order.sampled.covariance import sampled_covariance
from finitewidth.prediction.methods.first_order.sampled.mean import sampled_mean
from finitewidth.prediction.methods.first_order.sampled.stratified import Aim, Sampling
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.hidden_layers import layer_kernels
from tolerances import assert_close


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(3, 1))
    net = fw.MLP((64,), "tanh", 0.2, 1.3, 0.2, 1.0)
    kernels = layer_kernels(net, x)
    modes = TrainingModes.of(kernels.K, kernels.Theta, y, fw.GradientFlow())
    return Sampling.of(kernels, modes, jnp.float32)


@pytest.mark.parametrize("sampled", [sampled_mean, sampled_covariance])
def test_no_batch_is_drawn_again(problem, monkeypatch, sampled):
    """Batches of 32 samples, so that a round takes many of them."""
    found, draw = [], stratified.drawn

    def recorded(*arguments):
        batch = draw(*arguments)
        found.append(float(batch.derivatives[0][0, 0, 0]))
        return batch

    monkeypatch.setattr(stratified, "drawn", recorded)
    rounds = []
    progress = lambda done, error: rounds.append(error)
    sampled(problem._replace(rows=32), Aim(0.01, 6000), np.random.default_rng(1), progress)
    assert len(rounds) > 1
    assert len(found) > 50
    assert len(set(found)) == len(found)


def test_the_error_of_the_mean_is_the_scatter_between_runs(problem):
    runs = 24
    found = [
        sampled_mean(problem._replace(rows=64), Aim(0.2, 10**6), np.random.default_rng(seed))
        for seed in range(runs)
    ]
    scatter = np.var([run.origins.total for run in found], axis=0, ddof=1)
    stated = np.mean([run.standard_error**2 for run in found], axis=0)
    # Outputs at the test points may all move together: a variance of so many runs, once in a thousand times.
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], runs - 1) / (runs - 1)
    assert low < scatter.mean() / stated.mean() < high
    for run in found:
        assert_close(run.standard_error**2, sum(error**2 for error in run.standard_errors))
        assert not run.standard_errors.mean_ntk.any()


def test_the_error_of_the_covariance_adds_up_all_strata(problem, monkeypatch):
    made, strata = [], Sampling.strata
    monkeypatch.setattr(Sampling, "strata", lambda *a: made.extend(strata(*a)) or list(made))
    found = sampled_covariance(problem, Aim(0.2, 6000), np.random.default_rng(2))
    assert len(made) > 5
    assert sum(s.count for s in made) == found.samples
    squared = 0.0
    for s in made:
        mean = s.sums / s.count
        squared = squared + s.scale**2 * (s.squares - s.count * mean**2) / (s.count - 1) / s.count
    assert_close(found.standard_error**2, squared, 1e-6)


def test_predict_divides_the_errors_by_the_width(problem):
    """The law's fields are those of the samples of its key, over the width of 64 * 100 neurons."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(3, 1))
    method = fw.SampledNeurons(0.5, most_samples=2000, covariance_error=0.5, key=jax.random.key(3))
    n = 6400
    net = fw.MLP((n,), "tanh", 0.2, 1.3, 0.2, 1.0)
    law = fw.predict(net, x[:3], y, x[3:], fw.GradientFlow(), order=1, method=method)
    kernels = layer_kernels(net, x)
    modes = TrainingModes.of(kernels.K, kernels.Theta, y, fw.GradientFlow())
    sampling, aim = Sampling.of(kernels, modes, jnp.float32), Aim(0.5, 2000)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(method.key)).tolist())
    sampled = sampled_mean(sampling, aim, rng)
    sampled_kernel_variance(sampling, rng)
    spread = sampled_covariance(sampling, aim, rng)
    first = law.correction
    assert_close(n * first.mean_error, sampled.standard_error, 1e-6)
    for part, expected in zip(first.origin_error, sampled.standard_errors, strict=True):
        assert_close(n * part, expected, 1e-6, scale=sampled.standard_error.max())
    for part, expected in zip(first.origin, sampled.origins, strict=True):
        assert_close(n * part, expected, 1e-6, scale=np.abs(sampled.origins.total).max())
    assert_close(n * first.covariance, spread.coefficient, 1e-6)
    assert_close(n * first.covariance_error, spread.standard_error, 1e-6)
    assert first.samples == sampled.samples + spread.samples
    assert_close(law.mean_correction_error**2, sum(np.asarray(e) ** 2 for e in first.origin_error), 1e-6)
