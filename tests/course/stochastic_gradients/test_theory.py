"""Steady states, drifts, densities and schedules of noisy descent, against enumeration and other solvers."""

import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import minimize

from finitewidth.course.stochastic_gradients.theory.batches import batch_covariance, batch_factors
from finitewidth.course.stochastic_gradients.theory.diffusion import (
    ito_density,
    ring_walk,
    step_density,
    two_step_share,
)
from finitewidth.course.stochastic_gradients.theory.label_noise import label_noise_path, label_noise_penalty
from finitewidth.course.stochastic_gradients.theory.least_squares import (
    least_squares_steady_state,
    sgd_step_limit,
)
from finitewidth.course.stochastic_gradients.theory.schedules import (
    best_schedule,
    late_variance,
    noise_bound,
    noisy_descent,
    variance_floor,
)
from finitewidth.course.stochastic_gradients.theory.steady_state import pass_covariance, steady_covariance
from finitewidth.course.stochastic_gradients.theory.valleys import (
    entropic_drift,
    valley_drift,
    valley_variance,
)
from tolerances import assert_close

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "stochastic-gradients.json").read_text())


@pytest.fixture(scope="module")
def bowl():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 4, 4))
    return a @ a.T / 4 + 0.2 * np.eye(4), b @ b.T


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(6)
    return rng.normal(size=(6, 2)), rng.normal(size=6)


def batches(sampling, m=6, b=2):
    """Every batch with its probability."""
    if sampling == "with replacement":
        return [(list(c), m**-b) for c in itertools.product(range(m), repeat=b)]
    if sampling == "without replacement":
        sets = list(itertools.combinations(range(m), b))
        return [(list(c), 1 / len(sets)) for c in sets]
    p = b / m
    sizes = (s for k in range(m + 1) for s in itertools.combinations(range(m), k))
    return [(list(s), p ** len(s) * (1 - p) ** (m - len(s))) for s in sizes]


SAMPLINGS = ("without replacement", "with replacement", "bernoulli")


class TestSteadyState:
    @pytest.mark.parametrize("part", [0.1, 0.9])
    def test_covariance_solves_the_discrete_lyapunov_equation(self, bowl, part):
        h, c = bowl
        eta = 2 * part / np.linalg.eigvalsh(h)[-1]
        step = np.eye(4) - eta * h
        assert_close(steady_covariance(h, c, eta), solve_discrete_lyapunov(step, eta**2 * c), 1e-10)

    def test_heavy_ball_is_the_lyapunov_equation_of_position_and_velocity(self, bowl):
        h, c = bowl
        eta, b, one = 2.5 / np.linalg.eigvalsh(h)[-1], 0.6, np.eye(4)
        step = np.block([[one - eta * h, -eta * b * one], [h, b * one]])
        kick = np.vstack([-eta * one, one])
        full = solve_discrete_lyapunov(step, kick @ c @ kick.T)
        assert_close(steady_covariance(h, c, eta, momentum=b), full[:4, :4], 1e-10)

    def test_shuffled_passes_by_all_orders(self, bowl):
        """Three batches with given gradients that add up to zero, in each of their six orders."""
        h, _ = bowl
        kicks = np.random.default_rng(0).normal(size=(3, 4))
        kicks -= kicks.mean(axis=0)
        eta = 0.7 / np.linalg.eigvalsh(h)[-1]
        step, made = np.eye(4) - eta * h, np.zeros((4, 4))
        for order in itertools.permutations(range(3)):
            at = np.zeros(4)
            for i in order:
                at = step @ at - eta * kicks[i]
            made += np.outer(at, at) / 6
        expected = solve_discrete_lyapunov(np.linalg.matrix_power(step, 3), made)
        assert_close(pass_covariance(h, kicks.T @ kicks / 3, eta, 3), expected, 1e-10)

    def test_against_simulated_descent(self, bowl):
        """|z| < 4 in all ten entries; the noise of the simulation makes one in 1,600 such tests fail."""
        h, c = bowl
        eta = 1.2 / np.linalg.eigvalsh(h)[-1]
        rng, root = np.random.default_rng(1), np.linalg.cholesky(c)
        at = np.zeros((20_000, 4))
        for _ in range(int(10 / (eta * np.linalg.eigvalsh(h)[0])) + 1):
            at = at - eta * (at @ h + rng.standard_normal(at.shape) @ root.T)
        products = at[:, :, None] * at[:, None]
        sem = products.std(axis=0) / np.sqrt(len(at))
        z = (products.mean(axis=0) - steady_covariance(h, c, eta)) / sem
        assert np.abs(z).max() < 4
        assert np.abs((products.mean(axis=0) - 0.9 * steady_covariance(h, c, eta)) / sem).max() > 4

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((np.eye(2), np.eye(2), 2.0), "eta=2 is beyond stability, which ends at 2 here"),
            ((np.diag([1.0, 0.0]), np.eye(2), 0.1), "hessian is singular or negative in 1 of 2 directions"),
            ((np.eye(2), np.eye(3), 0.1), r"noise has shape \(3, 3\)"),
            ((np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]]), 0.1), "noise is not symmetric"),
            ((np.eye(2), np.eye(2), -1.0), "eta must be a positive number"),
        ],
    )
    def test_wrong_input(self, arguments, sentence, unchecked_annotations):
        with pytest.raises(ValueError, match=sentence):
            steady_covariance(*arguments)

    def test_momentum_moves_the_limit(self):
        one = np.eye(1)
        assert steady_covariance(one, one, 2.5, momentum=0.5) > 0
        with pytest.raises(ValueError, match="ends at 3 here"):
            steady_covariance(one, one, 3.0, momentum=0.5)


