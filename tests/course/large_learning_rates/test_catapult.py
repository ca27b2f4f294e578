"""One point and large steps: the recursion against trained weights, and its laws against the recursion."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.architecture.models.taylor_models import FeatureTable
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork, Phase
from finitewidth.course.large_learning_rates.theory.catapult_quadratic import quadratic_phases
from finitewidth.course.large_learning_rates.theory.catapult_relu import relu_catapult
from tolerances import CLOSED_FORM, ROUNDING

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "lectures.json").read_text())
WIDTHS = np.array([1e3, 1e5])


def trained(u, v, x, y, eta, steps, frozen=True):
    """Outputs and squared gradients by automatic differentiation of the network with all its weights."""
    gates = u @ x >= 0

    def output(params):
        u, v = params
        on = gates if frozen else u @ x >= 0
        return jnp.sum(v * (u @ x) * on) / np.sqrt(u.size)

    @jax.jit
    def step(params):
        z, slope = jax.value_and_grad(output)(params)
        kernel = sum(jnp.sum(part**2) for part in slope)
        return jax.tree.map(lambda p, g: p - eta * (z - y) * g, params, slope), z, kernel

    params, path = (jnp.asarray(u), jnp.asarray(v)), []
    for _ in range(steps + 1):
        params, z, kernel = step(params)
        path.append((z, kernel))
    return np.array(path).T


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(3)
    return rng.normal(size=(40, 3)), rng.normal(size=40), rng.normal(size=3)


@pytest.mark.parametrize("edge", [0.7, 3.0, 3.5])
def test_the_recursion_is_training_of_all_weights(network, edge):
    u, v, x = network
    start = OnePointNetwork.of_weights(u, v, x, 0.4)
    eta = edge / float(start.kernel)
    path = start.descend(eta, 200)
    outputs, kernels = trained(u, v, x, 0.4, eta, 200)
    scale = np.abs(outputs).max()
    np.testing.assert_allclose(path.outputs, outputs, atol=1e-10 * scale)
    np.testing.assert_allclose(path.kernels, kernels, rtol=1e-10)
    np.testing.assert_allclose(path.losses[-1], (outputs[-1] - 0.4) ** 2 / 2, atol=1e-12)
    np.testing.assert_allclose(path.sharpness[0], edge)


def test_the_recursion_has_the_reference_trajectory():
    inputs = REFERENCE["catapult-kernel-recursion"]["inputs"]
    expected = np.array(REFERENCE["catapult-kernel-recursion"]["trajectory_first_20"])
    start = OnePointNetwork(inputs["z0"], inputs["lambda0"], inputs["a"], inputs["y"])
    path = start.descend(inputs["eta"], len(expected) - 1)
    np.testing.assert_allclose(np.stack([path.outputs, path.kernels], axis=1), expected, rtol=1e-9)


def test_sums_of_squares_evolve_by_their_own_factors(network):
    u, v, x = network
    start = OnePointNetwork.of_weights(u, v, x, 0.4)
    on = u @ x >= 0
    direct = [np.sum((np.linalg.norm(x) * v + sign * (u @ x))[on] ** 2) / u.size for sign in (1, -1)]
    np.testing.assert_allclose(start.sums, direct, rtol=ROUNDING["float64"])
    eta = 2.7
    c = eta * np.linalg.norm(x) / np.sqrt(u.size) * float(start.residual)
    after = [(1 - c) ** 2 * direct[0], (1 + c) ** 2 * direct[1]]
    np.testing.assert_allclose(start.step(eta).sums, after, rtol=ROUNDING["float64"])


def test_phases_change_at_two_and_at_four():
    edges = np.array([0.5, 1.9, 2.1, 3.0, 3.99, 4.01, 6.0])
    found = OnePointNetwork.of_width(1e6).phases(edges)
    assert found.phase.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert (found.sharpness[:5] < 2).all()
    few = OnePointNetwork.of_width(1e6).phases(np.array([0.01]), most_steps=10)
    assert few.phase.tolist() == [Phase.UNDECIDED]


def test_peaks_are_the_largest_outputs():
    start = OnePointNetwork.of_width(1e4)
    path = start.descend(np.array([2.5, 3.0]), 300)
    found = start.phases(np.array([2.5, 3.0]))
    np.testing.assert_allclose(found.peak, np.abs(path.outputs).max(axis=0))
    np.testing.assert_allclose(found.sharpness, path.sharpness[-1], rtol=1e-6)


def test_divergence_begins_at_four_without_a_label():
    boundary = OnePointNetwork.of_width(WIDTHS).divergence_boundary()
    np.testing.assert_allclose(boundary, REFERENCE["catapult-phase-boundaries"]["y0_threshold"], atol=1e-9)


@pytest.mark.parametrize(("output", "label"), [(1.0, -1.0), (2.0, 1.0), (0.5, 1.0)])
def test_a_label_shifts_the_boundary_by_its_first_order(output, label):
    start = OnePointNetwork.of_width(WIDTHS, output, label)
    exact, law = start.divergence_boundary(), start.wide_divergence_boundary
    shift = np.asarray(law) - 4
    np.testing.assert_allclose(shift, 16 * label * (output - label) / WIDTHS, rtol=CLOSED_FORM)
    assert (np.abs(exact - law) < shift**2).all()


def test_units_of_the_kernel_do_not_matter():
    """lambda -> c lambda, a -> c^2 a, eta -> eta/c is the same network in other units."""
    plain = OnePointNetwork(0.7, 1.0, 1e-3, 0.2)
    scaled = OnePointNetwork(0.7, 3.0, 9e-3, 0.2)
    np.testing.assert_allclose(plain.descend(2.6, 50).outputs, scaled.descend(2.6 / 3, 50).outputs, rtol=1e-9)
    np.testing.assert_allclose(plain.wide_divergence_boundary, scaled.wide_divergence_boundary)
    np.testing.assert_allclose(plain.growth_time(2.6), scaled.growth_time(2.6 / 3))
    np.testing.assert_allclose(3 * plain.lazy_drift(0.6), scaled.lazy_drift(0.6 / 3))


@pytest.mark.parametrize(("edge", "label"), [(0.5, 0.0), (1.2, 0.4)])
def test_the_lazy_drift_is_the_end_of_the_recursion(edge, label):
    start = OnePointNetwork.of_width(1e6, 1.0, label)
    drift = start.descend(edge, 400).kernels[-1] - start.kernel
    np.testing.assert_allclose(drift, start.lazy_drift(edge), rtol=1e-4)
    limit = REFERENCE["catapult-phase-boundaries"]["lazy_drift_times_m"]["limit"]
    np.testing.assert_allclose(OnePointNetwork.of_width(1.0).lazy_drift(0.5), -limit)


def test_growth_time_is_when_the_residual_gets_there():
    start = OnePointNetwork.of_width(1e8, 1.0)
    path = start.descend(2.5, 40)
    steps = float(start.growth_time(2.5, reach=0.01))
    log = np.log(np.abs(path.outputs))
    assert np.interp(np.log(0.01 * 1e4), log[:15], np.arange(15)) == pytest.approx(steps, abs=0.01)


def test_late_divergence_is_cubic():
    start = OnePointNetwork.of_width(1e6)
    z = start.descend(4.3, 13).outputs
    np.testing.assert_allclose(z[-1] / z[-2] ** 3, start.late_factor(4.3), rtol=1e-9)


def test_the_wide_relu_population_is_a_wide_network():
    """20,000 units on an even grid of angles, in their own weights with d = 1 and gates that may close."""
    m = 20_000
    angle = (np.arange(m) + 0.5) / m * 2 * np.pi
    u, v = np.sqrt(2) * np.cos(angle)[:, None], np.sqrt(2) * np.sin(angle)
    w = np.maximum(u[:, 0], 0)
    v = v + (1.0 * np.sqrt(m) - v @ w) / (w @ w) * w
    x = np.array([1.0])
    eta = 3.0 / float(OnePointNetwork.of_weights(u, v, x).kernel)
    outputs, kernels = trained(u, v, x, 0.0, eta, 60, frozen=False)
    path = relu_catapult(3.0, m, output=1.0, steps=60, angles=m // 2)
    np.testing.assert_allclose(path.outputs, outputs / np.sqrt(m), atol=1e-4)
    np.testing.assert_allclose(path.kernels, kernels / kernels[0], atol=1e-3)
    np.testing.assert_allclose(path.closed[-1], 0.11, atol=0.01)


def test_a_quadratic_model_of_one_point_has_the_phases_of_its_recursion():
    """z = v.w / m^1/2: weights (v, w), with kernel (v^2 + w^2)/m and curvature 1/m."""
    rng = np.random.default_rng(5)
    m, y = 12, 0.3
    v, w = rng.normal(size=(2, m))
    swap = np.kron([[0.0, 1.0], [1.0, 0.0]], np.eye(m)) / np.sqrt(m)
    model = FeatureTable(jnp.zeros((1, 2 * m)), jnp.asarray(swap[None]))
    start = OnePointNetwork(v @ w / np.sqrt(m), (v @ v + w @ w) / m, 1 / m, y)
    edges = np.array([1.0, 1.7, 2.5, 3.0, 6.0])
    found = quadratic_phases(model, np.concatenate([v, w])[None], np.array([y]), edges=edges)
    expected = start.phases(edges / start.kernel)
    np.testing.assert_allclose(found.kernel, start.kernel)
    assert found.phase.tolist() == expected.phase.tolist()
    converged = np.asarray(expected.phase) < Phase.DIVERGENT
    np.testing.assert_allclose(found.sharpness[converged], expected.sharpness[converged], rtol=1e-6)
    path = start.descend(edges / start.kernel, 300)
    rise = np.asarray(path.losses[:, converged]).max(axis=0) / path.losses[0, converged]
    np.testing.assert_allclose(found.rise[converged], rise)


def test_arguments_that_cannot_be_meant():
    with pytest.raises(ValueError, match="steps must be a whole number"):
        OnePointNetwork.of_width(10).descend(1.0, 0)
    with pytest.raises(ValueError, match="edge must be a positive number, got -1"):
        relu_catapult(-1.0, 100)
