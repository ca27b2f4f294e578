"""This library's side of the prediction comparison."""

import resource
import time

import jax
import numpy as np
from own_kernels import versions
from turns import serve

import finitewidth as fw
from finitewidth._base.linalg.cholesky import factorise, symmetric_product

job = {}


def prepare(depth, data):
    """Describe the next job."""
    with np.load(data) as arrays:
        job["data"] = tuple(arrays[name] for name in ("x", "y", "x_test"))
    job["net"] = fw.MLP((512,) * (depth - 1), "relu", C_b=0.1, C_W=2.0, lambda_b=0.1, lambda_W=2.0)


def run():
    """Seconds of one whole prediction, kernels included."""
    start = time.perf_counter()
    job["law"] = jax.block_until_ready(fw.predict(job["net"], *job["data"]))
    return time.perf_counter() - start


def stages():
    """Seconds of each stage of one prediction."""
    x, y, x_test = job["data"]
    seconds = {}

    def timed(name, call):
        start = time.perf_counter()
        result = jax.block_until_ready(call())
        seconds[name] = time.perf_counter() - start
        return result

    problem = timed("kernels", lambda: fw.TrainingProblem.of(job["net"], x, y, x_test))
    factor = timed("factorisation", lambda: factorise(problem.train.ntk))
    solved = timed("solve", lambda: factor.solve(problem.test_train.ntk.T))
    timed("covariance", lambda: symmetric_product(solved.T, problem.train.nngp, problem.test_train.nngp))
    return seconds


def save(path):
    """Store the last prediction."""
    np.savez(path, mean=job["law"].mean, covariance=job["law"].covariance)


def memory():
    """Largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, stages, save, memory, versions)})
