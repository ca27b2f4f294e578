"""Nearest interpolators, diagonal networks and margins, against other solvers and real training."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from sklearn.svm import SVC

from finitewidth.course.implicit_bias.networks.diagonal_networks import diagonal_descent, diagonal_flow
from finitewidth.course.implicit_bias.networks.margin_training import separable_flow, train_to_margin
from finitewidth.course.implicit_bias.theory.diagonal import DiagonalNetwork, least_sum
from finitewidth.course.implicit_bias.theory.interpolators import (
    convex_limit,
    descent_limit,
    kernel_descent_limit,
    mirror_limit,
)
from finitewidth.course.implicit_bias.theory.margin_time import margin_constant, time_to_margin
from finitewidth.course.implicit_bias.theory.max_margin import max_margin
from finitewidth.course.implicit_bias.theory.potentials import Entropy, HyperbolicEntropy, Quadratic
from finitewidth.course.implicit_bias.theory.separability import separability
from finitewidth.course.implicit_bias.theory.sparse_margin import sparse_margin
from finitewidth.course.quadratic_models.theory.parameter_expansion import (
    perpendicular_drift,
    stationary_point,
)
from finitewidth.measure.loss.margins import margins
from finitewidth.measure.specimen import specimen
from tolerances import assert_close

CONVEX = 1e-6


@pytest.fixture
def equations(rng):
    return rng.normal(size=(4, 9)), rng.normal(size=4)


@pytest.fixture
def classes():
    x = np.array([[1.0, 2.0], [2.0, -0.3], [-1.0, 0.5], [-2.0, -1.0], [0.5, 3.0]])
    return x, np.array([1.0, 1.0, -1.0, -1.0, 1.0])


@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_descent_ends_at_the_nearest_interpolator(equations, rng, momentum):
    (x, y), start = equations, rng.normal(size=9)
    eta = 1.0 / np.linalg.norm(x, 2) ** 2
    w = before = start
    for _ in range(3000):
        w, before = w - eta * x.T @ (x @ w - y) + momentum * (w - before), w
    assert_close(descent_limit(x, y, start, eta=eta, momentum=momentum).weights, w, 1e-9)
    # A stable step with momentum may be larger than without.
    with pytest.raises(ValueError, match=r"eta=.* is not below 2 \(1 \+ momentum\)/lambda_max"):
        descent_limit(x, y, eta=2.01 * (1 + momentum) * eta, momentum=momentum)
    assert descent_limit(x, y, eta=1.99 * (1 + momentum) * eta, momentum=momentum).residual < 1e-10


def test_a_kernel_from_features_gives_the_outputs_of_their_weights(equations, rng):
    (x, y), start, new = equations, rng.normal(size=9), rng.normal(size=(3, 9))
    limit = descent_limit(x, y, start)
    found = kernel_descent_limit(x @ x.T, y, new @ x.T, start_train=x @ start, start_test=new @ start)
    assert_close(found.test, new @ limit.weights, 1e-10)
    assert_close(found.train, y, 1e-10)
    assert_close(found.norm, np.linalg.norm(limit.weights - start), 1e-10)
    assert_close(x.T @ limit.multipliers, limit.weights - start, 1e-9)


POTENTIALS = {
    "quadratic": Quadratic(np.linspace(0.5, 2.0, 9)),
    "hyperbolic": HyperbolicEntropy(np.linspace(0.01, 0.3, 9)),
    "entropy": Entropy(),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_mirror_descent_cones_and_newton_agree(name, rng):
    potential, x = POTENTIALS[name], rng.normal(size=(4, 9))
    y, start = x @ rng.uniform(0.3, 1.5, size=9), rng.uniform(0.5, 1.0, size=9)
    newton = mirror_limit(potential, x, y, start)
    assert_close(convex_limit(potential, x, y, start).weights, newton.weights, CONVEX)
    assert newton.residual < 1e-10
    slopes, eta = potential.slopes(start), 0.03
    for _ in range(5000):
        slopes = slopes - eta * x.T @ (x @ potential.weights(slopes) - y)
    assert_close(potential.weights(slopes), newton.weights, CONVEX)
    # Bregman's distance is convex: any other interpolator is farther.
    other = newton.weights + 0.01 * np.linalg.svd(x)[2][-1]
    assert potential.divergence(other, start) > potential.divergence(newton.weights, start)


@pytest.mark.parametrize("name", POTENTIALS)
def test_potentials_and_their_conjugates_belong_together(name, rng):
    potential, w, h = POTENTIALS[name], rng.uniform(0.1, 2.0, size=9), 1e-6
    s = potential.slopes(w)
    assert_close(potential.weights(s), w, 1e-12)
    assert_close(potential.value(w) + potential.conjugate(s), s @ w, 1e-10)
    unit = np.eye(9)[3] * h
    assert abs((potential.value(w + unit) - potential.value(w - unit)) / (2 * h) - s[3]) < 1e-6
    slope = (potential.weights(s + unit)[3] - potential.weights(s - unit)[3]) / (2 * h)
    assert abs(slope - potential.softness(s)[3]) < 1e-6 * max(1, slope)


def test_the_penalty_is_the_integral_of_its_slope():
    for b in (1e-3, 0.5, -30.0):
        expected = quad(lambda u: np.arcsinh(u / 2 / 0.2), 0, b, epsabs=1e-14)[0]
        assert_close(HyperbolicEntropy(0.2).value(np.array([b])), expected, 1e-10)


def test_gradient_flow_meets_the_convex_minimiser_over_six_decades(equations, rng):
    (x, y), theta0 = equations, rng.uniform(0.5, 2.0, size=9)
    for alpha in (1e-5, 10.0):
        end = diagonal_flow(x, y, alpha * theta0)
        limit = DiagonalNetwork(alpha, theta0).limit(x, y).weights
        assert_close(end.beta, limit, CONVEX)
        assert_close(end.plus * end.minus, alpha**2 * theta0**2, 1e-6)


def test_a_finite_step_acts_like_a_smaller_start(equations, rng):
    (x, y), theta0 = equations, rng.uniform(0.5, 2.0, size=9)
    network, errors = DiagonalNetwork(0.3, theta0), []
    for eta in (0.01, 0.005):
        end = diagonal_descent(x, y, 0.3 * theta0, eta=eta, steps=40_000)
        shrunk = mirror_limit(HyperbolicEntropy(network.effective_scale(x, y, eta)), x, y).weights
        errors.append(np.abs(end.beta - shrunk).max())
        assert errors[-1] < 0.05 * np.abs(end.beta - network.limit(x, y).weights).max()
    assert 3.5 < errors[0] / errors[1] < 4.5
    with pytest.raises(ValueError, match=r"eta=5 is beyond stability"):
        diagonal_descent(x, y, theta0, eta=5.0, steps=100)


def test_sparse_interpolators_by_hand():
    found = least_sum(np.array([[1.0, 2.0, -0.5]]), np.array([2.0]))
    assert_close(found.weights, np.array([0.0, 1.0, 0.0]))
    assert_close(found.slopes, np.array([0.5, 1.0, -0.25]))
    assert found.slack == 0.5
    # One equation: b = (0, 1, 0), delta = log(1)/2 = 0, and unused features are 2 a sinh(x_i nu log(1/a)).
    law = DiagonalNetwork(1e-3).small_scale_law(np.array([[1.0, 2.0, -0.5]]), np.array([2.0]))
    assert_close(law[0], 1e-3 - 1e-9, 1e-9)
    assert_close(
        law, DiagonalNetwork(1e-3).limit(np.array([[1.0, 2.0, -0.5]]), np.array([2.0])).weights, 1e-2
    )
    with pytest.raises(ValueError, match="it is not unique"):
        DiagonalNetwork(1e-3).small_scale_law(np.array([[1.0, 1.0]]), np.array([2.0]))


def test_certificates_of_both_kinds(rng):
    x = rng.normal(size=(30, 3))
    y = x @ np.array([1.0, -2.0, 0.5]) > 0
    found = separability(x, y)
    assert found.separable
    assert ((x @ found.weights) * np.where(y, 1, -1) > 0).all()
    y[np.argmax(np.abs(x[:, 1]))] ^= True
    mixed = separability(x, y, bias=True)
    assert not mixed.separable
    rows = np.append(x, np.ones((30, 1)), axis=1) * np.where(y, 1, -1)[:, None]
    assert_close(mixed.shares @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)), np.zeros(4), scale=1e3)
    assert_close(mixed.shares.sum(), 1.0)
    with pytest.raises(ValueError, match=r"not separable by a hyperplane: \d+ points"):
        max_margin(x, y, bias=True)


def test_the_hard_margin_is_that_of_scikit_learn_and_of_a_general_solver(rng):
    x = rng.normal(size=(40, 3))
    y = np.where(x[:, 0] + 0.3 > 0, 1, -1)
    x[:, 0] += 0.4 * y
    found = max_margin(x, y)
    rows = x * y[:, None]
    machine = SVC(C=1e10, kernel="linear", tol=1e-9).fit(np.append(rows, -rows, 0), np.repeat([1, -1], 40))
    assert_close(found.weights, machine.coef_[0], 1e-5)
    general = minimize(
        lambda w: w @ w / 2, machine.coef_[0], jac=lambda w: w, method="SLSQP", options={"ftol": 1e-14},
        constraints={"type": "ineq", "fun": lambda w: rows @ w - 1, "jac": lambda w: rows},
    )  # fmt: skip
    assert_close(found.weights, general.x, CONVEX)
    assert_close(found.multipliers @ rows, found.weights, 1e-10)
    assert_close(found.multipliers.sum(), 1 / found.margin**2, 1e-10)
    assert found.margins.min() > 1 - 1e-10
    assert set(found.support) == set(machine.support_ % 40)


def test_the_flow_arrives_at_its_law(classes):
    found = max_margin(*classes)
    assert found.spans
    times = np.array([0.8, 1.0]) * found.horizon
    for loss in ("exponential", "logistic"):
        w = separable_flow(*classes, times, loss=loss)
        assert_close(w[-1], found.weights_at(times[-1]), CONVEX)
        angle = np.arccos(w[-1] @ found.direction / np.linalg.norm(w[-1]))
        assert_close(angle, found.angle_at(times[-1]), 1e-4)
        assert_close(np.exp(-found.signed @ w[-1]).mean(), found.loss_at(times[-1]), 1e-4)
    assert_close(found.angle_at(1e6) * 1e6, found.direction_constant, 1e-4)


def test_descent_has_steps_times_eta_for_time(classes):
    """Plain gradient descent on the mean logistic loss."""
    (x, y), eta, steps = classes, 0.5, 20_000
    rows, w = x * y[:, None], np.zeros(2)
    for _ in range(steps):
        w = w + eta * rows.T @ (1 / (1 + np.exp(rows @ w))) / len(y)
    assert_close(w, separable_flow(x, y, np.log([eta * steps]))[0], 1e-3)


def test_the_time_of_a_share_is_when_the_flow_has_it(classes):
    found = max_margin(*classes)
    for loss in ("exponential", "logistic"):
        when = time_to_margin(found, 0.97, loss=loss)
        w = separable_flow(*classes, np.array([when.log_time]), loss=loss)[0]
        assert_close((found.signed @ w).min() / np.linalg.norm(w) / found.margin, 0.97, 1e-6)
    late = time_to_margin(found, 0.9999)
    assert_close(late.log_time * 1e-4, margin_constant(found), 1e-2)
    assert_close(late.log10_steps(0.1), late.log_time / np.log(10) + 1)
    assert_close(late.normalised_time, late.log_time / found.margin**2, 1e-2)
    with pytest.raises(ValueError, match="is not below 2/largest curvature"):
        late.log10_steps(100.0)
    with pytest.raises(ValueError, match="fraction must be between 0 and 1"):
        time_to_margin(found, 1.0)


def test_normalised_steps_reach_the_margin(classes):
    found = max_margin(*classes)
    linear = lambda w, x: x @ w
    when = time_to_margin(found, 0.995, loss="exponential")
    run = train_to_margin(linear, jnp.zeros(2), *classes, steps=when.normalised_steps(0.05), rate=0.05)
    seen = margins(specimen(linear, classes[0], classes[1][:, None], params=run.params))
    assert_close(seen.normalised / found.margin, 0.995, 1e-3)
    # Time on the sum of the losses is the n-th part of time on their mean.
    assert_close(run.log_times[-1], when.log_time - np.log(5), 0.05)
    assert_close(seen.order, 1.0, 1e-6)
    assert set(seen.support) == set(found.support)
    assert_close(seen.multipliers @ found.signed, run.params / np.linalg.norm(run.params), 1e-2)
    assert seen.residual < 0.02
    assert seen.slackness < 0.01


def test_margins_of_a_relu_network_and_what_is_refused(classes, rng):
    x, y = classes
    weights = {"in": jnp.asarray(rng.normal(size=(2, 8))), "out": jnp.asarray(rng.normal(size=8))}
    network = lambda w, x: jnp.maximum(x @ w["in"], 0) @ w["out"]
    first, last = (
        margins(
            specimen(network, x, y[:, None], params=train_to_margin(network, weights, x, y, steps=s).params)
        )
        for s in (2000, 30_000)
    )
    assert_close(last.order, 2.0, 1e-6)
    assert last.normalised > first.normalised > 0
    assert last.residual < first.residual
    biased = lambda w, x: jnp.maximum(x @ w["in"] + 1.0, 0) @ w["out"]
    with pytest.raises(ValueError, match=r"not homogeneous in its weights"):
        margins(specimen(biased, x, y[:, None], params=weights))
    with pytest.raises(ValueError, match="rate=2 is not below 2"):
        train_to_margin(network, weights, x, y, steps=10, rate=2.0)


def test_the_sparse_margin_is_held_by_its_dual(rng):
    x = rng.normal(size=(12, 5))
    y = np.where(x[:, 0] > 0, 1, -1)
    found = sparse_margin(x, y)
    rows = x * y[:, None]
    assert (rows @ found.weights).min() > 1 - 1e-9
    assert_close(found.multipliers.sum(), 1 / found.margin, 1e-9)
    assert_close(found.slopes, found.multipliers @ rows, 1e-12)
    assert np.abs(found.slopes).max() < 1 + 1e-9
    assert (found.multipliers >= 0).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: descent_limit(np.ones((2, 1)), np.array([1.0, 2.0])), "y cannot be interpolated: 2 labels"),
        (lambda: mirror_limit(Entropy(), np.ones((1, 2)), np.array([-1.0])), "weights that Entropy reaches"),
        (
            lambda: descent_limit(np.ones((1, 2)), np.ones(1), momentum=1.0),
            "momentum must be between 0 and 1",
        ),
        (lambda: descent_limit(np.ones((1, 2)), np.ones(1), np.ones(3)), r"start has shape \(3,\)"),
        (lambda: DiagonalNetwork(1.0, np.array([1.0, 0.0])), "a weight that starts at zero stays there"),
        (lambda: max_margin(np.ones((3, 1)), [0, 1, 2]), "y must hold two classes, got 3"),
        (lambda: max_margin(np.array([[0.0], [1.0]]), [0, 1]), "row 0 of x is zero"),
        (lambda: separable_flow(np.ones((2, 1)), np.array([0.0, 1.0]), np.ones(1)), "y must hold -1 and 1"),
        (
            lambda: stationary_point(np.ones((2, 2)), np.zeros((2, 2, 2)), np.array([1.0, 2.0])),
            "does not continue in epsilon",
        ),
        (
            lambda: perpendicular_drift(
                np.ones((2, 2)), np.zeros((2, 2, 2)), np.array([1.0, 2.0]), np.zeros(2)
            ),
            "the drift does not end",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(call, sentence, unchecked_annotations):
    with pytest.raises(ValueError, match=sentence):
        call()
