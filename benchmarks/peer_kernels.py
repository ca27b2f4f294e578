"""The side of neural-tangents in the kernel comparison; runs in its own environment."""

import time

import jax
import jax.numpy as jnp
import neural_tangents
import numpy as np
from neural_tangents import stax
from turns import serve

job = {}


def prepare(activation, depth, C_W, x, degree=None):
    """Describe the next job and warm up the back end, but not the job itself."""
    inputs = np.load(x)
    jax.config.update("jax_enable_x64", inputs.dtype == np.float64)
    inputs = jnp.asarray(inputs)
    dense = stax.Dense(512, W_std=C_W**0.5, b_std=None)
    if degree is None:
        nonlinearity = {"relu": stax.Relu}[activation]()
    else:
        nonlinearity = stax.ElementwiseNumerical({"tanh": jnp.tanh}[activation], deg=degree)
    layers = [dense, nonlinearity] * (depth - 1) + [dense]
    kernel = stax.serial(*layers)[2]
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    jax.block_until_ready(jnp.sin(inputs))
    job["run"] = lambda: compiled(inputs)


def run():
    """Seconds that the job takes."""
    start = time.perf_counter()
    job["result"] = jax.block_until_ready(job["run"]())
    return time.perf_counter() - start


def save(path):
    """Store the result of the last run."""
    np.savez(path, nngp=job["result"].nngp, ntk=job["result"].ntk)


def versions():
    return {
        "neural-tangents": neural_tangents.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, versions)})
