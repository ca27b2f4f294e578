"""The largest eigenvalue of the NTK on data, which limits the step of gradient descent."""

from jaxtyping import Array, Float

from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth.architecture.layer import Layer
from finitewidth.statistics.wide.kernels import kernels

_LARGEST_SPECTRUM = 4000


def largest_ntk_eigenvalue(net: Layer, x: Float[Array, "n ..."]) -> float:
    """Largest NTK eigenvalue on x; beyond 4,000 points estimated from an evenly spaced subset."""
    n = len(x)
    subset = x if n <= _LARGEST_SPECTRUM else x[:: -(-n // _LARGEST_SPECTRUM)]
    return largest_eigenvalue(kernels(net, subset, tolerance=1e-6).ntk) * n / len(subset)
