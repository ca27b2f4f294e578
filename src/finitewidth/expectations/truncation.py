"""How many Hermite terms an accuracy takes."""

import warnings

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.kinked.kinks import Shape, evaluate, ramp_tails_at_one
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector

_LADDER = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_SEARCH_SIZES = (256, 1024, 4096)


def terms_needed(function: Elementwise, shape: Shape, q: Float[np.ndarray, " n"], tolerance: float) -> int:
    """The smallest number of terms that leaves out less than `tolerance` of <sigma^2> and <sigma'^2>.

    By Parseval's identity the squared coefficients add up to those two averages, which quadrature
    gives directly; for two different inputs the error is at most the geometric mean of theirs.
    Warns with the error reached when the longest series is not enough.
    """
    missing = {}
    for size in _SEARCH_SIZES:
        missing = _missing_share(function, shape, q, size)
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


def terms_within(
    function: Elementwise, shape: Shape, q: Float[np.ndarray, " n"], tolerance: float, most: int
) -> tuple[int, float]:
    """At most `most` terms, as few as leave out less than `tolerance`, and the share that they leave out.

    Where none does, the largest. Twice as many nodes as terms, at least 1024, say what is left out.
    """
    missing = _missing_share(function, shape, q, max(1024, 2 * most))
    allowed = {terms: share for terms, share in missing.items() if terms <= most}
    enough = [terms for terms, share in allowed.items() if share <= tolerance]
    terms = enough[0] if enough else max(allowed)
    return terms, allowed[terms]


def _missing_share(
    function: Elementwise, shape: Shape, q: Float[np.ndarray, " n"], size: int
) -> dict[int, float]:
    """For every rung of the ladder up to `size`: the relative error, worst over q.

    Even and odd orders are told apart by looking at rho = 1 and at rho = -1, where their errors add
    up with equal and with opposite signs.
    """
    rule, k = gaussian_rule(size), np.arange(size)
    with outside_tracing():
        value, slope = map(np.asarray, evaluate(function, np.sqrt(q)[:, None] * rule.nodes))
    squares = (value @ hermite_projector(size)) ** 2
    scale = np.stack([value**2 @ rule.weights, slope**2 @ rule.weights])
    # A constant has no slope, and nothing of it is left out.
    scale = np.where(scale > 0, scale, 1.0)
    jumps = shape.jump_sizes(np.sqrt(q))
    order = np.arange(1, len(shape.jumps) + 1)
    rungs = [t for t in _LADDER if t <= size]
    worst = np.zeros(len(rungs))
    for rho in (1.0, -1.0):
        # At rho = -1 the second input is the mirror image of the first, and so are the nodes.
        mirrored = slice(None) if rho > 0 else slice(None, None, -1)
        full = np.stack([(f * f[:, mirrored]) @ rule.weights for f in (value, slope)])
        partial_value = np.cumsum(squares * rho**k, axis=1)
        partial_slope = np.cumsum(squares * k * rho ** (k + 1), axis=1) / q[:, None]
        last = np.array(rungs) - 1
        error = full[..., None] - np.stack([partial_value[:, last], partial_slope[:, last]])
        if shape.jumps:
            # A ramp of order m has the orders k of its own parity only, k - m odd.
            sides = jumps * rho ** (order + 1), jumps * rho**order / q[:, None]
            for rung, terms in enumerate(rungs):
                tails = (tail[: len(order), : len(order)] for tail in ramp_tails_at_one(terms))
                for i, (tail, side) in enumerate(zip(tails, sides, strict=True)):
                    error[i, :, rung] -= np.einsum("am,mn,an->a", side, tail, jumps)
        worst = np.maximum(worst, np.abs(error / scale[..., None]).max(axis=(0, 1)))
    return dict(zip(rungs, worst.tolist(), strict=True))
