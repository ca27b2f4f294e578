import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.algorithms.direct_optimization import direct_coefficient
from finitewidth.networks.training.weight_space import train_weights
from quadratic import CASES, random_problem, slope, step_of, stored_problem
from tolerances import CLOSED_FORM, assert_close

ALGORITHMS = {
    "gd": lambda eta: fw.GradientDescent(eta),
    "ode": lambda eta: fw.GradientFlow(),
    "direct": lambda eta: fw.DirectOptimization(),
    "minnorm": lambda eta: fw.DirectOptimization("minimum-norm"),
    "gauss_newton": lambda eta: fw.DirectOptimization("gauss-newton"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_endpoints_of_independent_solvers(case, name):
    if f"W_exact_{name}" not in case["expected"]:
        assert case["name"] == "nonzero_W0"
        return
    problem = stored_problem(case)
    model = problem.model(case["eps"])
    algorithm = ALGORITHMS[name](case["eta"])
    end = train_weights(model.at(problem.train), problem.y, algorithm, jnp.array(case["W0"]))
    assert_close(end.weights, np.array(case["expected"][f"W_exact_{name}"]), CLOSED_FORM)
    outputs = model(end.weights, np.arange(len(problem.phi)))
    assert_close(outputs.T, np.array(case["expected"][f"z_exact_{name}"]), CLOSED_FORM)
    assert end.residual < 1e-13
    assert end.neglected.startswith("nothing")


@pytest.mark.parametrize("case", CASES[:3], ids=lambda c: c["name"])
def test_a_few_steps_of_descent(case):
    problem = stored_problem(case)
    model = problem.model(case["eps"])
    end = train_weights(
        model.at(problem.train), problem.y, fw.GradientDescent(case["eta"], 5), jnp.array(case["W0"])
    )
    outputs = model(end.weights, np.arange(len(problem.phi)))
    assert_close(outputs.T, np.array(case["expected"]["z_exact_gd_after_5_steps"]))
    assert end.steps == 5


def test_a_flow_for_a_time_is_the_limit_of_small_steps():
    problem = random_problem(2)
    points = problem.model(0.2).at(problem.train)
    flow = train_weights(points, problem.y, fw.GradientFlow(2.0), problem.zeros()).weights
    ends = [
        train_weights(points, problem.y, fw.GradientDescent(2.0 / n, n), problem.zeros()).weights
        for n in (200, 400, 800)
    ]
    # Two rounds of extrapolation remove the first and second power of the step.
    first = [2 * b - a for a, b in itertools.pairwise(ends)]
    assert_close((4 * first[1] - first[0]) / 3, flow, 1e-7)


def test_the_smallest_of_all_solutions():
    problem = random_problem(3)
    points = problem.model(0.05).at(problem.train)
    ends = {
        a: train_weights(points, problem.y, fw.DirectOptimization(a), problem.zeros()).weights
        for a in ("row-space", "gauss-newton", "minimum-norm")
    }
    lengths = {a: float(jnp.linalg.norm(w)) for a, w in ends.items()}
    assert min(lengths, key=lengths.get) == "minimum-norm"
    # Stationarity: the weights lie in the span of the features they have made for themselves.
    J = points.jacobian(ends["minimum-norm"])
    w = ends["minimum-norm"][0]
    assert_close(J.T @ jnp.linalg.solve(J @ J.T, J @ w), w, CLOSED_FORM)


@pytest.mark.parametrize("step", [1.0, 0.5, 0.1])
def test_how_far_damped_gauss_newton_leaves_the_span(step):
    problem, epsilon = random_problem(0), 1e-4
    model = problem.model(epsilon)
    algorithm = fw.DirectOptimization("gauss-newton", step)
    real = model(
        train_weights(model.at(problem.train), problem.y, algorithm, problem.zeros()).weights, problem.test
    )
    inside, direction = (
        fw.nearly_kernel(*problem.parts(epsilon), problem.y, fw.DirectOptimization(solution))
        for solution in ("row-space", "minimum-norm")
    )
    along = direction.prediction - inside.prediction
    c = float(jnp.vdot(along, real - inside.prediction) / jnp.vdot(along, along))
    assert abs(c - direct_coefficient(algorithm)) < 1e-3


def test_more_points_than_weights_are_fitted_by_least_squares():
    problem = random_problem(4, train=12, features=5)
    points = problem.model(0.1).at(problem.train)
    with pytest.warns(UserWarning, match=r"training stopped after \d+ steps with a residual of"):
        end = train_weights(points, problem.y, fw.DirectOptimization("gauss-newton"), problem.zeros())
    gradient = points.jacobian(end.weights).T @ (points(end.weights) - problem.y)
    assert float(jnp.abs(gradient).max()) < 1e-6


@pytest.mark.parametrize("algorithm", [fw.GradientFlow(), fw.DirectOptimization("gauss-newton")])
def test_a_start_in_another_place(algorithm):
    problem, rng = random_problem(6, outputs=2), np.random.default_rng(1)
    start = jnp.asarray(0.5 * rng.normal(size=(2, 14)))
    epsilons, errors, undressed = 0.004 * 0.5 ** np.arange(4), [], []
    for epsilon in epsilons:
        model = problem.model(epsilon)
        real = model(
            train_weights(model.at(problem.train), problem.y, algorithm, start).weights, problem.test
        )
        machine = fw.nearly_kernel_machine(
            model, problem.train, problem.y, problem.test, algorithm, weights=start
        )
        errors.append(float(jnp.abs(machine.prediction - real).max()))
        begun = [np.asarray(model(start, points)) for points in (problem.train, problem.test)]
        fixed = fw.nearly_kernel(*problem.parts(epsilon), problem.y, algorithm, start=tuple(begun))
        undressed.append(float(jnp.abs(fixed.prediction - real).max()))
    assert abs(slope(epsilons, errors) - 2) < 0.1
    # Features that are not those of the start leave an error of first order.
    assert abs(slope(epsilons, undressed) - 1) < 0.1


class TestBadInput:
    def test_a_step_beyond_stability(self):
        problem = random_problem(0)
        limit = step_of(problem.parts()[0], 2.0)
        with pytest.raises(ValueError, match=f"2/lambda_max={limit:.4g}"):
            train_weights(
                problem.model(0.1).at(problem.train),
                problem.y,
                fw.GradientDescent(1.01 * limit),
                problem.zeros(),
            )

    def test_an_epsilon_that_runs_away(self):
        problem = random_problem(0)
        with pytest.raises(ValueError, match=r"ran away within \d+ steps .* lower epsilon or eta"):
            train_weights(
                problem.model(30.0).at(problem.train),
                problem.y,
                fw.GradientDescent(step_of(problem.parts()[0], 1.9)),
                problem.zeros(),
            )

    def test_outputs_that_do_not_match(self):
        problem = random_problem(0)
        with pytest.raises(ValueError, match="y has 2 outputs and the weights give 1"):
            train_weights(
                problem.model(0.1).at(problem.train), np.ones((6, 2)), fw.GradientFlow(), problem.zeros()
            )
