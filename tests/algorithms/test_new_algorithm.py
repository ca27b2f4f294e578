"""A learning algorithm that the package does not know: the one of CONTRIBUTING.md."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.algorithms.clocks import Steps
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.estimators.wide_network import NTKRegressor
from finitewidth.nearly_kernel_methods.algorithm_projectors import projectors
from finitewidth.prediction.methods.infinite_width.ridge import held_out
from tolerances import SOLVE, assert_close

NET = fw.MLP(hidden=(32,), activation="tanh", C_b=0.1, C_W=1.2)
ETA, SWITCH = 0.2, 7
AT = (0, 3, 7, 8, 40)


@pytest.fixture(scope="module")
def lowered_rate():
    """The class that the section defines."""
    text = Path(__file__).resolve().parents[2].joinpath("CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Add a learning algorithm\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    namespace = {"__name__": "contributing"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), namespace)
    return namespace["LoweredRate"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 2))
    y = np.sin(x[:, :1])
    return x[:5], y[:5], x[5:], y[5:]


def iterated(problem, steps):
    """What `steps` steps make of the labels: U on the training points and M on the test points."""
    Theta, reach = np.asarray(problem.train.ntk), np.asarray(problem.test_train.ntk)
    U, M = np.eye(len(Theta)), np.zeros_like(reach)
    for t in range(steps):
        eta = ETA if t < SWITCH else ETA / 10
        U, M = U - eta * Theta @ U, M + eta * reach @ U
    return U, M


@pytest.mark.parametrize("steps", AT)
def test_its_law_is_the_iterated_descent(lowered_rate, data, steps):
    x, y, x_test, _ = data
    problem = fw.TrainingProblem.of(NET, x, y, x_test)
    law = fw.predict(NET, x, y, x_test, lowered_rate(ETA, SWITCH, steps))
    _, M = iterated(problem, steps)
    assert_close(law.mean, M @ y)
    joint = np.asarray(fw.kernels(NET, np.concatenate([x, x_test])).nngp)
    both = np.hstack([-M, np.eye(len(x_test))])
    assert_close(law.covariance, both @ joint @ both.T)


def test_its_loss_curves_stop_it_early(lowered_rate, data):
    x, y, x_test, y_test = data
    problem = fw.TrainingProblem.of(NET, x, y, x_test)
    algorithm = lowered_rate(ETA, SWITCH, 40)
    curves = fw.loss_curves(problem, algorithm, AT, y_test)
    for i, steps in enumerate(AT):
        U, M = iterated(problem, steps)
        start = np.trace(U @ np.asarray(problem.train.nngp) @ U.T)
        assert_close(curves.train[i], (np.sum((U @ y) ** 2) + start) / 2 / len(y))
        law = fw.predict(NET, x, y, x_test, algorithm.stopped(steps))
        expected = (np.sum((M @ y - y_test) ** 2) + np.trace(np.asarray(law.covariance))) / 2 / len(y_test)
        assert_close(curves.test[i], expected)
    early = algorithm.stopped(int(curves.at[np.argmin(curves.test)]))
    left_out = held_out(problem, early)
    others = fw.predict(NET, x[1:], y[1:], x[:1], early)
    assert_close(left_out.mean[0], others.mean[0], SOLVE)


def test_estimators_take_it(lowered_rate, data):
    x, y, x_test, _ = data
    algorithm = lowered_rate(ETA, SWITCH, 30)
    fitted = NTKRegressor(2, "tanh", C_b=0.1, C_W=1.2, ridge=0.0, algorithm=algorithm).fit(x, y[:, 0])
    M = iterated(fw.TrainingProblem.of(NET, x, y, x_test), 30)[1]
    assert_close(fitted.predict(x_test), M @ y[:, 0])


class Descent(SpectralAlgorithm):
    """Gradient descent again, with all that order=1 asks for."""

    eta: float
    steps: int

    def gain(self, eigenvalues):
        return fw.GradientDescent(self.eta, self.steps).gain(eigenvalues)

    def clock(self):
        return Steps(self.eta, self.steps)


def test_order_one_asks_for_a_clock(lowered_rate, data):
    x, y, x_test, _ = data
    with pytest.raises(ValueError, match=r"path of training, which LoweredRate does not have.*no `clock`"):
        fw.predict(NET, x, y, x_test, lowered_rate(ETA, SWITCH, 40), order=1)
    own, known = (
        fw.predict(NET, x[:3], y[:3], x_test[:1], algorithm(ETA, 6), order=1)
        for algorithm in (Descent, fw.GradientDescent)
    )
    assert jnp.abs(own.mean_correction).min() > 0
    assert_close(own.mean_correction, known.mean_correction)
    assert_close(own.covariance_correction, known.covariance_correction)


class Solved(SpectralAlgorithm):
    """An algorithm of which nothing is known but its end."""

    @property
    def converged(self):
        return True

    def gain(self, eigenvalues):
        return 1 / eigenvalues


def test_what_is_not_defined_is_refused_in_one_sentence(data):
    x, y, x_test, _ = data
    law = fw.predict(NET, x, y, x_test, Solved())
    assert_close(law.mean, fw.predict(NET, x, y, x_test).mean)
    with pytest.raises(ValueError, match=r"formula is not known for Solved .*no `projectors`"):
        projectors(np.eye(2), Solved())
    with pytest.raises(ValueError, match=r"cannot follow Solved \(it defines no `descent`\)"):
        fw.verify(law, networks=8)
    with pytest.raises(ValueError, match=r"Solved has no trajectory \(it defines no `stopped`\)"):
        Solved().stopped(3)
    with pytest.raises(ValueError, match="order=2 is known for direct optimisation only, not for Solved"):
        Solved().second_order()
