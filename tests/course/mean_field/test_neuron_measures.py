"""Hidden layers as measures: flows, fluctuations and minimising movements, against plain networks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.course.mean_field.theory.fluctuations import mean_field_fluctuations
from finitewidth.course.mean_field.theory.population import (
    infinite_population,
    neuron_population,
    sampled_population,
)
from finitewidth.course.mean_field.theory.transport import (
    minimising_movement,
    potential_curvature,
    wasserstein,
)
from tolerances import assert_close

X = np.linspace(-1.5, 1.5, 8)[:, None]
Y = np.sin(2 * X[:, 0])
KEY = jax.random.key(0)


def output(rows):
    return jnp.tanh(X * rows[:, 0] + rows[:, 1]) @ rows[:, 2] / len(rows)


def risk(rows):
    return 0.5 * jnp.mean((output(rows) - Y) ** 2)


@pytest.fixture(scope="module")
def start():
    return sampled_population(KEY, 8, 1)


def test_descent_is_gradient_descent_on_all_weights(start):
    rows = start.neurons
    for _ in range(5):
        rows = rows - 8 * 0.3 * jax.grad(risk)(rows)
    path = start.descend(X, Y, tau=0.3, steps=5)
    assert_close(path.end.neurons, rows, 1e-12)
    assert_close(path.risks[-1], risk(rows), 1e-12)
    assert path.motion == pytest.approx(float(jnp.sqrt(jnp.mean(jnp.sum((rows - start.neurons) ** 2, 1)))))


def test_a_mixture_has_the_mixed_outputs(start):
    other = sampled_population(jax.random.key(1), 5, 1)
    mixed = start.mixed(other, 0.3)
    assert_close(mixed(X), 0.7 * start(X) + 0.3 * other(X), 1e-12)
    assert float(mixed.masses.sum()) == pytest.approx(1.0)


def test_a_neuron_of_the_user(start):
    own = neuron_population(
        start.neurons, lambda theta, x: theta[2] * jnp.tanh(x[:, 0] * theta[0] + theta[1])
    )
    assert_close(own(X), start(X), 1e-12)


@pytest.mark.parametrize("law", ["uniform", "gaussian"])
def test_nodes_have_the_moments_of_the_law(law):
    nodes = infinite_population(1, 6, law=law, std=0.5)
    drawn = sampled_population(KEY, 40_000, 1, law=law, std=0.5)
    for measure, within in ((nodes, 1e-10), (drawn, 0.03)):
        squares = measure.masses @ measure.neurons**2
        assert_close(squares, np.full(3, 0.25), within)
        # Independent directions: products of squares.
        assert measure.masses @ (measure.neurons[:, 0] * measure.neurons[:, 2]) ** 2 == pytest.approx(
            0.0625, rel=within if within < 0.01 else 0.05
        )


def test_fluctuations_at_the_start_are_the_variance_of_a_neuron():
    """After one step of length almost zero: no neuron has moved."""
    found = mean_field_fluctuations(infinite_population(1, 8), X, Y, X[:3], tau=1e-9, steps=1)
    features = np.asarray(sampled_population(KEY, 60_000, 1).features(X[:3]))
    assert_close(found.covariance, np.cov(features.T), 0.03)
    assert float(found.std(4)) == pytest.approx(float(np.sqrt(np.trace(found.covariance) / 3)) / 2)


def test_fluctuations_after_training_are_those_of_networks():
    """400 networks of 64 neurons: within 12 %, of which sampling noise is 3.5 and the next order about 5."""
    found = mean_field_fluctuations(infinite_population(1, 10), X, Y, X, tau=0.2, steps=20)
    rows = jax.random.uniform(KEY, (400, 64, 3), minval=-np.sqrt(3), maxval=np.sqrt(3))
    step = jax.jit(jax.vmap(lambda r: r - 64 * 0.2 * jax.grad(risk)(r)))
    for _ in range(20):
        rows = step(rows)
    outputs = np.asarray(jax.vmap(output)(rows))
    assert np.sqrt(outputs.var(axis=0, ddof=1).mean()) == pytest.approx(float(found.std(64)), rel=0.12)
    assert_close(outputs.mean(axis=0), np.asarray(found.mean), 0.05)


def test_wasserstein_distance_by_all_pairings():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 5, 2))
    best = min(np.mean(np.sum((a - b[list(p)]) ** 2, axis=1)) for p in itertools.permutations(range(5)))
    found = wasserstein(a, b)
    assert found.squared_distance == pytest.approx(best)
    assert_close(np.mean(np.sum((a - b[found.partner]) ** 2, axis=1)), np.array(best), 1e-12)


def test_a_minimising_movement_is_an_implicit_step(start):
    tau = 0.5 / potential_curvature(start, X, Y)
    found = minimising_movement(start, X, Y, tau)
    rows = found.population.neurons
    assert_close(rows, start.neurons - tau * 8 * jax.grad(risk)(rows), 1e-8)
    assert found.partner.tolist() == list(range(8))
    distance = float(jnp.mean(jnp.sum((rows - start.neurons) ** 2, axis=1)))
    assert found.squared_distance == pytest.approx(distance)
    assert found.objective == pytest.approx(float(risk(rows)) + distance / (2 * tau))
    assert found.objective < float(risk(start.neurons))


def test_curvature_is_of_the_risk_times_the_number_of_neurons(start):
    hessian = jax.hessian(lambda w: risk(w.reshape(8, 3)))(start.neurons.ravel())
    largest = np.abs(np.linalg.eigvalsh(8 * np.asarray(hessian))).max()
    assert potential_curvature(start, X, Y) == pytest.approx(largest)


def test_wrong_input(start, unchecked_annotations):
    with pytest.raises(ValueError, match="add up to 1"):
        neuron_population(start.neurons, "tanh", np.ones(8))
    with pytest.raises(ValueError, match="is beyond stability: the risk runs away"):
        neuron_population(start.neurons, lambda t, x: t[0] * x[:, 0] ** 2).descend(X, Y, tau=1e6, steps=80)
    with pytest.raises(ValueError, match="equal masses"):
        minimising_movement(start.mixed(start, 0.3), X, Y, 0.1)
    with pytest.raises(ValueError, match="law must be one of"):
        infinite_population(1, law="cauchy")
    with pytest.raises(ValueError, match="take fewer nodes"):
        infinite_population(6, 20)
    with pytest.raises(ValueError, match="of one shape"):
        wasserstein(np.ones((2, 1)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        start.mixed(start, 1.5)
