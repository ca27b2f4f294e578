"""The side of neural-tangents in the prediction comparison; runs in its own environment."""

import resource
import time

import jax
import neural_tangents
import numpy as np
from neural_tangents import stax
from peer_kernels import versions
from turns import serve

job = {}


def prepare(depth, data, compiled):
    """Describe the next job; the kernel function as its documentation passes it on, or compiled first."""
    with np.load(data) as arrays:
        job["data"] = tuple(arrays[name] for name in ("x", "y", "x_test"))
    jax.config.update("jax_enable_x64", job["data"][0].dtype == np.float64)
    dense = stax.Dense(512, W_std=2.0**0.5, b_std=0.1**0.5)
    kernel = stax.serial(*[dense, stax.Relu()] * (depth - 1), dense)[2]
    job["kernel"] = jax.jit(kernel, static_argnames="get") if compiled else kernel


def run():
    """Seconds of one whole prediction, kernels included."""
    x, y, x_test = job["data"]
    start = time.perf_counter()
    predict = neural_tangents.predict.gradient_descent_mse_ensemble(job["kernel"], x, y, diag_reg=0.0)
    job["law"] = jax.block_until_ready(predict(x_test=x_test, get="ntk", compute_cov=True))
    return time.perf_counter() - start


def save(path):
    """Store the last prediction."""
    np.savez(path, mean=job["law"].mean, covariance=job["law"].covariance)


def memory():
    """Largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, memory, versions)})
