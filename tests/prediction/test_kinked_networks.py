"""The law of kinks against trained networks: stored limits of large ensembles, and pairs trained here."""

import json
import math
from pathlib import Path

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course.finite_width_after_training.networks.trained_moments import Ensemble, trained_pairs
from finitewidth.prediction.methods.kinks import directions

CASES = json.loads((Path(__file__).parents[1] / "reference" / "relu.json").read_text())["cases"]
WIDTH = 65_536
SCALES = ([0.1, 0.0], [2.0, 2.0], [0.2, 0.1], [1.0, 1.0])
X = np.array([[1.1, 0.2, -0.5]])
TEST = np.array([[0.3, 0.6, 1.3], [-0.4, -0.3, 0.5]])


def network(width: int, outputs: int = 1) -> fw.MLP:
    return fw.MLP((width,), "relu", *SCALES, n_out=outputs)


def law_of(name: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """A stored case, and the coefficients of its mean and variances with its own steps."""
    case = next(c for c in CASES if c["name"] == name)
    inputs = case["inputs"]
    x, x_test = (np.array(inputs[key]) for key in ("x_train", "x_test"))
    if case["points"].startswith("training"):
        x_test = np.concatenate([x, x_test])
    algorithm, ridge = fw.GradientDescent(inputs["eta"]), inputs["ridge"]
    law = fw.predict(network(WIDTH), x, np.array(inputs["y"]), x_test, algorithm, order="1/2", ridge=ridge)
    mean, variance = law.mean_correction[:, 0], np.diag(np.asarray(law.covariance_correction))
    return case, math.sqrt(WIDTH) * np.asarray(mean), math.sqrt(WIDTH) * variance


@pytest.mark.parametrize(("name", "accuracy"), [("N3 ReLU", 3e-5), ("N2 ReLU with ridge 0.5", 1e-4)])
def test_steps_at_several_points(name, accuracy, monkeypatch):
    """Reference numbers to their accuracy; mean and variances of networks within their errors."""
    # Fewer directions than usual leave less than that accuracy.
    for setting, value in (("_SPHERE", 12), ("_FIRST_PANELS", 12), ("_MOST_HALVINGS", 0)):
        monkeypatch.setattr(directions, setting, value)
    case, mean, variance = law_of(name)
    np.testing.assert_allclose(mean, case["coefficient"]["steps"], atol=accuracy)
    for found, moment in ((mean, "mean"), (variance, "variance")):
        measured, error = (np.array(case["limit"][moment][key]) for key in ("c", "se"))
        assert (np.abs(found - measured) < 3 * error).all()
        # A wrong factor of two would be seen.
        assert np.abs(measured).max() > 6 * error[np.abs(measured).argmax()]


@pytest.mark.filterwarnings("ignore:x_train has one row")
def test_several_outputs():
    """Two coupled outputs, with steps; one output at a time is another coefficient."""
    y, steps = np.array([[2.5, -0.8]]), fw.GradientDescent(0.37)
    settings = fw.KinkWindows(0.02, 1024, jax.random.key(2))
    law = fw.predict(network(WIDTH, 2), X, y, TEST, steps, order="1/2", method=settings)
    alone = [fw.predict(network(WIDTH), X, y[:, o], TEST, steps, order="1/2").mean_correction for o in (0, 1)]
    apart = math.sqrt(WIDTH) * np.concatenate(alone, axis=1)
    coefficient, sampled = (
        math.sqrt(WIDTH) * np.asarray(part) for part in (law.mean_correction, law.mean_correction_error)
    )
    found, error = [], []
    for n in (256, 1024):
        trained, linear = trained_pairs(
            network(n, 2), Ensemble(X, y, TEST, 0.37, 16, 3000, 0), jax.random.key(n)
        )
        shift = math.sqrt(n) * (trained - linear).mean(axis=1)
        found.append(shift.mean(axis=0))
        error.append(shift.std(axis=0) / math.sqrt(len(shift)))
    # A line in 1/sqrt(n) through both widths; what it leaves is of order 1/n.
    at_zero, noise = 2 * found[1] - found[0], np.sqrt(4 * error[1] ** 2 + error[0] ** 2 + sampled**2)
    assert (np.abs(at_zero - coefficient) < 3 * noise).all()
    assert (np.abs(at_zero - apart) > 4 * noise).any()
