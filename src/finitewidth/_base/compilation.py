"""Programs compiled for the longest vectors of the processor.

XLA keeps to 256 bits by default. Kernels are long loops over polynomials and roots, which 512 bits make up to
1.7 times faster where the processor has them; elsewhere the setting changes nothing.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx

from finitewidth._base.either import traced

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Equinox passes them on to `jax.jit`, though its types do not say so.
_OPTIONS: dict[str, Any] = {"compiler_options": {"xla_cpu_prefer_vector_width": 512}}


def compiled_for_long_vectors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`equinox.filter_jit` with long vectors; inside another transformation the outer program decides."""
    alone, inside = eqx.filter_jit(function, **_OPTIONS), eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return (inside if traced(args, kwargs) else alone)(*args, **kwargs)

    return call
