"""The law of order n^(-1/2) of trained networks with kinks: reference numbers, one algorithm by another."""

import dataclasses
import json
import math
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.methods.kinks.schedule import schedule
from finitewidth.prediction.methods.kinks.window_map import Paths, window_integrals
from tolerances import CLOSED_FORM, assert_close

CASES = json.loads((Path(__file__).parents[1] / "reference" / "relu.json").read_text())["cases"]
HARD_TANH = fw.Activation(lambda z: jnp.clip(z, -1, 1), "hard_tanh", kink_places=(-1, 1))
# Five or six printed digits, and absolute accuracies that the reference states.
PRINTED = 6e-6
WIDTH = 65_536

pytestmark = pytest.mark.filterwarnings("ignore:x_train has one row", "ignore:the expansion in 1/sqrt")


def case(name: str) -> dict:
    return next(c for c in CASES if c["name"].startswith(name))


def activation(name: str):
    if name.startswith("piecewise linear: slope"):
        return f"leaky_relu:{name.split()[3]}"
    return {"clip(z, -1, 1)": HARD_TANH, "|z|": "abs", "elu, alpha 1": "elu"}.get(name, name.split(",")[0])


def coefficient(c: dict, algorithm=None, method=None, **change) -> tuple[np.ndarray, np.ndarray, object]:
    """Mean and covariance, times the square root of the width, and the law."""
    inputs = c["inputs"] | change
    x, y, x_test = (np.array(inputs[name], float) for name in ("x_train", "y", "x_test"))
    hidden = (WIDTH, WIDTH) if "hidden_widths" in inputs else (WIDTH,)
    scales = (inputs[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W"))
    net = fw.MLP(hidden, activation(inputs["activation"]), *scales)
    if c["points"].startswith("training"):
        x_test = np.concatenate([x, x_test])
    algorithm = algorithm or fw.GradientDescent(inputs["eta"])
    law = fw.predict(net, x, y, x_test, algorithm, order="1/2", ridge=inputs.get("ridge", 0.0), method=method)
    root = math.sqrt(WIDTH)
    return root * np.asarray(law.mean_correction)[:, 0], root * np.asarray(law.covariance_correction), law


ONE_POINT = ["N1 ReLU, y = 0.9", "N1 ReLU, y = 4.0", "N1 leaky ReLU, slopes 0.2", "N1 hard", "N1 SELU"]


@pytest.mark.parametrize("name", ONE_POINT)
def test_one_point_in_closed_form(name):
    c = case(name)
    for algorithm, word in ((fw.GradientFlow(), "gradient flow"), (None, "steps")):
        mean, covariance, law = coefficient(c, algorithm)
        assert_close(mean, np.array(c["coefficient"][word]), PRINTED)
        assert_close(covariance, np.array(c["coefficient"][f"covariance, {word}"]), PRINTED)
        assert law.correction.samples == 0


def test_an_absolute_value_is_held_at_its_kink():
    """At half the stable step every hop is half of what is left: the end is the kink, as with a flow."""
    c = case("N1 absolute")
    mean, covariance, _ = coefficient(c, fw.GradientFlow())
    assert_close(mean, np.array(c["coefficient"]["gradient flow"]), PRINTED)
    assert_close(covariance, np.array(c["coefficient"]["covariance, gradient flow"]), PRINTED)
    hopping, _, _ = coefficient(c)
    assert_close(hopping, mean, 1e-4)
    # The stored value of these steps lies 4.9e-4 above the flow's, more than the 1e-4 that it states.
    assert_close(hopping, np.array(c["coefficient"]["steps"]), 6e-4)


@pytest.mark.parametrize("name", ["N2 ReLU", "N2 leaky"])
def test_two_points_by_quadrature(name):
    c = case(name)
    for algorithm, word in ((fw.GradientFlow(), "gradient flow"), (None, "steps")):
        mean, covariance, _ = coefficient(c, algorithm)
        np.testing.assert_allclose(mean, c["coefficient"][word], atol=1e-6)
        np.testing.assert_allclose(covariance, c["coefficient"][f"covariance, {word}"], atol=1e-6)


def test_three_points_by_quadrature():
    c = case("N3")
    mean, covariance, _ = coefficient(c, fw.GradientFlow())
    np.testing.assert_allclose(mean, c["coefficient"]["gradient flow"], atol=5e-6)
    np.testing.assert_allclose(covariance, c["coefficient"]["covariance, gradient flow"], atol=5e-6)


@pytest.mark.parametrize("name", ["N1 ReLU with ridge", "N1 leaky ReLU (0.3, 1) with ridge"])
def test_the_stationary_point_with_a_ridge(name):
    """The training point is among the test points; with steps neurons hop about the kink to the end."""
    c = case(name)
    mean, covariance, _ = coefficient(c, fw.GradientFlow())
    assert_close(mean, np.array(c["coefficient"]["stationary point with the ridge"]), PRINTED)
    assert_close(covariance, np.array(c["coefficient"]["covariance, stationary point"]), PRINTED)
    steps, _, _ = coefficient(c)
    assert_close(steps, np.array(c["coefficient"]["steps"]), 1e-3)


def test_large_steps_with_a_ridge_end_where_they_stop():
    """Neurons hop about the kink to the end; taking the last steps together would hold them there."""
    c = case("N1 ReLU with ridge")
    end, _, _ = coefficient(c, fw.GradientDescent(0.27))
    late = [coefficient(c, fw.GradientDescent(0.27, steps))[0] for steps in (58, 59, 60, 61)]
    assert_close(end[1:], np.mean(late, axis=0)[1:], 0.02)


def test_two_points_with_a_ridge():
    c = case("N2 ReLU with ridge")
    mean, _, _ = coefficient(c, fw.GradientFlow())
    np.testing.assert_allclose(mean, c["coefficient"]["stationary point with the ridge"], atol=1e-5)


def test_two_hidden_layers():
    c = case("two hidden")
    for algorithm, word, tolerance in (
        (fw.GradientFlow(), "gradient flow", PRINTED),
        (None, "steps (eta Theta = 0.5)", 3e-4),
    ):
        mean, _, _ = coefficient(c, algorithm)
        assert_close(mean, np.array(c["coefficient"][word]), tolerance)


def within(value, error, expected, expected_error=0.0) -> bool:
    return bool(np.all(np.abs(value - expected) <= 3 * np.hypot(error, expected_error)))


def test_sampling_meets_quadrature(monkeypatch):
    """With steps, a flow and a ridge, of mean and covariance: no number depends on how it is computed."""
    root, settings = math.sqrt(WIDTH), fw.KinkWindows(0.02, 1024)
    cases = [(case("N2 ReLU"), None), (case("N2 ReLU with ridge"), fw.GradientFlow())]
    exact = [coefficient(c, algorithm) for c, algorithm in cases]
    monkeypatch.setattr("finitewidth.prediction.methods.kinks.method.MOST_POINTS", 1)
    for (c, algorithm), (mean, covariance, _) in zip(cases, exact, strict=True):
        found, spread, law = coefficient(c, algorithm, settings)
        assert law.correction.samples >= 64
        assert within(found, root * np.asarray(law.mean_correction_error)[:, 0], mean)
        assert within(spread, root * np.asarray(law.covariance_correction_error), covariance)


def test_sampling_meets_the_reference():
    c = case("N10")
    mean, _, law = coefficient(c, method=fw.KinkWindows(0.02, 1536, jax.random.key(3)))
    error = math.sqrt(WIDTH) * np.asarray(law.mean_correction_error)[:, 0]
    assert within(mean, error, np.array(c["coefficient"]["steps"]), np.array(c["coefficient_se"]["steps"]))
    assert (error < 0.15 * np.abs(mean).max()).all()


def test_stopped_training_ends_where_training_ends():
    """And a stopped flow is what small steps do."""
    c = case("N2 ReLU")
    end, spread, _ = coefficient(c)
    late, late_spread, _ = coefficient(c, fw.GradientDescent(c["inputs"]["eta"], 150))
    assert_close(late, end, 1e-4)
    assert_close(late_spread, spread, 1e-4)
    early, _, _ = coefficient(c, fw.GradientFlow(2.0))
    steps, _, _ = coefficient(c, fw.GradientDescent(0.02, 100))
    assert np.abs(steps - early).max() < 0.03 * np.abs(end).max()
    assert np.abs(early - end).max() > 0.2 * np.abs(end).max()


def test_stopped_training_of_one_point():
    """A flow that stops: all displacements share the factor g = 1 - exp(-Theta t), A and B its square."""
    c = case("N1 ReLU, y = 0.9")
    time, rate = 0.7, 1.35
    end, _, _ = coefficient(c, fw.GradientFlow())
    found, _, _ = coefficient(c, fw.GradientFlow(time))
    kernel = np.array([0.363557206832, 0.113736384901]) / rate
    # From c = S - m B at the end, with B the number below, to S g^2 - m B h with the answer to a growing B.
    inputs = c["inputs"]
    K, y = 1.1, inputs["y"][0]
    cube, density = 2 * math.sqrt(2 / math.pi) * 2**1.5, 1 / math.sqrt(2 * math.pi * K)
    rho = -y / math.sqrt(K)
    size = K * (
        (1 + rho**2) * math.erf(rho / math.sqrt(2))
        + 2 * rho * math.exp(-(rho**2) / 2) / math.sqrt(2 * math.pi)
    )
    B = cube / 4 * density * (0.7 / rate) ** 2 * size
    decay = math.exp(-rate * time)
    # rate * integral of exp(-rate (t - s)) (1 - exp(-rate s))^2 ds
    answered = 1 - decay**2 - 2 * rate * time * decay
    assert_close(found, (end + kernel * B) * (1 - decay) ** 2 - kernel * B * answered, 1e-5)


def test_equal_training_points_share_a_window():
    """One point twice, with a ridge, is one point with half the ridge and the mean label."""
    c = case("N1 ReLU with ridge")
    once = coefficient(c, fw.GradientFlow(), ridge=0.25)[0]
    x = c["inputs"]["x_train"]
    twice = coefficient(c, fw.GradientFlow(), x_train=x + x, y=[3.5, 4.5], ridge=0.5)[0]
    assert_close(twice[2:], once[1:], 1e-4)
    assert_close(twice[0], twice[1], CLOSED_FORM)


def test_a_step_that_lands_on_the_labels():
    """f = 0: with eta Theta = 1 nothing but the activation at the training point itself is bent."""
    c = case("N1 ReLU, y = 0.9")
    one, _, _ = coefficient(c, fw.GradientDescent(1 / 1.35))
    near, _, _ = coefficient(c, fw.GradientDescent(1 / 1.35, 1))
    m = np.array([0.363557206832, 0.113736384901]) / 1.35
    assert_close(one / m, np.full(2, one[0] / m[0]), 1e-9)
    assert_close(near, np.zeros(2), CLOSED_FORM)  # after one step nothing has been answered yet


def test_elu_stays_at_order_one():
    """Its slope is continuous; the point mass of its third derivative changes signs."""
    c = case("N1 ELU")
    inputs = c["inputs"]
    net = fw.MLP((4096,), "elu", *(inputs[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W")))
    x, y, x_test = (np.array(inputs[name]) for name in ("x_train", "y", "x_test"))
    for algorithm, word in (
        (fw.GradientDescent(inputs["eta"]), "steps"),
        (fw.GradientFlow(), "gradient_flow"),
    ):
        origin = fw.predict(net, x, y, x_test, algorithm, order=1).origin
        moved = 4096 * np.asarray(origin.dntk + origin.ddntk)[:, 0]
        assert_close(moved, np.array(c["coefficient_of_1_over_n_dNTK_plus_ddNTK"][word]), PRINTED)


def test_several_outputs_share_the_direction_of_their_residuals():
    """At one point the coefficient is k_D E[e |e|], with vectors e of residuals: sampled against draws."""
    c = case("N1 ReLU, y = 0.9")
    inputs = c["inputs"]
    net = fw.MLP((WIDTH,), "relu", *(inputs[n] for n in ("C_b", "C_W", "lambda_b", "lambda_W")), n_out=3)
    x, x_test, y = np.array(inputs["x_train"]), np.array(inputs["x_test"]), np.array([[0.9, -0.4, 0.2]])
    law = fw.predict(net, x, y, x_test, fw.GradientFlow(), order="1/2", method=fw.KinkWindows(1e-3, 2048))
    one, _, _ = coefficient(c, fw.GradientFlow())
    draws = np.random.default_rng(0).normal(size=(400_000, 3)) * math.sqrt(1.1)
    rho = -0.9 / math.sqrt(1.1)
    scalar = 1.1 * (
        (1 + rho**2) * math.erf(rho / math.sqrt(2))
        + 2 * rho * math.exp(-(rho**2) / 2) / math.sqrt(2 * math.pi)
    )
    size = lambda e: (e * np.linalg.norm(e, axis=1, keepdims=True)).mean(axis=0)
    vector = (size(draws - y) + size(-draws - y)) / 2
    root = math.sqrt(WIDTH)
    expected = np.outer(one / scalar, vector)
    assert within(
        root * np.asarray(law.mean_correction), root * np.asarray(law.mean_correction_error), expected, 5e-5
    )


def test_window_integrals_of_one_kink():
    """Velocities in a fixed ratio: crossing, held and leaving neurons by hand."""
    for left, right in ((1.0, 2.0), (1.0, -2.0), (-1.0, 2.0), (-1.0, -2.0)):
        paths = Paths(
            *(np.array([[v]]) for v in (left, right)),
            *np.array([[0.0], [1.0]]),
            np.ones(1),
            np.zeros(1, bool),
            np.zeros(1),
        )
        found = window_integrals(paths)
        expected = (right - left) * (max(left, 0) + min(right, 0)) / 2
        activated = (max(right, 0) * max(left, 0) + min(right, 0) ** 2) / 2
        assert_close(found.A[0, 0], expected, CLOSED_FORM)
        assert_close(found.B[0, 0], activated, CLOSED_FORM)


def test_many_small_steps_taken_together_keep_half_a_step():
    """One point, slopes 0 and 1, and x left by each step: A = x / (1 + x) and B = 1/2; a flow has A = 1/2."""
    x, signs = 0.9, np.array([1.0, -1.0])
    cut = schedule(np.ones((1, 1)), fw.GradientDescent(1 - x), 0.0, single_steps=3, growth=0.3)
    assert not cut.step.all()
    move = -cut.impulse * signs
    found = window_integrals(Paths(0 * move, move, np.zeros(2), np.ones(2), cut.decay, cut.step, cut.share))
    assert_close(found.A[-1] @ signs, np.array(x / (1 + x)), 3e-3)
    assert_close(found.B[-1] @ signs, np.array(0.5), 3e-3)


BASE = {
    "net": fw.MLP((64,), "relu", 0.1, 2.0),
    "x_train": [[0.5, 1.0], [1.0, -0.3]],
    "y_train": [1.0, -1.0],
    "x_test": [[0.1, 0.2]],
    "order": "1/2",
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"net": fw.MLP((64,), "tanh")}, "has no kink at 0"),
        ({"net": fw.MLP((64,), "elu", 0.1, 1.0)}, "use order=1"),
        ({"net": fw.MLP((64, 64), "relu", 0.1, 2.0)}, "derived for one hidden layer"),
        ({"net": fw.MLP((64,), "relu", 0.0, 2.0), "x_test": [[1.0, 2.0]]}, "parallel preactivations"),
        ({"net": fw.MLP((64,), "relu", 0.0, 2.0), "x_train": [[0.5, 1.0], [-1.0, -2.0]]}, "common window"),
        ({"net": fw.MLP((64,), "relu", 0.0, 2.0), "x_train": [[0.5, 1.0], [0.0, 0.0]]}, "has no variance"),
        ({"algorithm": fw.BayesianInference()}, "not Bayesian inference"),
        ({"algorithm": fw.DirectOptimization()}, "path of training"),
        ({"initial": (np.zeros(2), np.zeros(1))}, "leave out initial"),
        ({"method": fw.DenseTensors()}, "KinkWindows"),
        ({"order": 1, "method": fw.KinkWindows()}, "KinkWindows"),
    ],
)
def test_refusals_say_why(change, sentence):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=sentence):
            fw.predict(**(BASE | change))


@pytest.mark.parametrize("settings", [{"relative_error": 0.0}, {"most_samples": 0}, {"key": 3}])
def test_settings_are_checked(settings):
    with pytest.raises((ValueError, TypeError), match=next(iter(settings))):
        fw.KinkWindows(**settings)


def test_a_law_is_saved_with_its_order(tmp_path):
    law = fw.predict(**BASE, algorithm=fw.GradientFlow())
    again = fw.load(law.save(tmp_path / "law"))
    np.testing.assert_array_equal(again.mean, law.mean)
    assert again.provenance.order == "1/2"
    assert again.validity == law.validity


def test_a_large_correction_warns():
    net = fw.MLP((2,), "relu", 0.1, 2.0)
    with pytest.warns(UserWarning, match="expansion in 1/sqrt"):
        law = fw.predict(**BASE | {"net": net, "y_train": [20.0, -20.0], "algorithm": fw.GradientFlow()})
    assert law.validity.width == 2
    assert "from width" in law.validity.words
    wide = dataclasses.replace(law.validity, width=10**9)
    assert "can be trusted here" in wide.words
