"""This library's side of the comparison of architectures."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from own_kernels import versions
from turns import serve

import finitewidth as fw
from finitewidth._base.compilation import compiled_for_long_vectors

job = {}


def prepare(spec, x):
    """Describe the next job and warm up the back end, but not the job itself."""
    net, inputs = fw.network(spec), jnp.asarray(np.load(x))
    jax.block_until_ready(jnp.sin(inputs))
    job["run"] = lambda: fw.kernels(net, inputs)


def run():
    """Seconds that the job takes, on the clock and of all threads of this process."""
    clock, cpu = time.perf_counter(), time.process_time()
    job["result"] = jax.block_until_ready(job["run"]())
    return {"clock": time.perf_counter() - clock, "cpu": time.process_time() - cpu}


def save(path):
    """Store the result of the last run."""
    np.savez(path, nngp=job["result"].nngp, ntk=job["result"].ntk)


@compiled_for_long_vectors
def _roots(x):
    """Twenty times over, a polynomial of degree 22 and its root."""

    def step(x, _):
        value = jnp.full_like(x, 0.01)
        for _ in range(22):
            value = value * x + 0.01
        return jnp.sqrt(value), None

    return lax.scan(step, x, length=20)[0]


def limit():
    """CPU seconds of one polynomial of degree 22 and one root, per entry of an array in the cache."""
    x = jnp.linspace(0.1, 0.9, 2**16).reshape(256, 256)
    seconds = []
    for _ in range(20):
        start = time.process_time()
        jax.block_until_ready([_roots(x) for _ in range(5)])
        seconds.append(time.process_time() - start)
    return min(seconds[1:]) / (5 * 20 * x.size)


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, versions, limit)})
