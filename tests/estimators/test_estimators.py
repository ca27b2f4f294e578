import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import finitewidth as fw
from finitewidth.estimators.wide_network import NNGPClassifier, NNGPRegressor, NTKClassifier, NTKRegressor
from finitewidth.prediction.law.class_probabilities import label_noise
from finitewidth.prediction.methods.infinite_width.ridge import choose_ridge
from tolerances import assert_close

# Checks of scikit-learn that an estimator may fail, with the reason; there are none.
EXPECTED_FAILURES: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore:x_train has one row:UserWarning")
@parametrize_with_checks(
    [NTKRegressor(), NTKClassifier(), NNGPRegressor(), NNGPClassifier(), NTKRegressor(ridge="auto")],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    return rng.normal(size=(9, 3)), rng.normal(size=(9, 2)), rng.normal(size=(4, 3))


def network(**options):
    return fw.MLP((1, 1), "erf", 0.2, 1.5, **options)


PARAMETERS = {"depth": 3, "activation": "erf", "C_b": 0.2, "C_W": 1.5}


@pytest.mark.parametrize("algorithm", [None, fw.GradientFlow(0.4), fw.GradientDescent(0.05, 8)])
def test_ntk_regressor_is_predict(data, algorithm):
    x, y, x_test = data
    rates = {"lambda_b": 0.5, "lambda_W": 1.3}
    model = NTKRegressor(**PARAMETERS, **rates, ridge=0.01, algorithm=algorithm).fit(x, y)
    law = fw.predict(network(**rates), x, y, x_test, algorithm, ridge=0.01)
    mean, std = model.predict(x_test, return_std=True)
    assert_close(mean, law.mean)
    assert_close(model.predict(x_test), law.mean)
    assert_close(std, law.std)
    assert_close(model.predict(x_test, return_cov=True)[1], law.covariance)


def test_nngp_regressor_is_the_posterior(data):
    x, y, x_test = data
    model = NNGPRegressor(**PARAMETERS, noise=0.1).fit(x, y[:, 0])
    law = fw.predict(network(), x, y[:, 0], x_test, fw.BayesianInference(0.1))
    mean, covariance = model.predict(x_test, return_cov=True)
    assert mean.shape == (4,)
    assert_close(mean, law.mean[:, 0])
    assert_close(covariance, law.covariance)


def test_one_linear_layer_is_kernel_ridge(data):
    x, y, x_test = data
    model = NTKRegressor(depth=1, lambda_b=0.0, lambda_W=1.0, ridge=0.3).fit(x, y)
    ridge = KernelRidge(alpha=0.3, kernel="linear", gamma=None).fit(x / np.sqrt(3), y)
    assert_close(model.predict(x_test), ridge.predict(x_test / np.sqrt(3)))


@pytest.mark.parametrize("outputs", [1, 2])
def test_samples_have_the_predicted_moments(data, outputs):
    x, y, x_test = data
    model = NTKRegressor(**PARAMETERS).fit(x, y if outputs == 2 else y[:, 0])
    samples = model.sample_y(x_test, n_samples=4000, random_state=3)
    assert samples.shape == ((4, 2, 4000) if outputs == 2 else (4, 4000))
    mean, std = model.predict(x_test, return_std=True)
    spread = std if outputs == 1 else std[:, None]
    assert (np.abs(samples.mean(-1) - mean) < 4 * spread / np.sqrt(4000)).all()
    assert (np.abs(samples.std(-1) / spread - 1) < 4 / np.sqrt(2 * 4000)).all()
    np.testing.assert_array_equal(samples, model.sample_y(x_test, n_samples=4000, random_state=3))


def test_pipelines_and_grid_search_on_diabetes():
    x, y = load_diabetes(return_X_y=True)
    x, y = x[:150], y[:150] / 100
    search = GridSearchCV(
        make_pipeline(StandardScaler(), NTKRegressor(depth=2)),
        {"ntkregressor__ridge": [1e-6, 10.0], "ntkregressor__algorithm": [None]},
        cv=3,
    ).fit(x, y)
    assert search.best_params_["ntkregressor__ridge"] == 10.0
    assert search.best_score_ > 0.3
    assert cross_val_score(search.best_estimator_, x, y, cv=3).mean() == pytest.approx(search.best_score_)


@pytest.mark.parametrize("model", [NTKClassifier(), NNGPClassifier()])
def test_classifier_probabilities_votes_and_spread(rng, model):
    x = rng.normal(size=(60, 2))
    y = np.array(["low", "middle", "top"])[np.digitize(x[:, 0] + 0.2 * rng.normal(size=60), [-0.5, 0.5])]
    model.fit(x, y)
    x_test = rng.normal(size=(30, 2))
    probability = model.predict_proba(x_test)
    label, std = model.predict(x_test, return_std=True)
    assert_close(probability.sum(axis=1), np.ones(30))
    np.testing.assert_array_equal(model.classes_[probability.argmax(axis=1)], label)
    np.testing.assert_array_equal(model.predict(x_test), label)
    np.testing.assert_array_equal(model.classes_[model.decision_function(x_test).argmax(axis=1)], label)
    assert std.shape == (30,)
    votes = model.sample_y(x_test, n_samples=3000, random_state=0)
    assert votes.shape == (30, 3000)
    model.label_noise_ = 0.0
    share = np.stack([(votes == c).mean(axis=1) for c in model.classes_], axis=1)
    expected = model.predict_proba(x_test)
    assert (np.abs(share - expected) < 4 * np.sqrt(np.maximum(expected * (1 - expected), 1e-4) / 3000)).all()


@pytest.mark.parametrize("model", [NTKClassifier(ridge=0.1), NNGPClassifier(noise=0.1)])
def test_wrong_labels_make_the_classifier_less_sure(rng, model):
    """A fifth of the labels at random: confidence falls to the accuracy that is possible."""
    x = rng.normal(size=(900, 2))
    y = np.where(rng.random(900) < 0.2, rng.integers(2, size=900), x[:, 0] > 0)
    model.fit(x[:300], y[:300])
    probability = model.predict_proba(x[300:])
    correct = model.classes_[probability.argmax(axis=1)] == y[300:]
    assert abs(probability.max(axis=1).mean() - correct.mean()) < 4 * np.sqrt(0.9 * 0.1 / 600) + 0.02
    loss = -np.log(np.take_along_axis(probability, y[300:, None], axis=1)).mean()
    model.label_noise_ = 0.0
    bare = np.take_along_axis(model.predict_proba(x[300:]), y[300:, None], axis=1)
    assert loss < -np.log(np.maximum(bare, 1e-300)).mean() - 0.05


def test_classifiers_are_predict_on_centred_labels(data, rng):
    """Three classes, a large ridge or noise, probabilities by simulated votes."""
    x, _, x_test = data
    index = np.array([0, 1, 2, 0, 0, 1, 0, 2, 0])
    centred = np.eye(3)[index] - 1 / 3
    rates = {"lambda_b": 0.5, "lambda_W": 1.3}
    trained = NTKClassifier(**PARAMETERS, **rates, ridge=0.6).fit(x, index)
    posterior = NNGPClassifier(**PARAMETERS, noise=0.6).fit(x, index)
    for model, law in (
        (trained, fw.predict(network(**rates), x, centred, x_test, ridge=0.6)),
        (posterior, fw.predict(network(), x, centred, x_test, fw.BayesianInference(0.6))),
    ):
        assert_close(model.decision_function(x_test), np.asarray(law.mean))
        assert_close(model.predict(x_test, return_std=True)[1], np.asarray(law.std))
        spread = np.sqrt(np.diag(np.asarray(law.covariance)) + model.label_noise_)
        draws = 40_000
        votes = (np.asarray(law.mean) + spread[:, None] * rng.normal(size=(draws, 4, 3))).argmax(axis=2)
        share = np.stack([(votes == c).mean(axis=0) for c in range(3)], axis=1)
        expected = model.predict_proba(x_test)
        assert (np.abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / draws)).all()


