"""This library's side of the comparison of empirical kernels and ensembles."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from turns import serve

import finitewidth as fw
from finitewidth.architecture.dense import Affine

job = {}


def prepare(data):
    """Read the inputs and the unit-variance weights that all contestants share."""
    with np.load(data) as stored:
        x, weights = jnp.asarray(stored["x"]), [stored[f"w{l}"] for l in range(len(stored) - 1)]
    hidden = tuple(w.shape[1] for w in weights[:-1])
    net = fw.MLP(hidden, "relu", C_b=0.0, C_W=2.0, lambda_b=0.0, lambda_W=2.0)
    params = tuple(
        Affine(jnp.asarray(w.T * np.sqrt(2 / len(w)).astype(w.dtype)), jnp.zeros(w.shape[1], w.dtype))
        for w in weights
    )
    job["run"] = lambda: fw.empirical_ntk(net, params, x)[0, 0]


def prepare_ensemble(size, hidden, points, steps):
    """Networks trained at once."""
    net, x, y, eta = _task(hidden, points)
    job["run"] = lambda: (
        fw.train_ensemble(
            net, jax.random.key(0), size, x, y, steps=steps, learning_rate=eta, record_every=steps
        ).outputs
    )


def prepare_loop(size, hidden, points, steps):
    """The same networks one after the other, every step one call of a compiled function."""
    net, x, y, eta = _task(hidden, points)
    rates = net.learning_rates(x.shape[1])

    @jax.jit
    def step(params):
        gradient = jax.grad(lambda p: 0.5 * jnp.sum((net.apply(p, x) - y) ** 2))(params)
        return jax.tree.map(lambda p, rate, g: p - eta * rate * g, params, rates, gradient)

    draw = jax.jit(lambda key: net.init(key, x.shape[1]))

    def loop():
        outputs = []
        for i in range(size):
            key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), i))
            params = draw(key)
            for _ in range(steps):
                params = step(params)
            outputs.append(net.apply(params, x))
        return np.stack(outputs)

    job["run"] = loop


def prepare_separate(size, hidden, points, steps):
    """The same networks one after the other by `fw.train`."""
    net, x, y, eta = _task(hidden, points)

    def loop():
        outputs = []
        for i in range(size):
            key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), i))
            run = fw.train(net, net.init(key, x.shape[1]), x, y, steps=steps, learning_rate=eta)
            outputs.append(net.apply(run.params, x))
        return np.stack(outputs)

    job["run"] = loop


def _task(hidden, points):
    net = fw.MLP(tuple(hidden), "tanh", C_b=0.0, C_W=1.0)
    x = jax.random.normal(jax.random.key(1), (points, 4))
    return net, x, jnp.sin(x[:, :1]), 0.5 / points


def run():
    """Seconds that the job takes."""
    start = time.perf_counter()
    job["result"] = jax.block_until_ready(job["run"]())
    return time.perf_counter() - start


def save(path):
    """Store the result of the last run."""
    np.save(path, np.asarray(job["result"]))


def versions():
    return {"finitewidth": "0.1.0", "jax": jax.__version__, "numpy": np.__version__}


if __name__ == "__main__":
    handlers = (prepare, prepare_ensemble, prepare_loop, prepare_separate, run, save, versions)
    serve({f.__name__: f for f in handlers})
