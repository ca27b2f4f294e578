"""Kinks between curved sides: against smoothed activations, one input, symmetric inputs and real networks."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.estimate import sample_mean
from finitewidth.statistics.first_order.bent_neurons import bent_averages
from tolerances import LIMIT, SERIES, SMOOTHED, assert_close

X = np.array([[1.0, 0.3], [-0.4, 1.2]])
FLUCTUATIONS = ("K", "Theta", "G1", "V", "H1", "D", "F", "A", "B")
DIFFERENTIALS = ("P", "Q", "R", "S", "T", "U")


def network(activation, hidden=(30, 20)):
    return fw.MLP(hidden, activation, (0.1, 0.2, 0.1), (1.3, 1.1, 1.4), (0.3, 0.2, 0.1), (0.7, 0.5, 0.8))


def smoothed_elu(w):
    """The average of ELU over a Gaussian of width w around its argument."""

    # One minus erf rather than erfc: its derivatives compile fast, and nothing here is in the tail.
    share = lambda u: (1 + jax.lax.erf(u / math.sqrt(2))) / 2

    def function(z):
        u = z / w
        linear = z * share(u) + w * jnp.exp(-(u**2) / 2) / jnp.sqrt(2 * jnp.pi)
        return linear + jnp.exp(z + w**2 / 2) * share(-u - w) - share(-u)

    return fw.Activation(function, name="smoothed ELU")


def test_elu_is_the_limit_of_smooth_activations():
    """Fluctuations approach it as w^2, differentials as w; a parabola through three widths meets both."""
    coarse, middle, fine = (
        fw.corrections(network(smoothed_elu(w)), X[:1], tolerance=1e-4) for w in (0.2, 0.1, 0.05)
    )
    sharp = fw.corrections(network("elu"), X[:1])
    for name in (*FLUCTUATIONS, *DIFFERENTIALS):
        a, b, c = (np.asarray(getattr(tensors, name)) for tensors in (coarse, middle, fine))
        assert_close((8 * c - 6 * b + a) / 3, getattr(sharp, name), SMOOTHED)


@pytest.mark.parametrize("activation", ["elu", "selu"])
def test_one_of_several_inputs(activation):
    """The dense tensors at one input are derivatives with respect to its variance alone."""
    net = network(activation)
    tensors, growth = fw.corrections(net, X), fw.depth_growth(net, float(np.mean(X[0] ** 2)))
    for name in FLUCTUATIONS:
        assert_close(np.asarray(getattr(tensors, name)).flat[0], getattr(growth, name)[-1], SERIES)


def test_equal_inputs_share_their_tensors():
    tensors = fw.corrections(network("elu"), X[[0, 0]])
    alone = fw.corrections(network("elu"), X[:1])
    for name in (*FLUCTUATIONS, *DIFFERENTIALS):
        tensor = np.asarray(getattr(tensors, name))
        assert_close(tensor, np.full_like(tensor, np.asarray(getattr(alone, name)).item()), SERIES)


def test_dependent_inputs_are_a_limit():
    """Without biases three inputs in a plane, one of them a multiple of another, have a singular kernel."""
    net = fw.MLP((30, 20), "elu")
    planar = np.array([[1.0, 0.3], [0.5, 0.15], [-0.4, 1.2]])
    exact = fw.corrections(net, planar)
    lifted = [
        fw.corrections(net, np.sqrt(1.5) * np.concatenate([planar, h * np.eye(3)[:, :1]], axis=1))
        for h in (4e-4, 2e-4)
    ]
    for name in ("V", "H1", "A", "R", "T"):
        far, near = (np.asarray(getattr(tensors, name)) for tensors in lifted)
        assert_close(2 * near - far, getattr(exact, name), LIMIT)


def bent_thrice(net, params, x):
    """I of two equal and two other outputs, as a difference that sees kinks being crossed."""
    rates = net.learning_rates(x.shape[1])
    outputs = lambda i: lambda p: net.apply(p, x)[0, i]
    push = [jax.tree.map(jnp.multiply, rates, jax.grad(outputs(i))(params)) for i in (0, 1)]

    def moved(step):
        return jax.tree.map(lambda p, v: p + step * v, params, push[1])

    def slope(function, along):
        return lambda p: jax.jvp(function, (p,), (along,))[1]

    curvature = slope(slope(outputs(0), push[0]), push[1])
    return (curvature(moved(STEP)) - curvature(moved(-STEP))) / (2 * STEP)


STEP = 0.1


def test_the_delta_function_in_R_is_there_in_real_networks():
    """One hidden layer: E[I] = R / n at any width. Automatic differentiation alone would miss a part."""
    net = fw.MLP((6,), "elu", 0.1, 1.3, 0.3, 0.7, n_out=2)
    x = np.array([[0.8, 0.5]])
    measured = sample_mean(6 * over_networks(net, x, jax.random.key(0), 40_000, bent_thrice))
    R = fw.corrections(net, x).R.item()
    assert abs(measured.value - R) < 4 * measured.sem
    assert measured.sem < 0.05 * abs(R)


def test_what_does_not_exist():
    selu = fw.corrections(network("selu"), X[:1])
    with pytest.raises(
        ValueError, match=r"P does not exist for an activation whose slope jumps.*A and B exist"
    ):
        selu.P  # noqa: B018
    with pytest.raises(ValueError, match="activation 'step' jumps by 1 at zero"):
        fw.corrections(fw.MLP((8,), "step", 0.0, 1.0), X)
    odd = fw.Activation(lambda z: jnp.sign(z) * jnp.log1p(jnp.abs(z)), name="signed log")
    with pytest.raises(ValueError, match="inputs 0 and 1 have parallel preactivations in a deep layer"):
        bent_averages(odd, np.array([[0.6, -0.6], [-0.6, 0.6]]), SERIES, passed_on=True)
