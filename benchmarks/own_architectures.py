"""This library's side of the comparison of architectures."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from own_kernels import versions
from turns import serve

import finitewidth as fw

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


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, versions)})
