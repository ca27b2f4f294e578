"""Real networks against their predicted law, and what happens when the law is wrong."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.networks.training.optimizers import anchored_descent
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.tables.sets import built_in
from finitewidth.verification.overall import LawError, planned_networks
from finitewidth.verification.stopping import stop
from tolerances import assert_close


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return tuple(jnp.asarray(rng.normal(size=shape)) for shape in ((6, 3), (6, 2), (4, 3)))


def network(*hidden: int) -> fw.MLP:
    return fw.MLP(hidden, "erf", 0.2, 1.6, 0.5, 1.2)


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_wide_networks_agree_with_their_law(data, ridge):
    law = fw.predict(network(256, 256), *data, ridge=ridge)
    check = fw.verify(law, 120, key=jax.random.key(3), dtype=jnp.float32)
    assert check.agrees, str(check)
    assert check.outputs.shape == (120, 4, 2)
    # The comparison can tell: without the ridge, or with one, the law is another.
    other = fw.predict(network(256, 256), *data, ridge=2.0 - ridge)
    means = {"predicted_mean": np.asarray(other.mean), "predicted_std": np.asarray(other.std)}
    wrong = dataclasses.replace(check, **means)
    assert not wrong.agrees


def test_a_law_with_the_wrong_spread_is_rejected(data):
    law = fw.predict(network(128), *data, fw.GradientDescent(steps=30))
    check = fw.verify(law, 200, dtype=jnp.float32)
    assert check.agrees, str(check)
    assert not dataclasses.replace(check, predicted_std=1.5 * check.predicted_std).agrees
    assert not dataclasses.replace(check, predicted_mean=check.predicted_mean + 0.5).agrees


def test_narrow_networks_disagree_and_are_told_how_much_to_expect(data):
    check = fw.verify(fw.predict(network(4, 4), *data), 300, dtype=jnp.float32)
    assert not check.agrees
    assert check.expected_difference == 3 / 4
    assert "(depth/width) = 75 %" in str(check)


def test_finite_training_is_compared_with_the_law_itself(data):
    law = fw.predict(network(64), *data, fw.GradientDescent(eta=0.05, steps=7))
    check = fw.verify(law, 10)
    assert (check.steps, check.eta, check.distance_to_end) == (7, 0.05, 0.0)
    assert_close(check.predicted_mean, law.mean)
    assert "7 steps with eta = 0.05, against infinite width" in str(check)


def test_the_law_at_the_stop_is_computed_as_the_law_was(data, monkeypatch):
    x, y, x_test = data
    method = fw.DenseTensors(tolerance=1e-4)
    law = fw.predict(network(64), x[:2], y[:2, :1], x_test[:1], order=1, method=method)
    asked = []

    def recorded(*arguments, **options):
        asked.append(options["method"])
        return law

    monkeypatch.setattr("finitewidth.verification.verify.predict", recorded)
    check = fw.verify(law, 3, dtype=jnp.float32)
    assert asked == [method]
    assert_close(check.predicted_correction, law.mean_correction, 0.0)
    assert_close(check.predicted_mean, law.mean, 0.0)


def test_flow_is_followed_with_small_steps(data):
    law = fw.predict(network(64), *data, fw.GradientFlow(1.5))
    check = fw.verify(law, 5)
    assert_close(check.eta * check.steps, 1.5)
    size = float(np.abs(law.mean).max())
    assert np.abs(check.predicted_mean - np.asarray(law.mean)).max() < 0.02 * size
    # No step is longer than a fiftieth of the largest stable one, and there is no step too many.
    largest = np.linalg.eigvalsh(fw.kernels(network(64), data[0]).ntk)[-1]
    assert check.eta * largest <= 0.04 < 1.5 * largest / (check.steps - 1)


def test_the_loss_during_training_is_that_of_the_networks(data):
    law = fw.predict(network(512), *data, fw.GradientDescent(steps=20))
    check = fw.verify(law, 100, y_test=jnp.zeros((4, 2)), dtype=jnp.float32)
    for predicted, measured, sem in (
        (check.predicted_loss.train, check.loss.train, check.loss.train_sem),
        (check.predicted_loss.test, check.loss.test, check.loss.test_sem),
    ):
        assert predicted.shape == measured.shape == (21,)
        assert (np.abs(predicted - measured) < 4 * sem + 3 / 512 * predicted).all()
    final = 0.5 * (check.outputs**2).sum(axis=(1, 2)).mean() / 4
    assert_close(check.loss.test[-1], final, 1e-5)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_losses_are_those_of_the_law_and_of_each_network(data, ridge):
    x, y, x_test = data
    net = network(24, 16)
    law = fw.predict(net, x, y, x_test, fw.GradientDescent(steps=8), ridge=ridge)
    check = fw.verify(law, 12, key=jax.random.key(5))
    assert check.expected_difference == 3 / 16
    assert check.predicted_loss.at.tolist() == list(range(9))
    for t in (0, 1, 5, 8):
        stopped = fw.predict(net, x, y, x, fw.GradientDescent(check.eta, t), ridge=ridge)
        assert_close(check.predicted_loss.train[t], float(stopped.expected_loss(y)) / 6, 1e-9)
    pair = dataclasses.replace(net, n_out=2)
    settings = {"learning_rate": check.eta}
    if ridge:
        settings = {"optimizer": anchored_descent(pair, 3, check.eta, ridge)}
    alone = fw.train_ensemble(pair, jax.random.key(5), 12, x, y, steps=8, record_every=1, **settings)
    assert_close(check.loss.train, alone.losses.mean(axis=0) / 6, 1e-9)
    deviations = alone.losses - alone.losses.mean(axis=0)
    assert_close(check.loss.train_sem, np.sqrt((deviations**2).sum(axis=0) / 11 / 12) / 6, 1e-9)


class TestStopping:
    @pytest.mark.parametrize("ridge", [0.0, 4.0])
    def test_the_step_is_half_the_largest_stable_one(self, data, ridge):
        problem = TrainingProblem.of(network(8), *data)
        law = trained_distribution(problem, fw.DirectOptimization(), ridge=ridge)
        largest = np.linalg.eigvalsh(problem.train.ntk)[-1] + ridge
        for algorithm in (fw.GradientDescent(), fw.DirectOptimization(), fw.GradientFlow()):
            chosen = stop(problem, law, algorithm, ridge, 50, 10**4)
            assert_close(chosen.algorithm.eta * largest, 1.0)

    @pytest.mark.parametrize("ridge", [0.0, 0.1])
    def test_the_law_at_the_stop_is_as_near_the_end_as_it_says(self, data, ridge):
        problem = TrainingProblem.of(network(8), *data)
        end = trained_distribution(problem, fw.DirectOptimization(), ridge=ridge)
        chosen = stop(problem, end, fw.GradientDescent(), ridge, 50, 10**6)
        near = trained_distribution(problem, chosen.algorithm, ridge=ridge)
        rms = lambda a: float(jnp.sqrt(jnp.mean(a**2)))
        moved = rms(near.mean - end.mean) / (rms(end.std) / math.sqrt(50))
        assert_close(chosen.distance_to_end, moved, 1e-8)
        assert moved <= 0.1
        earlier = trained_distribution(
            problem, chosen.algorithm.stopped(chosen.algorithm.steps - 1), ridge=ridge
        )
        assert rms(earlier.mean - end.mean) / (rms(end.std) / math.sqrt(50)) > 0.1

    def test_a_cap_on_the_steps_is_kept_and_reported(self, data):
        check = fw.verify(fw.predict(network(32), *data), 5, most_steps=3)
        assert check.steps == 3
        assert check.distance_to_end > 0.1
        assert "training on to the end would move the mean" in str(check)
        assert_close(
            check.predicted_mean, fw.predict(network(32), *data, fw.GradientDescent(check.eta, 3)).mean
        )

    @pytest.mark.parametrize(("size", "share"), [(0.05, 1e-2), (30.0, None), (500.0, 1e-3)])
    def test_moved_features_settle_at_the_pace_of_the_ridge(self, data, size, share):
        """The mean of infinite width has long arrived when the correction has not."""
        problem, ridge = TrainingProblem.of(network(8), *data), 0.1
        end = trained_distribution(problem, fw.DirectOptimization(), ridge=ridge)
        error = rms(end.std) / math.sqrt(50)
        shift = size * error * jnp.ones_like(end.mean)
        law = end.corrected(Correction(mean=shift, mean_error=jnp.zeros_like(shift)))
        early, late = (
            stop(problem, law, fw.GradientDescent(), ridge, 50, 10**6, settle=settle)
            for settle in (False, True)
        )
        left = lambda steps: (1 - late.algorithm.eta * ridge) ** steps
        assert early.unsettled == 0.0
        assert left(late.algorithm.steps) <= (share or 0.1 / size) < left(late.algorithm.steps - 1)
        assert_close(late.unsettled, left(late.algorithm.steps))
        assert late.algorithm.steps > early.algorithm.steps


def test_with_a_ridge_the_first_order_is_that_of_the_end(data):
    x, y, x_test = (a[:2] for a in data)
    law = fw.predict(network(512), x, y, x_test, order=1, ridge=0.3)
    check = fw.verify(law, 3)
    assert 0 < check.unsettled <= 1e-2
    assert_close(check.predicted_correction, np.asarray(law.mean_correction))
    assert_close(check.infinite_std, fw.predict(network(512), x, y, x_test, ridge=0.3).std)
    assert_close(
        check.infinite_std_ratio.value / check.std_ratio.value, rms(law.std) / rms(check.infinite_std)
    )
    assert "at the end of training" in str(check)
    assert "settle at the pace of the ridge" in str(check)
    hurried = fw.verify(law, 3, most_steps=5)
    assert_close(hurried.unsettled, (1 - 0.3 * hurried.eta) ** 5)
    stopped = fw.predict(network(512), x, y, x_test, fw.GradientDescent(steps=5), order=1, ridge=0.3)
    assert fw.verify(stopped, 3).unsettled == 0.0


def rms(values):
    return float(np.sqrt(np.mean(np.asarray(values) ** 2)))


def test_anchored_descent_ends_at_ridge_regression(data):
    """On a network without hidden layers the trained function is known in closed form."""
    x, y, x_test = data
    net = fw.MLP((), "linear", 0.3, 1.1, 0.7, 1.3, n_out=2)
    params = net.init(jax.random.key(0), 3)
    run = fw.train(net, params, x, y, steps=4000, optimizer=anchored_descent(net, 3, 0.05, 0.4))
    features = jnp.concatenate([jnp.sqrt(1.3 / 3) * x, jnp.sqrt(0.7) * jnp.ones((6, 1))], axis=1)
    at_test = jnp.concatenate([jnp.sqrt(1.3 / 3) * x_test, jnp.sqrt(0.7) * jnp.ones((4, 1))], axis=1)
    moved = jnp.linalg.solve(
        features.T @ features + 0.4 * jnp.eye(4), features.T @ (y - net.apply(params, x))
    )
    assert_close(net.apply(run.params, x_test), net.apply(params, x_test) + at_test @ moved, 1e-9)


@pytest.mark.parametrize(
    ("law", "sentence"),
    [
        (lambda d: dataclasses.replace(fw.predict(network(4), *d), provenance=None), "must come from"),
        (lambda d: fw.predict(network(4), *d, fw.BayesianInference(0.1)), "law is a posterior"),
        (lambda d: fw.predict(network(4), *d, initial=lambda x: x[:, :2]), "random start"),
        (lambda d: fw.predict(fw.MLP((), "linear", 0.1, 1.0), *d, ridge=0.1), "no hidden layer"),
    ],
)
def test_laws_that_no_training_reaches(data, law, sentence):
    with pytest.raises(ValueError, match=sentence):
        fw.verify(law(data), 5)


def test_two_networks_are_too_few(data):
    with pytest.raises(ValueError, match="networks must be at least 3 to have a spread, got 2"):
        fw.verify(fw.predict(network(4), *data), 2)


def test_networks_tell_how_much_of_the_correction_they_follow(data, rng):
    check = fw.verify(fw.predict(network(64), *data, fw.GradientDescent(steps=3)), 3)
    assert check.correction_ratio is None
    with pytest.raises(ValueError, match="order 0"):
        check.shift_by_group(2)

    infinite, correction = rng.normal(size=(2, 4, 2))
    common = rng.normal(size=(500, 1, 1))
    outputs = infinite + 0.7 * correction + 0.3 * common * np.ones((4, 2))
    means = {"predicted_mean": infinite + correction, "predicted_correction": correction}
    check = dataclasses.replace(check, networks=500, outputs=outputs, **means)
    followed = check.correction_ratio
    sem = 0.3 * abs(correction.sum()) / np.sum(correction**2) / math.sqrt(500)
    assert_close(followed.sem, sem * common.std(ddof=1))
    assert abs(followed.value - 0.7) < 4 * followed.sem
    assert f"{followed.value:.2f} +- {followed.sem:.2f} times the predicted one" in str(check)

    predicted, measured, bars = check.shift_by_group(4)
    assert (np.diff(predicted) > 0).all()
    assert_close(predicted.mean(), correction.mean())
    # What all outputs of a network share does not average out within a group.
    assert_close(bars, np.full(4, 0.3 * common.std(ddof=1) / math.sqrt(500)))
    assert_close(measured, 0.7 * predicted + 0.3 * common.mean())
    assert len(check.shift_by_group(100)[0]) == correction.size


def test_the_correction_is_computed_again_by_the_method_of_the_law(data):
    """Training to the end is compared with the law at the last step, by as coarse a quadrature as asked."""
    x, y, x_test = (a[:2] for a in data)
    method = fw.DenseTensors(tolerance=0.1)
    net = network(512)
    law = fw.predict(net, x, y, x_test, fw.GradientDescent(), order=1, method=method)
    check = fw.verify(law, 3)
    descent = fw.GradientDescent(check.eta, check.steps)
    again, dense = (fw.predict(net, x, y, x_test, descent, order=1, method=m) for m in (method, None))
    assert_close(check.predicted_correction, np.asarray(again.mean_correction))
    assert np.abs(check.predicted_correction - np.asarray(dense.mean_correction)).max() > 0


def test_the_spread_of_narrow_networks_is_that_of_the_first_order():
    """Two hidden layers of 32 on five patients: infinite width misses 13 per cent of the spread."""
    diabetes = built_in("diabetes")
    train, test = [61, 47, 42, 9], [32]
    net = fw.MLP((32, 32), "tanh", 0.1, 1.3, 0.1)
    data = (diabetes.x[train], diabetes.y[train], diabetes.x[test])
    with pytest.warns(UserWarning, match="not small"):
        check = fw.verify(fw.predict(net, *data, order=1), 1500, dtype=jnp.float32)
    assert check.agrees, str(check)
    infinite = fw.predict(net, *data, fw.GradientDescent(check.eta, check.steps))
    assert not dataclasses.replace(check, predicted_std=np.asarray(infinite.std)).agrees


def test_enough_networks_notice_what_was_asked(data):
    """Narrow networks differ more from each other than was planned for, and more of them are trained."""
    law = fw.predict(network(10), *data, fw.GradientDescent(steps=3))
    planned = planned_networks(
        0.1,
        np.asarray(law.covariance),
        2,
        2 / 10,
        LawError.of(np.asarray(law.covariance), 2 / 10, None, None),
    )
    check = fw.verify(law, detect=0.1, dtype=jnp.float32)
    assert check.detectable <= 0.1
    assert check.networks > planned
    assert len(check.outputs) == check.networks
    assert len(np.unique(check.outputs[:, 0, 0])) == check.networks
    first = fw.verify(law, planned, dtype=jnp.float32)
    assert_close(check.outputs[:planned], first.outputs, 0.0)
    assert first.detectable > 0.1
    wide = fw.predict(network(2000), *data, fw.GradientDescent(steps=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("finitewidth.verification.verify._DETECT", 0.3)
        assert fw.verify(wide, "enough", dtype=jnp.float32).detectable <= 0.3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"networks": 100, "detect": 0.1}, "give networks, a number, or detect; not both: got 100 and 0.1"),
        ({"networks": "many"}, "networks must be a whole number or \"enough\", got 'many'"),
        ({"detect": 0}, "detect must be a positive number, got 0"),
    ],
)
def test_a_wrong_number_of_networks_is_refused(data, settings, sentence, unchecked_annotations):
    with pytest.raises(ValueError, match=sentence):
        fw.verify(fw.predict(network(4), *data), **settings)