class TestBatches:
    @pytest.mark.parametrize("sampling", SAMPLINGS)
    def test_covariance_by_enumeration(self, regression, sampling):
        g = np.random.default_rng(0).normal(size=(6, 2))
        mean = g.mean(axis=0)
        slopes = [(g[s].sum(axis=0) / 2 - mean, p) for s, p in batches(sampling)]
        expected = sum(p * np.outer(v, v) for v, p in slopes)
        assert_close(batch_covariance(g, 2, sampling), expected, 1e-12)

    @pytest.mark.parametrize("sampling", SAMPLINGS)
    @pytest.mark.parametrize("ridge", [0.0, 0.1])
    def test_regression_by_enumeration(self, regression, sampling, ridge):
        x, y = regression
        eta = 0.3
        state = least_squares_steady_state(x, y, batch_size=2, eta=eta, sampling=sampling, ridge=ridge)
        linear, made, squares = np.zeros((4, 4)), np.zeros((2, 2)), []
        for s, p in batches(sampling):
            h = x[s].T @ x[s] / 2 + ridge * np.eye(2)
            g = x[s].T @ (x[s] @ state.minimiser - y[s]) / 2 + ridge * state.minimiser
            step = np.eye(2) - eta * h
            linear += p * np.kron(step, step)
            made += p * np.outer(g, g)
            squares.append((p, h, g))
        second = np.linalg.solve(np.eye(4) - linear, eta**2 * made.ravel()).reshape(2, 2)
        moment = sum(p * (h @ second @ h + np.outer(g, g)) for p, h, g in squares)
        assert_close(state.covariance, second, 1e-10)
        assert_close(state.noise, made, 1e-10)
        assert_close(state.gradient_moment, moment, 1e-10)
        assert state.excess_loss == pytest.approx(state.dissipation / 2)
        assert state.dissipation == pytest.approx(eta / 2 * np.trace(moment))

    @pytest.mark.parametrize("sampling", SAMPLINGS)
    def test_the_step_limit_is_where_the_recursion_stops_to_shrink(self, regression, sampling):
        x, _ = regression
        limit = sgd_step_limit(x, 2, sampling)
        for part, radius in ((0.99, -1), (1.01, 1)):
            linear = np.zeros((4, 4))
            for s, p in batches(sampling):
                step = np.eye(2) - part * limit * x[s].T @ x[s] / 2
                linear += p * np.kron(step, step)
            assert np.sign(np.abs(np.linalg.eigvals(linear)).max() - 1) == radius

    def test_printed_reference(self):
        known = REFERENCE["fluctuation-dissipation"]
        x, y = np.array(known["inputs"]["X"]), np.array(known["inputs"]["y"])
        state = least_squares_steady_state(x, y, batch_size=2, eta=0.05, sampling="bernoulli")
        assert_close(np.array(state.dissipation), known["theta_dot_grad"], 1e-10)
        second = state.covariance + np.outer(state.minimiser, state.minimiser)
        assert_close(second, np.array(known["second_moment"]), 1e-10)

    def test_wrong_input(self, regression):
        x, y = regression
        with pytest.raises(ValueError, match="batch_size=7 is larger than the data of 6 points"):
            least_squares_steady_state(x, y, batch_size=7, eta=0.1)
        assert least_squares_steady_state(x, y, batch_size=7, eta=0.1, sampling="with replacement")
        with pytest.raises(ValueError, match="is beyond stability"):
            least_squares_steady_state(x, y, batch_size=1, eta=5.0)
        with pytest.raises(ValueError, match="singular or negative in 1 of 2"):
            least_squares_steady_state(x[:, [0, 0]], y, batch_size=2, eta=0.1)
        with pytest.raises(ValueError, match="sampling must be one of"):
            batch_factors(2, 6, "often")


