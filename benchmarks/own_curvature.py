"""The side of this library in the comparison of curvature, with a network of JAX or of PyTorch."""

import functools
import resource
import time
from importlib import metadata

import jax
import numpy as np
from turns import serve

import finitewidth
from finitewidth import measure

job = {}


def apply(params, x):
    for weight, bias in params[:-1]:
        x = jax.nn.relu(x @ weight.T + bias)
    weight, bias = params[-1]
    return x @ weight.T + bias


def prepare(data, library):
    """Read the shared data; `library` is jax or torch."""
    with np.load(data) as stored:
        x, y = stored["x"], stored["y"]
        params = [(stored[f"w{l}"], stored[f"b{l}"]) for l in range(3)]
    if library == "jax":
        job["specimen"] = measure.specimen(apply, x, y, params=params)
    else:
        import torch
        from peer_curvature import network

        torch.set_num_threads(1)
        job["specimen"] = measure.specimen(network(params), x, y)


def hessian():
    """A new specimen, so that its linearisation is paid for; programs stay compiled."""
    return measure.hessian(job["specimen"].at(job["specimen"].weights))


def timed(run):
    start = time.process_time(), time.perf_counter()
    result = run()
    return {"cpu": time.process_time() - start[0], "wall": time.perf_counter() - start[1]}, result


def product(kind, repeats):
    """Seconds of one product, after a first one."""
    s = job["specimen"]
    operator = {"hessian": measure.hessian, "gauss-newton": measure.gauss_newton}[kind](s)
    v = np.random.default_rng(0).normal(size=operator.shape[0]).astype(np.float32)
    operator @ v
    times, _ = timed(lambda: [operator @ v for _ in range(repeats)])
    return {name: seconds / repeats for name, seconds in times.items()}


def products_alone(repeats):
    """CPU seconds of the products of matrices in H v and of nothing else, each a program of its own.

    A layer of b units on a inputs takes, at N points, x dW^T and dd^T x, and above the first layer also
    dx W^T, d dW, dd W and d^T dx: N a b multiplications each.
    """
    points, widths = 2000, (784, 784, 480, 10)
    rng, total = np.random.default_rng(0), 0.0
    forms = {"nk,mk->nm": ("na", "ba"), "nk,km->nm": ("nb", "ba"), "kn,km->nm": ("nb", "na")}
    for layer in range(3):
        sizes = {"n": points, "a": widths[layer], "b": widths[layer + 1]}
        for form, (one, other) in forms.items():
            times = (0 if form == "nk,km->nm" else 1) if layer == 0 else 2
            parts = [
                jax.device_put(rng.normal(size=[sizes[axis] for axis in axes]).astype(np.float32))
                for axes in (one, other)
            ]
            if times:
                total += times * _seconds(jax.jit(functools.partial(jax.numpy.einsum, form)), parts, repeats)
    return total


def _seconds(run, parts, repeats):
    run(*parts).block_until_ready()
    spent, _ = timed(lambda: [run(*parts).block_until_ready() for _ in range(repeats)])
    return spent["cpu"] / repeats


def top(count, tolerance):
    """Largest eigenpairs, with the worst residual relative to its eigenvalue, checked by one more product."""
    operator = hessian()
    times, found = timed(lambda: measure.eigenpairs(operator, count, tolerance=tolerance))
    job["vectors"] = found
    left = [
        np.linalg.norm(operator @ v - value * v)
        for value, v in zip(found.values, found.vectors.T, strict=True)
    ]
    worst = float(np.max(np.array(left) / np.abs(found.values)))
    return {**times, "products": found.products, "residual": worst, "values": found.values.tolist()}


def trace(probes, outliers, seed):
    """The trace and its standard error."""
    operator = hessian()
    times, found = timed(
        lambda: measure.trace(operator, key=jax.random.key(seed), probes=probes, outliers=outliers)
    )
    return {**times, "products": operator.products, "value": float(found.value), "error": float(found.sem)}


def density(probes, steps, outliers):
    """The density and its error: how far chance moves an eigenvalue on average."""
    operator = hessian()
    times, found = timed(
        lambda: measure.spectral_density(
            operator, key=jax.random.key(1), probes=probes, steps=steps, outliers=outliers
        )
    )
    return {**times, "products": found.products, "error": found.wasserstein_error}


def memory():
    """The most that the process has used so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def versions():
    return {"finitewidth": finitewidth.__version__, "jax": metadata.version("jax"), "numpy": np.__version__}


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, product, products_alone, top, trace, density, memory, versions)})
