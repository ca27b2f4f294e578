"""How many Hermite terms an accuracy takes."""

import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.expectations.kinks import HIGHEST_JUMP, ramp_tails_at_one, shape_at_zero, value_and_slope
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector

_LADDER = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_SEARCH_SIZES = (256, 1024, 4096)


def terms_needed(function: Callable[[Array], Array], q: Float[np.ndarray, " n"], tolerance: float) -> int:
    """The smallest number of terms that leaves out less than `tolerance` of <sigma^2> and <sigma'^2>.

    By Parseval's identity the squared coefficients add up to those two averages, which quadrature
    gives directly; for two different inputs the error is at most the geometric mean of theirs.
    Warns with the error reached when the longest series is not enough.
    """
    missing = {}
    for size in _SEARCH_SIZES:
        missing = _missing_share(function, q, size)
        enough = [t for t in missing if missing[t] <= tolerance]
        if enough:
            return enough[0]
    longest = _SEARCH_SIZES[-1]
    warnings.warn(
        f"preactivation variances reach {q.max():.3g}, where {longest} Hermite terms leave out "
        f"{missing[longest]:.1e} of <sigma'^2> for parallel inputs (asked for: {tolerance:.1e}); "
        "standardise the inputs or lower C_b and C_W; a kink away from zero also slows the series down.",
        stacklevel=2,
    )
    return longest


def _missing_share(
    function: Callable[[Array], Array], q: Float[np.ndarray, " n"], size: int
) -> dict[int, float]:
    """For every rung of the ladder up to `size`: the relative error at rho = 1, worst over q."""
    rule, shape = gaussian_rule(size), shape_at_zero(function)
    with jax.ensure_compile_time_eval():
        value, slope = map(np.asarray, value_and_slope(function, jnp.sqrt(q)[:, None] * rule.nodes))
    squares = (value @ hermite_projector(size)) ** 2
    partial_value = np.cumsum(squares, axis=1)
    partial_slope = np.cumsum(squares * np.arange(size), axis=1) / q[:, None]
    full_value, full_slope = value**2 @ rule.weights, slope**2 @ rule.weights
    missing = {}
    for terms in (t for t in _LADDER if t <= size):
        in_value = full_value - partial_value[:, terms - 1]
        in_slope = full_slope - partial_slope[:, terms - 1]
        if shape.jumps:
            powers = np.sqrt(q)[:, None] ** np.arange(1, HIGHEST_JUMP + 1) * np.array(shape.jumps)
            tail_value, tail_slope = ramp_tails_at_one(terms)
            in_value = in_value - np.einsum("am,mn,an->a", powers, tail_value, powers)
            in_slope = in_slope - np.einsum("am,mn,an->a", powers, tail_slope, powers) / q
        missing[terms] = float(max(np.abs(in_value / full_value).max(), np.abs(in_slope / full_slope).max()))
    return missing
