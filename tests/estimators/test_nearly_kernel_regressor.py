import pickle

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import finitewidth as fw
from finitewidth.estimators.nearly_kernel_regressor import NearlyKernelRegressor
from finitewidth.tables.sets import built_in
from tolerances import SOLVE, assert_close

EXPECTED_FAILURES: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore:the quadratic correction is:UserWarning")
@pytest.mark.filterwarnings("ignore:the best epsilon, :UserWarning")
@parametrize_with_checks(
    [NearlyKernelRegressor(neurons=16), NearlyKernelRegressor(neurons=16, epsilon=0.1)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    x = rng.uniform(-2, 2, size=(220, 2))
    y = np.stack([np.sin(2 * x[:, 0]) * x[:, 1], np.cos(x[:, 0])], axis=1)
    return x[:120], y[:120], x[120:], y[120:]


def test_no_epsilon_is_kernel_ridge_regression(data):
    x, y, x_test, _ = data
    model = NearlyKernelRegressor(epsilon=0.0, ridge=0.1).fit(x, y)
    neurons = model.source_.neurons
    kernel = lambda a, b: neurons.kernel(neurons.at(np.atleast_2d(a)), neurons.at(np.atleast_2d(b)))
    ridge = KernelRidge(alpha=0.1 * model.scale_, kernel="precomputed").fit(kernel(x, x), y - y.mean(axis=0))
    assert_close(model.predict(x_test), ridge.predict(kernel(x_test, x)) + y.mean(axis=0), SOLVE)
    assert model.feature_share_ == 0.0


def test_a_given_model_is_the_nearly_kernel_machine(data):
    x, y, x_test, _ = data
    phi = lambda points: np.concatenate(
        [np.cos(np.asarray(points) @ W + b), np.sin(np.asarray(points) @ W)], axis=1
    )
    rng = np.random.default_rng(0)
    W, b, mix = rng.normal(size=(2, 30)), rng.uniform(0, 6, 30), rng.normal(size=(60, 60)) / 60
    psi = lambda points: np.einsum("nl,jl,kl->njk", phi(points), mix, mix)
    quadratic = fw.QuadraticModel(phi, psi)
    flow = fw.GradientFlow()
    model = NearlyKernelRegressor(model=quadratic, epsilon=0.2, algorithm=flow, ridge=0.01).fit(x, y)
    machine = fw.nearly_kernel_machine(
        fw.QuadraticModel(phi, psi, 0.2), x, y - y.mean(axis=0), x_test, flow, ridge=0.01 * model.scale_
    )
    assert_close(model.predict(x_test), machine.prediction + y.mean(axis=0), SOLVE)


@pytest.mark.parametrize("order", [1, 2])
def test_cross_validation_finds_the_best_epsilon_of_its_folds(data, order):
    x, y, _, _ = data
    chosen = NearlyKernelRegressor(neurons=64, order=order).fit(x, y)
    errors = {}
    for factor in (0.99, 1.0, 1.01):
        total = 0.0
        for train, held in KFold(5, shuffle=True, random_state=chosen._seed_).split(x):
            # The folds share the neurons, the mean and the scale of the ridge of the whole set.
            fold = NearlyKernelRegressor(neurons=64, epsilon=factor * chosen.epsilon_, order=order)
            fold._shape_, fold._seed_ = (2,), chosen._seed_
            fold.offset_, fold.X_, fold.targets_ = chosen.offset_, x[train], y[train] - chosen.offset_
            fold._prepare()
            fold.scale_ = chosen.scale_
            series = fold._series(fold.points_, fold.targets_, fold.source_.at(x[held]))
            total += np.sum((series.at(fold.epsilon) - (y[held] - chosen.offset_)) ** 2)
        errors[factor] = total
    assert errors[1.0] < min(errors[0.99], errors[1.01])


def test_the_feature_share_is_that_of_the_outputs_at_the_training_points(data):
    x, y, _, _ = data
    fixed, learned = (NearlyKernelRegressor(neurons=64, epsilon=e).fit(x, y) for e in (0.0, 0.3))
    linear = fixed.predict(x) - y.mean(axis=0)
    correction = np.abs(learned.predict(x) - fixed.predict(x)).sum()
    assert_close(learned.feature_share_, correction / (correction + np.abs(linear).sum()), SOLVE)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("epsilon", ["cv", "epsilon*"])
def test_learned_features_help_on_a_product_of_inputs(data, order, epsilon):
    x, y, x_test, y_test = data
    fixed = NearlyKernelRegressor(epsilon=0.0).fit(x, y[:, 0])
    learned = NearlyKernelRegressor(epsilon=epsilon, order=order).fit(x, y[:, 0])
    assert learned.epsilon_ != 0
    assert learned.score(x_test, y_test[:, 0]) > fixed.score(x_test, y_test[:, 0]) + 0.02
    machine = learned.explain(x_test)
    assert_close(machine.prediction[:, 0] + learned.offset_[0], learned.predict(x_test))
    assert 0 < learned.feature_share_ < 1


def test_on_diabetes_it_does_not_lose_to_fixed_features():
    data = built_in("diabetes")
    x, y = data.x[:220], data.y[:220, 0]
    fixed, learned = (
        cross_val_score(NearlyKernelRegressor(neurons=128, gain=0.7, epsilon=e, ridge=0.3), x, y, cv=4).mean()
        for e in (0.0, "cv")
    )
    assert learned > fixed - 0.01


def test_an_epsilon_out_of_reach_is_cut_with_a_warning():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    with pytest.warns(UserWarning, match=r"the best epsilon, \S+, would make .* is used in its place"):
        NearlyKernelRegressor(neurons=100, ridge=0.1, epsilon="epsilon*").fit(x, y)


def test_pickles(data):
    x, y, x_test, _ = data
    model = NearlyKernelRegressor(neurons=32, order=2).fit(x, y)
    assert_close(pickle.loads(pickle.dumps(model)).predict(x_test), model.predict(x_test))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"order": 3}, "order must be 1 or 2, got 3"),
        ({"epsilon": "best"}, "epsilon must be a number, .* got 'best'"),
        ({"algorithm": "sgd"}, "algorithm must be GradientDescent.* got 'sgd'"),
        ({"order": 2, "algorithm": fw.GradientFlow()}, "order=2 is known for direct optimisation only"),
        ({"ridge": -1.0}, "ridge must be zero or more"),
    ],
)
def test_bad_settings(data, options, match):
    with pytest.raises(ValueError, match=match):
        NearlyKernelRegressor(neurons=8, **options).fit(data[0], data[1])
