"""This library's side of the kernel comparison."""

import time
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from turns import serve

import finitewidth as fw
from finitewidth.architecture.dense import Hyperparameters

job = {}


def prepare(activation, depth, C_W, x, **accuracy):
    """Describe the next job and warm up the back end, but not the job itself."""
    net = fw.MLP((512,) * (depth - 1), activation, C_b=0.0, C_W=C_W, lambda_b=0.0, lambda_W=C_W)
    inputs = jnp.asarray(np.load(x))
    jax.block_until_ready(jnp.sin(inputs))
    job["run"] = lambda: fw.kernels(net, inputs, **accuracy)


def run():
    """Seconds that the job takes."""
    start = time.perf_counter()
    job["result"] = jax.block_until_ready(job["run"]())
    return time.perf_counter() - start


def save(path):
    """Store the result of the last run."""
    np.savez(path, nngp=job["result"].nngp, ntk=job["result"].ntk)


def work_per_pair(activation, dtype):
    """Floating-point operations of one hidden layer for one pair of inputs, a root counting as one."""
    law = fw.architecture.as_activation(activation).law()
    n = 64
    features = jax.eval_shape(law.features, jnp.ones(n, dtype))
    layer = Hyperparameters(*(jax.ShapeDtypeStruct((), dtype) for _ in Hyperparameters._fields))
    kernel = jax.ShapeDtypeStruct((n, n), dtype)

    def one_layer(rows, columns, nngp, ntk, layer):
        value, slope = law.pair(rows, columns, nngp)
        return (
            layer.C_b + layer.C_W * value,
            layer.lambda_b + layer.lambda_W * value + layer.C_W * slope * ntk,
        )

    cost = jax.jit(one_layer).lower(features, features, kernel, kernel, layer).cost_analysis()
    return (cost["flops"] + cost.get("transcendentals", 0.0)) / n**2


def versions():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    return {"finitewidth": project["version"], "jax": jax.__version__, "numpy": np.__version__}


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, work_per_pair, versions)})
