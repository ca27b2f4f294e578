"""Every number of a study, its files and its words, against formulas written out here."""

import csv
import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import finitewidth as fw
from finitewidth.tables.study.files import predictions, summary
from finitewidth.tables.study.preparation import Options, Prepared, prepare
from finitewidth.tables.study.study import Choices, run_study
from finitewidth.tables.study.words import finite_width_words
from finitewidth.tables.table import Table
from left_out import left_out_by_retraining, most_probable_noise
from tolerances import SOLVE, STIFF_SOLVE, assert_close

# The noise of labels is found to this part of its logarithm, by the package and by a grid together.
NOISE = 5e-3
RIDGE = 0.7


def prepared(rows: int = 20, classes: bool = False, train: int | None = None) -> Prepared:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, rows))
    noisy = np.sin(a) + 0.5 * b + 0.4 * rng.normal(size=rows)
    target = np.where(noisy > 0, "yes", "no") if classes else 70 + 13 * noisy
    table = Table("things", {"a": a, "b": b, "y": target})
    return prepare(table, None, Options(target="y", train=train))


@pytest.fixture(scope="module")
def study():
    return run_study(prepared(), Choices((8, 8), "tanh", ridge=RIDGE))


@pytest.fixture(scope="module")
def classified():
    return run_study(prepared(40, classes=True), Choices((8,), "tanh", ridge=RIDGE))


@pytest.fixture(scope="module")
def corrected():
    """To first order in 1/width, with standard errors as if the correction had been sampled."""
    study = run_study(prepared(6, train=4), Choices((2000,), "tanh", order=1, steps=8))
    first = study.law.correction
    error = jnp.asarray([[0.003], [0.004]])
    law = dataclasses.replace(study.law, correction=dataclasses.replace(first, mean_error=error))
    return study._replace(law=law)


def kernels(study):
    return tuple(np.asarray(k) for k in fw.kernels(study.net, study.data.x_train))


def variances(study):
    """The diagonal of the whole covariance."""
    rows = study.data.x_train, study.data.y_train, study.data.x_test
    return np.diag(fw.predict(study.net, *rows, ridge=study.ridge).covariance)


def columns(study) -> dict[str, np.ndarray]:
    rows = list(csv.DictReader(predictions(study).splitlines()))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def rms(values) -> float:
    return float(np.sqrt(np.mean(np.asarray(values) ** 2)))


def test_the_file_holds_mean_and_whole_uncertainty_in_units_of_the_target(study):
    data, law, variance = study.data, study.law, variances(study)
    assert data.unit > 5
    assert study.noise > 0.05
    got = columns(study)
    total = data.unit**2 * (variance + study.noise)
    assert_close(got["std"].astype(float) ** 2, total, 1e-8)
    assert_close(study.std**2, total)
    assert_close(got["spread of networks"].astype(float) ** 2, data.unit**2 * variance, 1e-8)
    assert_close(got["predicted"].astype(float), data.center + data.unit * np.asarray(law.mean)[:, 0], 1e-9)


def test_the_label_noise_is_that_of_rows_left_out_under_the_ridge_in_use(study):
    K, Theta = kernels(study)
    mean, variance = left_out_by_retraining(K, Theta, study.data.y_train, RIDGE)
    noise, _ = most_probable_noise(mean, variance, study.data.y_train)
    assert abs(np.log(study.noise / noise)) < NOISE
    told = summary(study)["prediction"]["label noise"]
    assert_close((told / study.data.unit) ** 2, study.noise)


def test_the_summary_tells_the_mean_spread_and_the_seed(study):
    told = summary(study)
    assert_close(
        told["prediction"]["mean spread of networks"],
        study.data.unit * np.sqrt(variances(study)).mean(),
    )
    assert told["training"]["ridge"] == RIDGE
    assert told["training"]["ridge chosen on the training rows"] is False
    assert told["seed"] == 0


def test_the_largest_step_is_two_over_the_largest_curvature(study):
    _, Theta = kernels(study)
    assert_close(study.largest_eta * (np.linalg.eigvalsh(Theta)[-1] + RIDGE), 2.0)
    assert_close(study.algorithm.eta, study.largest_eta / 2)
    assert_close(summary(study)["training"]["largest stable eta"], study.largest_eta)


def test_the_ridge_is_chosen_on_the_rows_of_the_study():
    chosen = run_study(prepared(), Choices((8, 8), "tanh"))
    problem = fw.TrainingProblem.of(chosen.net, chosen.data.x_train, chosen.data.y_train, chosen.data.x_test)
    K, Theta = kernels(chosen)
    losses = []
    ridges = np.logspace(-7, 1.5, 18) * np.diag(Theta).mean()
    for ridge in ridges:
        left_out = left_out_by_retraining(K, Theta, problem.y, ridge)
        losses.append(most_probable_noise(*left_out, problem.y)[1])
    assert chosen.ridge_chosen
    assert_close(chosen.ridge, ridges[np.array(losses) <= min(losses) + 0.002].max())