def test_two_classes(rng):
    x = rng.normal(size=(40, 2))
    model = NNGPClassifier().fit(x, x[:, 0] > 0)
    decision = model.decision_function(x)
    assert decision.shape == (40,)
    np.testing.assert_array_equal(decision > 0, x[:, 0] > 0)


def test_survive_cloning_and_pickling(data):
    x, y, x_test = data
    model = NTKRegressor(**PARAMETERS, algorithm=fw.GradientFlow(1.0)).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x_test), model.predict(x_test))
    assert clone(model).get_params() == model.get_params()
    assert jax.config.jax_enable_x64


@pytest.mark.parametrize(
    ("model", "change", "sentence"),
    [
        (
            NTKClassifier(),
            lambda x, y: (x, y * 0),
            r"NTKClassifier needs at least two classes; the 9 rows of y hold one class, 0\.$",
        ),
        (
            NNGPClassifier(),
            lambda x, y: (x, y * 0.0),
            r"the 9 rows of y hold one class, 0\.0\.$",
        ),
        (
            NTKClassifier(),
            lambda x, y: (x, np.full(9, "red")),
            r"the 9 rows of y hold one class, 'red'\.$",
        ),
        (NTKClassifier(), lambda x, y: (x[:1], y[:1]), "the 1 rows of y hold one class"),
        (
            NTKRegressor(ridge=0),
            lambda x, y: (np.repeat(x[:5], 2, axis=0)[:9], y),
            "points 0 and 1 are equal",
        ),
        (
            NNGPRegressor(noise=0),
            lambda x, y: (np.repeat(x[:5], 2, axis=0)[:9], y),
            "points 0 and 1 are equal",
        ),
        (NTKRegressor(depth=0), lambda x, y: (x, y), "depth must be a whole number of affine layers"),
        (NTKRegressor(ridge=-1), lambda x, y: (x, y), "ridge must be .* zero or more, got -1"),
        (NTKRegressor(ridge="cv"), lambda x, y: (x, y), "ridge must be \"auto\" or a number.*got 'cv'"),
        (NTKClassifier(ridge=None), lambda x, y: (x, y), 'ridge must be "auto" or a number.*got None'),
        (NNGPRegressor(noise=-1), lambda x, y: (x, y), "noise must be .* zero or more, got -1"),
        (NTKRegressor(activation="rellu"), lambda x, y: (x, y), "rellu"),
        (NTKRegressor(algorithm="adam"), lambda x, y: (x, y), "algorithm must be GradientDescent"),
        (NTKRegressor(algorithm=fw.GradientDescent(99.0)), lambda x, y: (x, y), "not below 2/lambda_max"),
    ],
)
def test_bad_input_gets_one_sentence(rng, model, change, sentence):
    x, y = rng.normal(size=(9, 3)), rng.integers(3, size=9)
    with pytest.raises(ValueError, match=sentence):
        model.fit(*change(x, y))