def opposed(params):
    s, t = params
    return 0.5 * ((2 + s**2) * t[0] ** 2 + (3 - s) * t[1] ** 2)


class TestValleys:
    def test_variance_across_a_wall(self):
        for case in REFERENCE["sgd-valley-variance"]["cases"]:
            found = valley_variance(2 * case["lam"], case["alpha"], case["gamma"])
            assert_close(found, np.array(case["value"]), 1e-12)
        h = np.array([1.0, 5.0])
        variances = np.diag(steady_covariance(np.diag(h), np.diag(0.7 * h), 0.3))
        assert_close(valley_variance(h, 0.7, 0.3), variances, 1e-12)

    def test_drift_of_the_reference(self):
        """lambda = 1 + h^2/2 at h = 1: curvature 3 of the Hessian, slope 2."""
        for eta, drift in REFERENCE["entropic-force"]["drift_per_step"].items():
            found = valley_drift(np.array([3.0]), np.array([[2.0]]), 0.7, float(eta))
            assert_close(found, np.array([drift]), 1e-12)

    def test_drift_of_any_loss_is_the_drift_of_a_valley(self):
        s, eta, h = 1.2, 0.1, np.array([2 + 1.2**2, 3 - 1.2])
        drift = entropic_drift(opposed, (jnp.asarray(s), jnp.zeros(2)), np.diag([0.0, *(0.7 * h)]), eta)
        expected = valley_drift(h, np.array([[2 * s], [-1.0]]), 0.7, eta)
        assert_close(drift[0], expected[0], 1e-10)
        assert_close(drift[1], np.zeros(2), scale=1.0)

    def test_penalty_of_noisy_labels_pulls_like_the_drift(self):
        """Three points, four parameters: along the one flat direction both are the same."""
        x, y = np.array([[-1.0], [0.2], [1.0]]), np.zeros(3)
        apply = lambda p, x: p[0] * jnp.tanh(x[:, 0] * p[1] + p[2]) + p[3]
        params = jnp.array([0.0, 0.9, 0.3, 0.0])
        loss = lambda p: 0.5 * jnp.mean((apply(p, x) - y) ** 2)
        alpha, eta = 0.3, 0.4
        noise = alpha * np.asarray(jax.hessian(loss)(params))
        drift = np.asarray(entropic_drift(loss, params, noise, eta))
        pull = -eta * np.asarray(jax.grad(lambda p: label_noise_penalty(apply, p, x, alpha, eta))(params))
        values, vectors = np.linalg.eigh(noise)
        flat = vectors[:, values < 1e-9 * values[-1]]
        assert_close(drift, flat @ (flat.T @ pull), 1e-8)
        assert np.abs(drift).max() > 1e-4

    def test_wrong_input(self):
        with pytest.raises(ValueError, match="eta=2 is beyond stability, which ends at 1 here"):
            valley_variance(np.array([0.5, 2.0]), 1.0, 2.0)
        with pytest.raises(ValueError, match="noise has shape"):
            entropic_drift(opposed, (jnp.asarray(1.0), jnp.zeros(2)), np.eye(2), 0.1)
        apply = lambda p, x: x @ p
        with pytest.raises(ValueError, match="batch_size=3 is larger than the data of 2 points"):
            label_noise_path(
                apply, jnp.ones(1), np.ones((2, 1)), np.ones(2), noise_std=1.0, batch_size=3, eta=0.1, steps=4
            )


