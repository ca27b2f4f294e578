"""Learning rates across widths: every entry is a run of `train`; known optima give back their exponent."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from finitewidth import MLP
from finitewidth.networks.training.learning_rates import (
    LearningRateTransfer,
    OwnNetwork,
    learning_rate_transfer,
)
from finitewidth.networks.training.training import train

X = jax.random.normal(jax.random.key(0), (12, 3))
Y = jnp.sin(X[:, :1])
RATES = 2.0 ** np.arange(-7, -3)
KEY, WIDTHS = jax.random.key(3), (4, 8)
HOW = {"steps": 6, "batch_size": 4}


def standard(width):
    return MLP((width,), "tanh", parametrisation="standard")


@pytest.fixture(scope="module")
def found():
    return learning_rate_transfer(standard, WIDTHS, KEY, 2, X, Y, RATES, optimizer="sgd", **HOW)


def test_every_loss_is_that_of_a_run(found):
    assert found.losses.shape == (2, 2, 4)
    net, rate = standard(8), RATES[2]
    draw, batches = jax.random.split(jax.random.fold_in(jax.random.fold_in(KEY, 8), 1))
    run = train(net, net.init(draw, 3), X, Y, learning_rate=float(rate), key=batches, **HOW)
    outputs = np.asarray(net.apply(run.params, X))
    np.testing.assert_allclose(found.losses[1, 1, 2], 0.5 * np.mean((outputs - Y) ** 2), rtol=1e-10)


def test_a_network_of_one_s_own_trains_alike(found):
    def build(width):
        net = standard(width)
        return OwnNetwork(lambda key: net.init(key, 3), net.apply, optax.sgd)

    own = learning_rate_transfer(build, WIDTHS, KEY, 2, X, Y, RATES, **HOW)
    np.testing.assert_allclose(own.losses, found.losses, rtol=1e-10)


def test_divergence_counts_as_zero_outputs():
    wild = learning_rate_transfer(standard, WIDTHS, KEY, 2, X, Y, [0.01, 1e3, 1e8], optimizer="sgd", steps=20)
    np.testing.assert_allclose(wild.losses[..., 1:], 0.5 * np.mean(np.asarray(Y) ** 2), rtol=1e-10)


def test_parabolas_give_back_their_exponent_and_its_error():
    widths, rates = (16, 64, 256), 2.0 ** np.arange(-12, 1)
    shifts = np.array([-0.3, 0.1, 0.4, -0.2])
    best = -4 - 0.8 * np.log2([1, 4, 16])[None] + shifts[:, None]
    losses = 2.0 ** (0.2 * (np.log2(rates) - best[:, :, None]) ** 2 - 3)
    law = LearningRateTransfer(widths, rates, losses)
    np.testing.assert_allclose(law.exponent.value, -0.8, rtol=1e-10)
    np.testing.assert_allclose(law.exponent.sem, 0, atol=1e-10)
    np.testing.assert_allclose(np.log2(law.best.value), best.mean(axis=0), rtol=1e-10)
    # All networks of one width share a shift: by hand the standard error of the mean shift in log2.
    sem = shifts.std(ddof=1) / 2
    np.testing.assert_allclose(law.best.sem, law.best.value * np.log(2) * sem, rtol=0.02)
    assert law.on_the_edge == ()
    assert LearningRateTransfer(widths, rates[5:], losses[..., 5:]).on_the_edge == (256,)


def asked(build=standard, widths=WIDTHS, size=2, rates=RATES):
    return lambda: learning_rate_transfer(build, widths, KEY, size, X, Y, rates, steps=2)


WRONG = {
    "widths": (asked(widths=(8, 4)), "two rising whole"),
    "one network": (asked(size=1), "size must be"),
    "two rates": (asked(rates=RATES[:2]), "at least 3"),
    "spacing": (asked(rates=[0.1, 0.2, 0.3]), "equally spaced in logarithms"),
    "no network": (asked(build=lambda width: width), "must return a network or an OwnNetwork"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_get_one_sentence(name):
    call, sentence = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
