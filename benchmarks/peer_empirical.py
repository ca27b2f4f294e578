"""The side of neural-tangents in the comparison of empirical kernels; runs in its own environment."""

import time

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from turns import serve

job = {}


def network(weights, x):
    for w in weights[:-1]:
        x = jax.nn.relu(x @ w * (2 / w.shape[0]) ** 0.5)
    return x @ weights[-1] * (2 / weights[-1].shape[0]) ** 0.5


def prepare(data, implementation):
    """Read the shared data; `implementation` is the name of one of the three."""
    with np.load(data) as stored:
        x, weights = jnp.asarray(stored["x"]), [jnp.asarray(stored[f"w{l}"]) for l in range(len(stored) - 1)]
    chosen = nt.NtkImplementation[implementation]
    kernel = jax.jit(nt.empirical_ntk_fn(network, trace_axes=(), vmap_axes=0, implementation=chosen))
    job["run"] = lambda: kernel(x, None, weights)[..., 0, 0]


def run():
    """Seconds that the job takes."""
    start = time.perf_counter()
    job["result"] = jax.block_until_ready(job["run"]())
    return time.perf_counter() - start


def save(path):
    """Store the result of the last run."""
    np.save(path, np.asarray(job["result"]))


def versions():
    return {"neural-tangents": nt.__version__, "jax": jax.__version__, "numpy": np.__version__}


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, versions)})