@pytest.mark.parametrize("algorithm", [None, fw.GradientDescent()])
def test_a_ridge_is_chosen_as_on_the_command_line(data, algorithm):
    x, y, x_test = data
    model = NTKRegressor(**PARAMETERS, ridge="auto", algorithm=algorithm).fit(x, y)
    problem = fw.TrainingProblem.of(network(), x, y, x_test)
    chosen = choose_ridge(problem, algorithm or fw.DirectOptimization())
    assert model.ridge_ == pytest.approx(chosen.ridge)
    assert model.ridge == "auto"
    assert_close(
        model.predict(x_test), NTKRegressor(**PARAMETERS, ridge=chosen.ridge).fit(x, y).predict(x_test)
    )


def test_a_ridge_is_chosen_for_classes(data):
    x = data[0]
    labels = np.where(x[:, 0] > 0, "yes", "no")
    model = NTKClassifier(**PARAMETERS, ridge="auto").fit(x, labels)
    index = (labels == "yes").astype(int)
    problem = fw.TrainingProblem.of(network(), x, np.eye(2)[index] - 0.5, x)
    assert model.ridge_ == pytest.approx(choose_ridge(problem, fw.DirectOptimization(), index).ridge)


def test_stopping_early_takes_the_place_of_a_ridge(data):
    model = NTKRegressor(**PARAMETERS, ridge="auto", algorithm=fw.GradientFlow(0.4)).fit(*data[:2])
    assert model.ridge_ == 0
    assert NTKRegressor(**PARAMETERS, ridge=0.3).fit(*data[:2]).ridge_ == 0.3


def test_the_chosen_noise_makes_left_out_points_most_probable(data):
    x, y, _ = data
    model = NNGPRegressor(**PARAMETERS, noise="auto").fit(x, y)
    K = np.asarray(fw.kernels(network(), x).nngp)

    def retrained(noise):
        """Negative log likelihood per point, each predicted by a posterior that has not seen it."""
        loss = 0.0
        for i in range(9):
            rest = np.delete(np.arange(9), i)
            weights = np.linalg.solve(K[np.ix_(rest, rest)] + noise * np.eye(8), K[rest, i])
            variance = K[i, i] - weights @ K[rest, i] + noise
            loss += np.sum(
                0.5 * np.log(2 * np.pi * variance) + (y[i] - weights @ y[rest]) ** 2 / (2 * variance)
            )
        return loss / 9

    tried = np.mean(np.diag(K)) * np.logspace(-7, 1.5, 18)
    losses = np.array([retrained(noise) for noise in tried])
    assert model.noise_ == pytest.approx(tried[losses <= losses.min() + 0.002].max())


def test_a_noise_is_chosen_for_classes(data):
    x = data[0]
    model = NNGPClassifier(**PARAMETERS, noise="auto").fit(x, x[:, 0] > 0)
    K = np.asarray(fw.kernels(network(), x).nngp)
    index = (x[:, 0] > 0).astype(int)
    tried = np.mean(np.diag(K)) * np.logspace(-7, 1.5, 18)
    laws = [NNGPClassifier(**PARAMETERS, noise=noise).fit(x, index).law_.left_out() for noise in tried]
    losses = np.array([label_noise(left_out, index).loss for left_out in laws])
    assert model.noise_ == pytest.approx(tried[losses <= losses.min() + 0.002].max())


def test_one_row_and_every_row_its_own_class_are_warned_of(rng):
    x = rng.normal(size=(9, 3))
    with pytest.warns(UserWarning, match="x_train has one row"):
        NTKRegressor().fit(x[:1], [1.0])
    with pytest.warns(UserWarning, match="classes"):
        NTKClassifier().fit(np.repeat(x, 3, axis=0) + rng.normal(size=(27, 3)), np.arange(27))


def test_spread_and_covariance_are_not_asked_for_together(data):
    model = NTKRegressor().fit(*data[:2])
    with pytest.raises(ValueError, match="return_std or return_cov, not both"):
        model.predict(data[2], return_std=True, return_cov=True)
