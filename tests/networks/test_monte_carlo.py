import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.networks.tangent.monte_carlo import _pooled
from tolerances import assert_close


def test_a_linear_layer_has_its_kernels_exactly_in_the_mean(key, inputs):
    """One layer has no corrections in 1/width: its NTK is not random, its NNGP kernel averages to its own."""
    net = fw.MLP((), "linear", C_b=0.5, C_W=2.0, lambda_b=0.4, lambda_W=1.5, n_out=3)
    x1, x2 = inputs[2], inputs[1]
    found = fw.monte_carlo_kernels(net, x1, x2, key=key, draws=500, at_once=100)
    assert_close(found.ntk.value, 0.4 + 1.5 * x1 @ x2.T / 3)
    assert_close(found.ntk.sem, np.zeros((4, 3)), scale=1.0)
    z = (found.nngp.value - (0.5 + 2.0 * x1 @ x2.T / 3)) / found.nngp.sem
    assert np.abs(z).max() < 4
    assert found.nngp.dof == 499


def test_means_and_errors_are_those_of_the_networks(net, key, inputs):
    """Drawn one by one by hand; the last group of networks is not full."""
    x = inputs[2]
    found = fw.monte_carlo_kernels(net, x, key=key, draws=7, at_once=3)
    each = [net.init(jax.random.fold_in(key, i), 3) for i in range(7)]
    ntk = np.stack([np.einsum("aaij->ij", fw.empirical_ntk(net, p, x)) / 2 for p in each])
    nngp = np.stack([net.apply(p, x) @ net.apply(p, x).T / 2 for p in each])
    for estimate, samples in ((found.nngp, nngp), (found.ntk, ntk)):
        assert_close(estimate.value, samples.mean(axis=0))
        assert_close(estimate.sem, samples.std(axis=0, ddof=1) / np.sqrt(7))


def test_any_function_with_its_own_draws(net, key, inputs):
    by_layers = fw.monte_carlo_kernels(net, inputs[2], key=key, draws=5)
    by_function = fw.monte_carlo_kernels(
        net.apply, inputs[2], key=key, draws=5, init=lambda key: net.init(key, 3), rates=net.learning_rates(3)
    )
    assert_close(by_function.ntk.value, by_layers.ntk.value)
    assert_close(by_function.nngp.sem, by_layers.nngp.sem)


def test_devices_pool_to_the_whole(rng):
    samples = rng.normal(size=(9, 2, 2))
    parts = [samples[:2], samples[2:6], samples[6:]]
    count = np.array([len(part) for part in parts])
    means = np.stack([part.mean(axis=0) for part in parts])
    squares = np.stack([((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in parts])
    pooled = _pooled(count, means, squares)
    assert_close(pooled.value, samples.mean(axis=0))
    assert_close(pooled.sem, samples.std(axis=0, ddof=1) / 3)


def test_two_devices_draw_the_same_networks():
    """In a process of its own: the number of devices is fixed when JAX starts."""
    code = (
        "import jax, jax.numpy as jnp, numpy as np, finitewidth as fw; devices = jax.devices(); "
        "assert len(devices) == 2; net = fw.MLP((4,), 'tanh', n_out=2); "
        "key = jax.random.key(1); "
        "draw = lambda d: fw.monte_carlo_kernels(net, jnp.eye(3), key=key, draws=7, devices=d); "
        "one, two = draw(devices[:1]), draw(None); "
        "assert all(np.allclose(a, b, rtol=1e-12) for k in (0, 1) for a, b in zip(one[k], two[k]))"
    )
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"XLA_FLAGS": flags})


def test_wrong_arguments_get_a_sentence(net, key, inputs):
    with pytest.raises(ValueError, match="draws must be a whole number of at least 2, got 1"):
        fw.monte_carlo_kernels(net, inputs[0], key=key, draws=1)
    with pytest.raises(ValueError, match="leave init out"):
        fw.monte_carlo_kernels(net, inputs[0], key=key, draws=2, init=lambda key: key)
    with pytest.raises(ValueError, match="init is missing"):
        fw.monte_carlo_kernels(lambda p, x: x @ p, jnp.ones((2, 2)), key=key, draws=2)