def test_the_curves_are_losses_per_row_of_the_law(study):
    data = study.data
    for at in (0, 3, len(study.curves.at) - 1):
        algorithm = fw.GradientDescent(study.algorithm.eta, int(study.curves.at[at]))
        law = fw.predict(study.net, data.x_train, data.y_train, data.x_test, algorithm, ridge=RIDGE)
        expected = float(law.expected_loss(jnp.asarray(data.y_test))) / len(data.y_test)
        assert_close(study.curves.test[at], expected, SOLVE)


def test_the_alignment_is_the_share_of_the_target_in_the_modes(study):
    _, Theta = kernels(study)
    eigenvalues, V = np.linalg.eigh(Theta)
    power = (V.T @ study.data.y_train)[::-1, 0] ** 2
    assert_close(study.alignment.eigenvalues, eigenvalues[::-1] / len(Theta), STIFF_SOLVE)
    assert_close(study.alignment.cumulative_power, np.cumsum(power) / np.sum(study.data.y_train**2), SOLVE)


def test_two_classes_win_as_a_normal_difference_does(classified):
    """m_1 - m_0 with twice the variance of one output, label noise included."""
    law = classified.law
    gap = np.asarray(law.mean)[:, 1] - np.asarray(law.mean)[:, 0]
    both = 2 * (variances(classified) + classified.noise)
    assert_close(classified.probability[:, 1], stats.norm.cdf(gap / np.sqrt(both)), 1e-7)
    got = columns(classified)
    assert_close(got["probability yes"].astype(float), classified.probability[:, 1], 1e-8)


def test_the_label_noise_of_classes_is_the_most_probable(classified):
    K, Theta = kernels(classified)
    data = classified.data
    mean, variance = left_out_by_retraining(K, Theta, data.y_train, RIDGE)
    ahead = np.take_along_axis(mean, data.labels[:, None], axis=1)[:, 0]
    behind = np.take_along_axis(mean, 1 - data.labels[:, None], axis=1)[:, 0]
    noises = np.geomspace(1e-4, 1e3, 4001)
    z = (ahead - behind)[:, None] / np.sqrt(2 * (variance[:, None] + noises))
    losses = -stats.norm.logcdf(z).mean(axis=0)
    assert losses.min() < min(losses[0], losses[-1]) - 0.01
    found = np.interp(classified.noise, noises, losses)
    assert losses.min() <= found < losses.min() + 1e-4
    assert abs(np.log(classified.noise / noises[np.argmin(losses)])) < 0.1


def test_corrections_are_told_in_units_of_the_target(corrected):
    data, first = corrected.data, corrected.law.correction
    assert data.unit > 5
    got, told = columns(corrected), summary(corrected)["finite width"]
    assert_close(got["correction"].astype(float), data.unit * np.asarray(first.mean)[:, 0], 1e-8)
    assert_close(
        got["standard error of correction"].astype(float), data.unit * np.array([0.003, 0.004]), 1e-8
    )
    assert_close(told["correction of the mean (rms)"], data.unit * rms(first.mean))
    assert_close(told["standard error (rms)"], data.unit * np.sqrt((0.003**2 + 0.004**2) / 2))
    change = np.diag(np.asarray(first.covariance))
    assert_close(told["correction of the variance (rms)"], data.unit**2 * rms(change))
    for name, part in first.origin._asdict().items():
        assert_close(corrected.correction_sizes[name], data.unit * rms(part))
        assert_close(told["by origin (rms)"][name], data.unit * rms(part))


def test_words_say_by_which_share_the_variance_changes(corrected):
    """Variances 2 and 4 at infinite width, changed by 0.3 and 0.6: by 15 per cent, known to 20."""
    change, error = jnp.diag(jnp.array([0.3, 0.6])), jnp.diag(jnp.array([0.06, 0.12]))
    first = dataclasses.replace(corrected.law.correction, covariance=change, covariance_error=error)
    law = dataclasses.replace(
        corrected.law, correction=first, covariance=jnp.diag(jnp.array([2.0, 4.0])) + change
    )
    words = finite_width_words(corrected._replace(law=law))
    assert "changes by +15 % (known to 20 % by sampling)" in words
    noise = float(re.findall(r"leaves an error of (\d+) %", words)[0])
    expected = np.sqrt((0.003**2 + 0.004**2) / 2) / rms(first.mean)
    assert abs(noise - 100 * expected) <= 0.5
