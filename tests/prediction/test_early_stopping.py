"""The chosen stop against retraining at every number of steps."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.methods.infinite_width.ridge import held_out, observation_noise
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.prediction.selection.early_stopping import choose_stop
from tolerances import assert_close

NET = fw.MLP((8, 8), "relu", 0.1, 2.0)


@pytest.fixture
def problem(rng):
    x = rng.normal(size=(30, 3))
    y = x[:, :1] - x[:, 1:2] ** 2 + 2.0 * rng.normal(size=(30, 1))
    return TrainingProblem.of(NET, x, y, x[:2])


# Noise is found to this part of its logarithm, so that losses of two routes differ by its square at most.
LOSS = 1e-6


@pytest.mark.parametrize(("algorithm", "ridge"), [(fw.GradientDescent(), 0.0), (fw.GradientFlow(), 0.5)])
def test_the_first_of_the_best_is_chosen_and_all_are_told(problem, algorithm, ridge):
    choice = choose_stop(problem, algorithm, ridge=ridge)
    assert (np.diff(choice.tried) > 0).all()
    descent = isinstance(algorithm, fw.GradientDescent)
    resolved = algorithm.resolved(float(np.linalg.eigvalsh(problem.train.ntk)[-1]) + ridge)
    for n in (0, 9, 25):
        at = int(choice.tried[n]) if descent else float(choice.tried[n])
        out = held_out(problem, resolved.stopped(at), ridge)
        assert_close(choice.losses[n], observation_noise(out, problem.y).loss, LOSS)
    best = choice.tried[choice.losses <= choice.losses.min() + 0.002][0]
    assert choice.at == best
    assert best < choice.tried[-1]


def test_direct_optimisation_has_no_time_to_stop(problem):
    with pytest.raises(ValueError, match="GradientDescent or GradientFlow"):
        choose_stop(problem, fw.DirectOptimization())
