"""The instruments of the laboratory, checked against closed forms and against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.architecture.mlp import MLP
from finitewidth.course._instruments import layer_integrals, weight_descent
from finitewidth.course._instruments.network_draws import input_of_size, over_layers, over_networks
from finitewidth.course._lab.estimate import sample_mean
from finitewidth.course.finite_width_at_initialisation.networks.single_input_ntk import tangent_kernels
from finitewidth.course.lazy_training.networks import fixed_readout
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from tolerances import PLAIN_DIFFERENCES, ROUNDING, STIFF_SOLVE

DRAWS = 4000


def hidden_moments(net, params, x):
    """Second moments of every hidden layer of a real network."""
    return jnp.stack([z @ z.T / z.shape[1] for z in net.preactivations(params, x)[:-1]])


def tangent_moments(net, params, x):
    z, dz = jax.jvp(lambda x: net.preactivations(params, x), (x[:1],), (x[1:],))
    pairs = [jnp.concatenate([a, b]) for a, b in zip(z[:-1], dz[:-1], strict=True)]
    return jnp.stack([pair @ pair.T / pair.shape[1] for pair in pairs])


@pytest.mark.parametrize("with_tangent", [False, True])
def test_layers_drawn_one_by_one_have_the_law_of_networks(with_tangent):
    net = MLP((6, 6), "tanh", 0.2, 1.4)
    x = np.array([[1.0, 0.5, -0.3], [0.2, -0.8, 1.0]])
    statistic = tangent_moments if with_tangent else hidden_moments
    real = over_networks(net, x, jax.random.key(0), DRAWS, statistic)
    drawn = over_layers(net, x, jax.random.key(1), DRAWS, with_tangent=with_tangent)
    for power in (1, 2):
        first, second = sample_mean(real**power), sample_mean(drawn**power)
        z = (first.value - second.value) / np.hypot(first.sem, second.sem)
        assert np.abs(z).max() < 4


@pytest.mark.parametrize(
    "net",
    [
        MLP((4, 4, 4), "tanh", (0.3, 0.1, 0.2, 0.4), (1.4, 1.1, 1.6, 0.9), (0.2, 0.5, 0.1, 0.3), 0.7),
        MLP((3, 3), "relu", lambda_b=0.0),
    ],
    ids=["tanh with biases", "relu"],
)
def test_kernels_of_one_input_have_the_law_of_networks(net):
    """Three neurons are all off in one network of eight, so that this case is among the draws."""
    x = np.array([[0.9, 0.5, -0.3]])
    real = over_networks(
        net, x, jax.random.key(0), 20_000, lambda n, p, x: empirical_ntk(n, p, x)[0, 0, 0, 0]
    )
    drawn = tangent_kernels(net, float(np.mean(x**2)), jax.random.key(1), 20_000)
    for power in (0.5, 1, 2):
        first, second = sample_mean(real**power), sample_mean(drawn**power)
        assert abs(first.value - second.value) < 4 * np.hypot(first.sem, second.sem)


def test_layers_of_different_widths_are_refused():
    with pytest.raises(ValueError, match=r"one width, got \(4, 5\)"):
        over_layers(MLP((4, 5), "relu"), input_of_size(1.0), jax.random.key(0), 2)


def test_parallel_inputs_stay_finite():
    moments = over_layers(MLP((8, 8), "relu"), np.ones((2, 3)), jax.random.key(0), 5)
    assert np.isfinite(moments).all()
    np.testing.assert_allclose(moments[..., 0, 0], moments[..., 0, 1], rtol=1e-5)


@pytest.mark.parametrize("draws", [1, 7, 100_000])
def test_number_of_draws(draws):
    outputs = over_networks(MLP((2,), "linear"), input_of_size(1.0), jax.random.key(0), draws, hidden_moments)
    assert outputs.shape == (draws, 1, 1, 1)
    assert len(np.unique(outputs)) == draws


@pytest.mark.parametrize("K", [0.1, 1.0, 2.5])
def test_responses_of_sin_have_closed_forms(K):
    """<sin^2> = (1 - e^-2K)/2 and <cos^2> = (1 + e^-2K)/2."""
    sin = layer_integrals.plain_function("sin")
    decay = np.exp(-2 * K)
    np.testing.assert_allclose(
        layer_integrals.second_moment(sin, K), (1 - decay) / 2, rtol=ROUNDING["float64"]
    )
    np.testing.assert_allclose(layer_integrals.parallel_response(sin, 1.5, K), 1.5 * decay, rtol=STIFF_SOLVE)
    np.testing.assert_allclose(
        layer_integrals.perpendicular_response(sin, 1.5, K), 0.75 * (1 + decay), rtol=STIFF_SOLVE
    )
    np.testing.assert_allclose(layer_integrals.curvature(sin, 1.5, K), -3 * decay, rtol=PLAIN_DIFFERENCES)


def test_variance_flow_of_a_kinked_activation():
    relu = layer_integrals.plain_function("relu")
    np.testing.assert_allclose(
        layer_integrals.variance_flow(relu, 0.5, 1.0, 3.0, 4), [3.0, 2.0, 1.5, 1.25], rtol=ROUNDING["float64"]
    )


def test_critical_variance_of_gelu_is_known():
    np.testing.assert_allclose(
        layer_integrals.critical_variance("gelu", 1.0, 10.0), (3 + np.sqrt(17)) / 2, rtol=STIFF_SOLVE
    )


@pytest.mark.parametrize("cosine", [-1.0, -0.3, 0.0, 0.8, 1.0])
def test_pairs_of_sines_have_a_closed_form(cosine):
    """<sin sin> = sinh(c)/e for unit variances and correlation c."""
    sin = layer_integrals.plain_function("sin")
    np.testing.assert_allclose(layer_integrals.pair_moment(sin, cosine), np.sinh(cosine) / np.e, atol=1e-14)


def test_descent_on_weights_is_the_recursion_written_out():
    problem = weight_descent.random_problem(3, 5, 2, np.random.default_rng(0))
    etas = np.array([0.1, 0.3])
    found = weight_descent.descend(problem, etas, (0, 2))
    for eta, (first, second) in zip(etas, found, strict=True):
        w = problem.start
        np.testing.assert_array_equal(first, w)
        for _ in range(2):
            gradient = sum(
                (features @ w - y) * features for features, y in zip(problem.train, problem.y, strict=True)
            )
            w = w - eta * gradient
        np.testing.assert_allclose(second, w, rtol=1e-13)


@pytest.mark.parametrize("edge", [0.3, 1.0, 1.99])
def test_steps_to_rounding_leave_nothing(edge):
    """Close to the edge of stability it is the sharpest mode that is slow."""
    problem = weight_descent.random_problem(4, 9, 1, np.random.default_rng(1))
    etas = np.array([edge / weight_descent.largest_curvature(problem)])
    steps = weight_descent.steps_to_rounding(problem, etas)
    half, end = weight_descent.descend(problem, etas, (steps // 2, steps))[0]
    np.testing.assert_allclose(problem.train @ end, problem.y, atol=1e-13)
    left = np.linalg.norm(problem.train @ half - problem.y)
    assert 1e-10 < left < np.exp(-18) * np.linalg.norm(problem.train @ problem.start - problem.y)


def test_rounding_of_descent_is_bounded_by_the_condition():
    """A problem of condition 1e8 leaves eight digits, one of condition one all of them."""
    for smallest in (1.0, 1e-4):
        train = np.diag([1.0, smallest])
        problem = weight_descent.LinearProblem(train, train, np.ones(2), np.zeros(2))
        bound = 2 * 2.0**-52 / smallest**2 * np.sqrt(2) / smallest
        np.testing.assert_allclose(weight_descent.rounding(problem), bound, rtol=1e-6)


def test_paired_neurons_start_at_zero_and_have_the_kernel_of_their_gradients():
    x = jnp.asarray(np.random.default_rng(3).normal(size=(3, 4)))
    neurons = fixed_readout.paired_start(jax.random.key(0), 10, 4)
    np.testing.assert_allclose(fixed_readout.outputs(neurons, x), 0.0, atol=1e-15)
    kernel = empirical_ntk(fixed_readout.outputs, neurons, x, rates=fixed_readout.Neurons(1.0, 0.0))[0, 0]
    np.testing.assert_allclose(fixed_readout.hidden_kernel(neurons, x), kernel, rtol=ROUNDING["float64"])


def test_training_of_hidden_weights_records_what_happened():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=3)
    neurons = fixed_readout.paired_start(jax.random.key(1), 200, 4)
    run = fixed_readout.train_hidden(neurons, x, y, step=0.2, steps=400, records=4)
    np.testing.assert_allclose(run.times, 3 * 0.2 * np.array([0, 100, 200, 300, 400]))
    np.testing.assert_allclose(run.losses[0], np.mean(y**2) / 2)
    assert (np.diff(run.losses) < 0).all()
    assert (run.movement[0] == 0).all()
    assert (run.movement[-1] > 0).all()
    np.testing.assert_allclose(
        run.kernels[0], fixed_readout.hidden_kernel(neurons, jnp.asarray(x)), rtol=ROUNDING["float64"]
    )
