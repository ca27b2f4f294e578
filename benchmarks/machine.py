"""What this machine is and the speeds that a plain vectorised loop reaches on it."""

import os
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

_ELEMENTS = 250_000  # fits the cache, like a tile of the kernel
_CHAIN = 64
_STREAM = 1 << 26


def description():
    """Processor, cores and memory in one line."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GB, Linux {platform.release()}"


def _lines(path):
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def flops_per_second(dtype):
    """Multiply-adds in registers: two interleaved polynomials of degree 64 on an array in cache."""

    @jax.jit
    def chain(x):
        first, second = x, x
        for _ in range(_CHAIN):
            first, second = first * x + 0.5, second * x - 0.5
        return first + second

    x = jnp.linspace(-0.5, 0.5, _ELEMENTS, dtype=dtype).reshape(500, -1)
    return 4 * _CHAIN * _ELEMENTS / _fastest(lambda: jax.block_until_ready(chain(x)))


def bytes_per_second():
    """Reading one array larger than the cache and writing another."""
    source = jnp.zeros(_STREAM // 4, jnp.float32)
    target = np.empty(_STREAM // 4, np.float32)
    return 2 * _STREAM / _fastest(lambda: np.copyto(target, source))


def _fastest(run, repeats=30):
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
