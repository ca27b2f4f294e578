"""Variances of test points alone: the diagonal of the covariance, and what else is known without kernels."""

import os
import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.linalg.cholesky import SingularKernelError
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.prediction.methods.infinite_width.ridge import choose_ridge
from finitewidth.prediction.methods.infinite_width.trained import pointwise_law
from finitewidth.prediction.problem import training_problem
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.kernels import kernel_strips, own_outputs
from finitewidth.verification.stopping import stop
from tolerances import SOLVE, STIFF_SOLVE, assert_close

NET = fw.MLP((8, 8), "relu", 0.1, 2.0)


@pytest.fixture
def data(rng):
    x = rng.normal(size=(30, 3))
    y = np.stack([x[:, 0] - x[:, 1] ** 2, x[:, 2]], axis=1) + 0.3 * rng.normal(size=(30, 2))
    return x, y, rng.normal(size=(17, 3))


@pytest.fixture(params=["one program", "strips"])
def in_modes(request, data, monkeypatch):
    """Of few points kernels are blocks of one matrix; of many they come in strips, the last two overlap."""
    if request.param == "strips":
        monkeypatch.setattr(training_problem, "_FEW", 0)
        whole = kernel_strips
        monkeypatch.setattr(training_problem, "kernel_strips", lambda *points: whole(*points, most=7))
    return TrainingProblem.in_modes(NET, *data)


@pytest.mark.parametrize(
    ("algorithm", "ridge"),
    [
        (fw.GradientDescent(), 0.1),
        (fw.GradientDescent(), 0.0),
        (fw.GradientDescent(0.01, steps=9), 0.3),
        (fw.GradientFlow(0.5), 0.0),
    ],
)
def test_variances_are_the_diagonal_of_the_covariance(data, in_modes, algorithm, ridge):
    law = pointwise_law(in_modes, algorithm, ridge=ridge)
    whole = fw.predict(NET, *data, algorithm, ridge=ridge)
    assert_close(law.mean, whole.mean, SOLVE)
    assert_close(law.variance, np.diag(whole.covariance), SOLVE)
    assert_close(law.std, whole.std, SOLVE)
    assert law.correction is None
    assert law.infinite_width is law


def test_a_variance_that_rounding_left_below_zero_has_no_spread():
    law = PointwiseLaw(jnp.zeros((2, 1)), jnp.array([-1e-18, 4.0]))
    assert np.asarray(law.std).tolist() == [0.0, 2.0]


def test_ridge_curves_and_stop_need_modes_only(data, in_modes, monkeypatch):
    y_test = np.ones((17, 2))
    problem = TrainingProblem.of(NET, *data)
    algorithm = fw.GradientDescent(0.01)
    law = fw.predict(problem, algorithm=algorithm, ridge=0.1)
    expected = (
        choose_ridge(problem, algorithm),
        fw.loss_curves(problem, algorithm, [0, 4, 50, np.inf], y_test, ridge=0.1),
        stop(problem, law, algorithm, 0.1, 100, 10**6).algorithm.steps,
    )

    def asked(*_):
        raise AssertionError("kernels were computed again")

    monkeypatch.setattr(TrainingProblem, "_at", asked)
    choice, curves, steps = (
        choose_ridge(in_modes, algorithm),
        fw.loss_curves(in_modes, algorithm, [0, 4, 50, np.inf], y_test, ridge=0.1),
        stop(in_modes, pointwise_law(in_modes, algorithm, ridge=0.1), algorithm, 0.1, 100, 10**6),
    )
    assert_close(choice.losses, expected[0].losses, STIFF_SOLVE)
    assert_close(curves.train, expected[1].train, STIFF_SOLVE)
    assert_close(curves.test, expected[1].test, STIFF_SOLVE)
    assert steps.algorithm.steps == expected[2]


def test_kernels_that_are_asked_for_are_computed_again(data, in_modes):
    assert in_modes.kernels is None
    assert_close(in_modes.train.ntk, fw.kernels(NET, data[0]).ntk)
    moved = in_modes.at(jnp.asarray(data[2][:3]))
    assert moved.modes.test is None
    assert moved.reach(moved.spectrum()).shape == (3, 30)
    with pytest.raises(ValueError, match="no modes of its test points"):
        pointwise_law(moved, fw.GradientDescent(), ridge=0.1)


def test_equal_points_without_a_ridge_are_refused(data):
    x, y, x_test = data
    problem = TrainingProblem.in_modes(NET, np.concatenate([x, x[:1]]), np.concatenate([y, y[:1]]), x_test)
    with pytest.raises(SingularKernelError, match=r"training points 0 and 30 are equal. .* pass ridge > 0"):
        pointwise_law(problem, fw.GradientDescent())


@pytest.mark.parametrize("most", [5, 8, 100])
def test_strips_and_own_outputs_are_parts_of_the_kernels(data, most):
    x, _, x_test = data
    net = fw.MLP((4, 4), "gelu")
    whole, found = fw.kernels(net, x_test, x), np.full((17, 30), np.nan)
    for rows, part in kernel_strips(net, jnp.asarray(x_test), jnp.asarray(x), most):
        assert rows.stop - rows.start <= most
        found[rows] = part.ntk
    assert_close(found, whole.ntk)
    own = own_outputs(net, jnp.asarray(x_test))
    for name in ("nngp", "ntk"):
        assert_close(getattr(own, name), np.diag(getattr(fw.kernels(net, x_test), name)))


PEAK = """
import sys, threading
from pathlib import Path
import numpy as np
import finitewidth as fw
from finitewidth.tables import Table
from finitewidth.tables.study.preparation import Options, prepare
from finitewidth.tables.study.study import Choices, run_study

rows, columns = int(sys.argv[1]), {}
rng = np.random.default_rng(0)
columns = {name: rng.normal(size=rows) for name in "abc"}
data = prepare(Table("t", columns | {"y": columns["a"] + rng.normal(size=rows)}), None, Options(target="y"))

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

def study(data):
    return run_study(data, Choices((8,), "relu", order=0, compare=False))

some = data._replace(x_train=data.x_train[:400], y_train=data.y_train[:400])
study(some)
before, most, ended = anonymous(), [0], threading.Event()

def watch():
    while not ended.wait(0.002):
        most[0] = max(most[0], anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
study(data)
ended.set()
watcher.join()
print((most[0] - before) / (8 * len(data.x_train) ** 2))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_study_of_a_table_takes_five_matrices_at_most():
    """Kernels, LAPACK's copy and its scratch; beyond what programs take, which an earlier study has paid."""
    one = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, "-c", textwrap.dedent(PEAK), "2500"]
    ended = subprocess.run(words, capture_output=True, text=True, env=one)
    assert ended.returncode == 0, ended.stderr
    assert 3 < float(ended.stdout) <= 5
