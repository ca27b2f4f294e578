"""Training in preactivations is the training of the network."""

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.lab import shallow_networks as shallow
from tolerances import ROUNDING, assert_close


def test_one_draw_trains_like_a_network():
    rng = np.random.default_rng(0)
    x, y, x_test = rng.normal(size=(3, 5)), rng.normal(size=(3, 2)), rng.normal(size=(2, 5))
    net = fw.MLP((7,), "tanh", 0.2, 1.3, [0.3, 0.1], [0.8, 1.2], n_out=2)
    params = net.init(jax.random.key(1), 5)
    end = fw.train(net, params, x, y, steps=6, learning_rate=0.2).params
    every = np.concatenate([x, x_test])
    single = lambda a: jnp.asarray(a, jnp.float32)
    points = shallow.Points(single(np.eye(5)), single(0.3 + 0.8 * every @ every.T / 5), single(y))
    start = shallow.Start(
        single(net.preactivations(params, jnp.asarray(every))[0])[None],
        single(params[1].weight)[None],
        single(params[1].bias)[None],
    )
    trained = shallow._outputs(net, shallow._trained(net, points, start, 0.2, 6))[0]
    assert_close(trained, np.asarray(net.apply(end, jnp.asarray(every))), ROUNDING["float32"])
    kernel = shallow._tangent_kernel(net, points, start)[0]
    empirical = fw.empirical_ntk(net, params, jnp.asarray(every), jnp.asarray(x))
    assert_close(kernel, np.asarray(empirical).transpose(2, 0, 3, 1), ROUNDING["float32"])


def test_the_mean_is_that_of_trained_networks():
    rng = np.random.default_rng(1)
    x, y, x_test = rng.normal(size=(2, 3)), rng.normal(size=(2, 1)), rng.normal(size=(1, 3))
    net = fw.MLP((12,), "tanh", 0.2, 1.3)
    fast = shallow.trained_mean(
        net, x, y, x_test, jax.random.key(0), eta=0.1, steps=12, pairs=1500, linear=6000
    )
    slow = fw.train_ensemble(net, jax.random.key(1), 1500, x, y, x_test, steps=12, learning_rate=0.1)
    outputs = np.asarray(slow.outputs)[:, :, 0]
    error = np.hypot(fast.sem[:, 0], outputs.std(axis=0, ddof=1) / np.sqrt(len(outputs)))
    assert (np.abs(fast.value[:, 0] - outputs.mean(axis=0)) < 4 * error).all()
