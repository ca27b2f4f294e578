"""Cholesky factors: the recursion of finitewidth._base.linalg.cholesky against SciPy and JAX, in turns.

Wall times say how long a user waits, CPU times what the two cores did meanwhile: threads that wait for
each other keep a core busy.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor

import finitewidth  # noqa: F401  (switches 64-bit floats on)
from finitewidth._base.linalg.cholesky import _factorise_in_place

SIZES, TURNS = (1000, 2000, 4000), 7


def recursion(kernel):
    _factorise_in_place(np.array(kernel, order="C"))


def scipy_factor(kernel):
    cho_factor(kernel, lower=True, check_finite=False)


@jax.jit
def jax_factor(kernel):
    return jnp.linalg.cholesky(kernel)


def main():
    contestants = {
        "recursion": recursion,
        "scipy": scipy_factor,
        "jax": lambda kernel: jax_factor(kernel).block_until_ready(),
    }
    print("| N | recursion | scipy | ratio | jax | ratio |\n|---|---|---|---|---|---|")
    for n in SIZES:
        x = np.random.default_rng(0).normal(size=(n, 50))
        kernel = np.exp(-0.01 * ((x[:, None, :1] - x[None, :, :1]) ** 2)[..., 0]) + x @ x.T / 50 + np.eye(n)
        times = {name: [] for name in contestants}
        for _ in range(TURNS + 1):
            for name, factor in contestants.items():
                wall, cpu = time.perf_counter(), time.process_time()
                factor(kernel)
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
        # The first turn compiles.
        for kind, column in (("wall", 0), ("CPU", 1)):
            own, *others = (statistics.median(t[column] for t in ts[1:]) for ts in times.values())
            cells = " | ".join(f"{1e3 * other:.0f} ms | {other / own:.2f}" for other in others)
            print(f"| {n:,}, {kind} | {1e3 * own:.0f} ms | {cells} |")


if __name__ == "__main__":
    main()