class TestDiffusion:
    @pytest.mark.parametrize("sites", [40, 100, 400])
    def test_a_ring_with_two_sizes_of_steps(self, sites):
        share = ring_walk(np.repeat([1, 2], sites // 2))[: sites // 2].sum()
        known = REFERENCE["state-dependent-diffusion"]["lattice"][str(sites)]
        assert_close(np.array([share, two_step_share(sites)]), np.array([known, known]), 1e-10)

    def test_two_wells(self):
        sd = lambda x: np.where(x < 0, 4.0, 6.0)
        law = ito_density(lambda x: (x**2 - 1) ** 2 / 4, sd, 0.02, -4, 4)
        known = REFERENCE["sgd-drift-diffusion-split"]["low_noise_occupation"]
        assert law.probability(law.points < 0) == pytest.approx(known, abs=1e-5)

        def weight(s):
            d = 0.02 * s**2 / 2
            return quad(lambda x: np.exp(-((x**2 - 1) ** 2 - 1) / (4 * d)) / d, 0, 4)[0]

        assert weight(4.0) / (weight(4.0) + weight(6.0)) == pytest.approx(known, abs=1e-6)

    def test_quiet_is_not_always_favoured(self):
        """A wide shelf above the barrier on either side: the noisy one is filled more."""
        shelf = lambda x: np.where(np.abs(x) < 2, (x**2 - 1) ** 2 / 4, 9 / 4)
        loss = lambda x: shelf(x) + 50 * np.maximum(np.abs(x) - 40, 0) ** 2
        law = ito_density(loss, lambda x: np.where(x < 0, 8.0, 12.0), 0.02, -42, 42, 16_000)
        assert 0.3 < law.probability(law.points < 0) < 0.5

    def test_finite_steps_on_a_bowl_are_the_lyapunov_variance(self):
        law = step_density(lambda x: 2 * x, lambda x: 0 * x + 1.3, 0.4, -6, 6)
        assert law.mean(law.points**2) == pytest.approx(variance_floor(2.0, 1.3, 0.4), rel=1e-9)
        assert law.mean(np.ones_like(law.points)) == pytest.approx(1.0)

    def test_finite_steps_tend_to_the_law_of_small_ones(self):
        sd = lambda x: np.where(x < 0, 4.0, 6.0)
        law = ito_density(lambda x: (x**2 - 1) ** 2 / 4, sd, 0.02, -4, 4)
        limit, gaps = law.probability(law.points < 0), []
        for halved in (1, 2):
            # The same D with half the step: noise grows by the square root of two.
            law = step_density(
                lambda x: x**3 - x, lambda x, k=halved: sd(x) * np.sqrt(k), 0.02 / halved, -4, 4, 1200
            )
            gaps.append(limit - law.probability(law.points < 0))
        assert 0 < gaps[1] < 0.8 * gaps[0]

    def test_wrong_input(self):
        with pytest.raises(ValueError, match="take at least 400 cells"):
            step_density(lambda x: x, lambda x: 0 * x + 1.0, 0.01, -1, 1, 10)
        with pytest.raises(ValueError, match="multiple of 4"):
            two_step_share(42)
        with pytest.raises(ValueError, match="positive whole numbers"):
            ring_walk(np.array([1.0, 2.0]))


class TestSchedules:
    def test_floor_of_a_constant_step(self):
        path = noisy_descent(np.array([0.5, 2.0]), 1.3, np.full(400, 0.6), start=3.0)
        assert_close(path.variance[-1], variance_floor(np.array([0.5, 2.0]), 1.3, 0.6), 1e-10)
        assert_close(path.mean[3], 3.0 * (1 - 0.6 * np.array([0.5, 2.0])) ** 3, 1e-12)
        first = 0.5 * np.sum(np.array([0.5, 2.0]) * 9.0)
        assert path.excess_loss[0] == pytest.approx(first)

    def test_variance_floor_of_the_ledger(self):
        assert variance_floor(2.0, 1.3, 0.1) == pytest.approx(0.0469444, abs=1e-7)

    @pytest.mark.parametrize("power", [1.0, 0.5])
    def test_late_variance(self, power):
        t = np.arange(1, 20_001)
        found = noisy_descent(2.0, 1.3, np.minimum(1.0 / t**power, 0.5)).variance[-1] * t[-1] ** power
        assert found == pytest.approx(late_variance(2.0, 1.3, 1.0, power), rel=0.02)

    def test_no_other_steps_are_better(self):
        """A general minimiser over five steps finds the same ones."""
        after = lambda etas: noisy_descent(2.0, 1.3, np.abs(etas), start_variance=4.0).variance[-1]
        found = minimize(after, np.full(5, 0.2), method="BFGS", options={"gtol": 1e-10})
        assert_close(np.abs(found.x), best_schedule(2.0, 1.3, 4.0, 5), 1e-4)
        assert after(best_schedule(2.0, 1.3, 4.0, 5)) == pytest.approx(1 / (1 / 4 + 5 * 4 / 1.69))

    def test_bound_of_noise(self):
        etas, kicks = np.array([0.2, 0.1]), np.array([1.0, 3.0])
        assert noise_bound(etas, kicks, 0.5, 4.0) == pytest.approx(0.2 * np.exp(-0.05) + 0.3)
        with pytest.raises(ValueError, match="above 1/largest"):
            noise_bound(np.array([0.49]), np.ones(1), 0.5, 4.0)

    def test_wrong_input(self):
        with pytest.raises(ValueError, match=r"2 c curvature = 0\.4 is not above 1"):
            late_variance(0.2, 1.0, 1.0)
        with pytest.raises(ValueError, match="curvature must be positive"):
            variance_floor(0.0, 1.0, 0.1)
        with pytest.raises(ValueError, match="power must be above 0"):
            late_variance(1.0, 1.0, 1.0, 1.5)
