import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.architecture.models.meta_kernel import DenseMetaKernel
from finitewidth.nearly_kernel_methods.representation import (
    best_epsilon,
    deformation,
    scan_epsilon,
    trained_kernel,
    weight_norms,
)
from finitewidth.networks.training.weight_space import train_weights
from quadratic import CASES, random_problem, slope, step_of, stored_problem
from tolerances import assert_close

EPSILONS = 0.008 * 0.5 ** np.arange(4)


def trained(problem, epsilon, algorithm):
    model = problem.model(epsilon)
    return model, train_weights(model.at(problem.train), problem.y, algorithm, problem.zeros()).weights


@pytest.mark.parametrize("case", CASES[:3], ids=lambda c: c["name"])
def test_second_order_of_the_reference(case):
    problem = stored_problem(case)
    series = deformation(*problem.parts(), problem.y)
    n = case["N_A"]
    for found, name in ((series.z_F, "z_linear"), (series.z_I, "zI_direct"), (series.z_II, "zII_direct")):
        assert_close(found.T, np.array(case["expected"][name])[:, n:], 1e-9)


@pytest.mark.parametrize("solution", ["row-space", "gauss-newton"])
def test_what_the_series_leaves_out_is_of_third_order(solution):
    problem, algorithm = random_problem(0, outputs=2), fw.DirectOptimization(solution)
    series = deformation(*problem.parts(), problem.y, algorithm)
    other = deformation(*problem.parts(), problem.y, fw.DirectOptimization(
        "gauss-newton" if solution == "row-space" else "row-space"
    ))  # fmt: skip
    errors, wrong = [], []
    for epsilon in EPSILONS:
        model, W = trained(problem, epsilon, algorithm)
        errors.append(np.abs(series.at(float(epsilon)) - model(W, problem.test)).max())
        wrong.append(np.abs(other.at(float(epsilon)) - model(W, problem.test)).max())
    assert abs(slope(EPSILONS, errors) - 3) < 0.1
    # First orders agree, second orders do not.
    assert abs(slope(EPSILONS, wrong) - 2) < 0.1


@pytest.mark.parametrize(
    "algorithm_of",
    [
        lambda k: fw.GradientDescent(step_of(k, 1.3)),
        lambda k: fw.GradientFlow(),
        lambda k: fw.DirectOptimization(),
        lambda k: fw.DirectOptimization("minimum-norm"),
    ],
)
def test_the_trained_kernel_is_one_for_all_algorithms(algorithm_of):
    problem = random_problem(0, outputs=2)
    n, k = len(problem.y), problem.k
    q = np.linalg.solve(k[:n, :n], problem.y)
    errors = []
    for epsilon in EPSILONS:
        mu = problem.mu(epsilon)
        found = trained_kernel(k, DenseMetaKernel(mu[:, :, :n]), DenseMetaKernel(mu[:, :, :n]), q)
        model, W = trained(problem, epsilon, algorithm_of(k[:n, :n]))
        real = model.effective_kernel(W, np.arange(len(k)))
        errors.append(np.abs(found.effective - real).max())
        assert_close(found.sharp, (k + found.effective) / 2)
    assert abs(slope(EPSILONS, errors) - 2) < 0.1


def test_the_compressed_form_belongs_to_gauss_newton_flow_not_to_direct_optimisation():
    problem = random_problem(0)
    n, k = len(problem.y), problem.k
    q = np.linalg.solve(k[:n, :n], problem.y)
    gaps = {"row-space": [], "flow": []}
    for epsilon in EPSILONS:
        mu = DenseMetaKernel(problem.mu(epsilon)[:, :, :n])
        sharp = trained_kernel(k, mu, mu, q).sharp[0]
        compressed = sharp[n:, :n] @ jnp.linalg.solve(sharp[:n, :n], problem.y)
        parts = problem.parts(epsilon)
        for name, algorithm in (
            ("row-space", fw.DirectOptimization()),
            ("flow", fw.DirectOptimization("gauss-newton", 0.0)),
        ):
            gaps[name].append(
                np.abs(compressed - fw.nearly_kernel(*parts, problem.y, algorithm).prediction).max()
            )
    assert abs(slope(EPSILONS, gaps["row-space"]) - 1) < 0.1
    assert abs(slope(EPSILONS, gaps["flow"]) - 2) < 0.1


def test_direct_optimisation_is_a_kernel_prediction_with_a_one_sided_kernel():
    problem, epsilon = random_problem(0), 0.04
    model, W = trained(problem, epsilon, fw.DirectOptimization())
    n, points = len(problem.y), np.arange(len(problem.phi))
    half = (problem.phi + model.effective_features(W, points)[0]) / 2
    one_sided = half @ problem.phi[:n].T
    assert_close(one_sided @ jnp.linalg.solve(one_sided[:n], problem.y), model(W, points))


def test_lengths_of_the_trained_weights():
    problem = random_problem(0, outputs=2)
    k, _, mu, _, _ = problem.parts()
    norms = weight_norms(k, mu, problem.y)
    _, start = trained(problem, 0.0, fw.DirectOptimization())
    assert_close(norms.fixed, jnp.sum(start**2, axis=1))
    step = 1e-4
    ends = [trained(problem, s * step, fw.DirectOptimization())[1] for s in (-1, 1)]
    interacting = (ends[1] - ends[0]) / (2 * step)
    assert_close(norms.overlap, jnp.sum(start * interacting, axis=1), 1e-5)
    assert_close(norms.interacting, jnp.sum(interacting**2, axis=1), 1e-5)
    assert_close(norms.at(0.5), norms.fixed + norms.overlap + norms.interacting / 4)


def exact_loss(problem, y_test, epsilon):
    model, W = trained(problem, epsilon, fw.DirectOptimization())
    return 0.5 * float(jnp.sum((model(W, problem.test) - y_test) ** 2))


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_of_the_exact_test_loss(seed):
    problem = random_problem(seed)
    y_test = np.random.default_rng(seed).normal(size=(5, 1))
    with np.errstate(invalid="ignore"):
        series = deformation(*problem.parts(), problem.y)
    # Labels near the linear prediction make the curvature positive whatever the second order is.
    y_test = np.asarray(series.z_F) + 0.05 * y_test
    best = best_epsilon(series, y_test)
    L = {s: exact_loss(problem, y_test, s * 1e-3) for s in (-2, -1, 0, 1, 2)}
    slope_found = (8 * (L[1] - L[-1]) - (L[2] - L[-2])) / 12e-3
    bend = (16 * (L[1] + L[-1]) - (L[2] + L[-2]) - 30 * L[0]) / 12e-6
    assert_close(best.slope, slope_found, 1e-5)
    assert_close(best.curvature, bend, 1e-3)


def test_the_best_epsilon_is_the_minimum_of_the_scan():
    problem = random_problem(1)
    series = deformation(*problem.parts(), problem.y)
    rng, found = np.random.default_rng(0), []
    z_I = np.asarray(series.z_I)
    across = rng.normal(size=z_I.shape)
    across -= z_I * np.sum(across * z_I) / np.sum(z_I**2)
    deltas = 0.004 * 0.5 ** np.arange(3)
    for delta in deltas:
        y_test = np.asarray(series.z_F) - 0.02 * across + delta * z_I
        best = best_epsilon(series, y_test)
        grid = best.epsilon * np.linspace(0.8, 1.2, 9)
        # The loss is a parabola up to its third derivative: fit a cubic and take the minimum.
        losses = [exact_loss(problem, y_test, float(e)) for e in grid]
        scan = np.polynomial.Polynomial.fit(grid, losses, 4)
        inside = [r.real for r in scan.deriv().roots() if abs(r.imag) < 1e-9 and grid[0] < r.real < grid[-1]]
        found.append(abs(best.epsilon / inside[0] - 1))
    assert abs(slope(deltas, found) - 1) < 0.2
    assert found[-1] < 0.02
    assert_close(scan_epsilon(series, y_test, grid)[4], losses[4], 1e-3)


def test_a_root_with_one_more_term_is_closer_near_a_teacher():
    problem = random_problem(1)
    series = deformation(*problem.parts(), problem.y)
    errors = {"plain": [], "refined": []}
    teachers = 0.02 * 0.5 ** np.arange(3)
    for teacher in teachers:
        model, W = trained(problem, float(teacher), fw.DirectOptimization())
        best = best_epsilon(series, np.asarray(model(W, problem.test)))
        errors["plain"].append(abs(best.epsilon - teacher))
        errors["refined"].append(abs(best.refined - teacher))
    assert slope(teachers, errors["refined"]) > 2.8
    assert errors["refined"][-1] < 0.2 * errors["plain"][-1]


def test_no_minimum_is_said_with_the_number():
    problem = random_problem(0)
    series = deformation(*problem.parts(), problem.y)
    y_test = np.asarray(series.z_F) + 1e3 * np.asarray(series.z_II)
    with pytest.warns(UserWarning, match=r"curvature -[\d.e+]+ in epsilon at zero, so no minimum"):
        best = best_epsilon(series, y_test)
    assert np.isnan(best.epsilon)


def test_bad_input():
    problem = random_problem(0)
    with pytest.raises(ValueError, match="the second order in epsilon is known for full steps"):
        deformation(*problem.parts(), problem.y, fw.DirectOptimization("minimum-norm"))
    parts = list(problem.parts())
    parts[4] = None
    with pytest.raises(ValueError, match="mu_train_test is missing"):
        deformation(*parts, problem.y, fw.DirectOptimization("gauss-newton"))
    with pytest.raises(ValueError, match="y_test has 2 outputs and the prediction 1"):
        best_epsilon(deformation(*problem.parts(), problem.y), np.ones((5, 2)))
