r"""Steepest descent under a norm: the step that a gradient and a norm belong to.

$$d=\arg\min_d\;\langle g,d\rangle+\frac1{2a}|d|^2=-a\,|g|_*\,s,\qquad\text{value }-\frac a2|g|_*^2,$$

where $|g|_*=\langle g,s\rangle$ is the dual norm and s the point of the unit ball that reaches it. The norm
l2 gives gradient descent, l-infinity the sign of the gradient, the spectral norm its polar factor, l1 one
coordinate at a time. Sign descent and Muon leave out the factor $|g|_*$.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive, check_whole
from finitewidth._base.linalg.dual_norms import dual_pair
from finitewidth._base.linalg.polar import CUBIC, MUON_QUINTIC

ACROSS = ("sum", "max")


class SteepestStep(NamedTuple):
    """The step of steepest descent, and what the linear model with its penalty gains by it."""

    step: PyTree
    """d, in the shape of the gradient."""
    dual_norm: Float[Array, ""]
    """|g|_*."""
    value: Float[Array, ""]
    """<g, d> + |d|^2 / (2a) = -a |g|_*^2 / 2."""


def steepest_step(
    gradient: PyTree, norm: str | PyTree, a: float | int = 1.0, *, across: str = "sum"
) -> SteepestStep:
    r"""The step of steepest descent under a norm, or under one norm per layer.

    Parameters
    ----------
    gradient
        An array, or a tree of them with one per layer.
    norm
        "l2", "linf", "l1" or "spectral", or a tree of these names with one per leaf of the gradient.
    a
        The step size.
    across
        How the norms of several layers make one: "sum", $|d|^2=\sum_l|d_l|^2$, gives every layer its own
        dual norm as a factor; "max", $|d|=\max_l|d_l|$, gives all layers the sum of their dual norms.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from finitewidth.course.optimiser_geometry.theory import steepest_step
    >>> found = steepest_step(jnp.array([3.0, -1.0]), "linf", a=0.5)
    >>> found.step, float(found.value)
    (Array([-2.,  2.], dtype=float64), -4.0)
    """
    check_positive("a", a)
    if across not in ACROSS:
        raise ValueError(f"across must be one of {', '.join(map(repr, ACROSS))}, got {across!r}.")
    leaves, structure = jax.tree.flatten(gradient)
    pairs = [dual_pair(leaf, name) for leaf, name in zip(leaves, _names(norm, structure), strict=True)]
    duals = jnp.stack([pair.dual_norm for pair in pairs])
    total = duals.sum() if across == "max" else jnp.sqrt(jnp.sum(duals**2))
    factors = jnp.broadcast_to(total, duals.shape) if across == "max" else duals
    steps = [-a * factor * pair.direction for factor, pair in zip(factors, pairs, strict=True)]
    return SteepestStep(jax.tree.unflatten(structure, steps), total, -a / 2 * total**2)


def _names(norm: str | PyTree, structure: Any) -> list[str]:
    names, given = jax.tree.flatten(norm)
    if isinstance(norm, str):
        return names * structure.num_leaves
    if given != structure:
        raise ValueError(
            f"norm is a tree {given}; the gradient is {structure}: give one name, or one per leaf."
        )
    return names


def newton_schulz_values(
    values: Float[AnyArray, " k"],
    steps: int,
    coefficients: tuple[float, float, float] = MUON_QUINTIC,
) -> Float[np.ndarray, " k"]:
    """Singular values after Newton-Schulz steps, from those before divided by the Frobenius norm.

    Parameters
    ----------
    values
        Singular values, at most 1.
    steps
        Iterations of the polynomial.
    coefficients
        Of s, s^3 and s^5: `MUON_QUINTIC` or `CUBIC`.
    """
    check_whole("steps", steps, 0)
    s = np.asarray(values, float)
    a, b, c = coefficients
    for _ in range(steps):
        s = s * (a + s**2 * (b + c * s**2))
    return s


def newton_schulz_steps(smallest: float) -> int:
    r"""Steps of the cubic after which singular values from `smallest` to 1 are 1 up to rounding.

    While s is small a step multiplies it by 3/2, and then the distance from 1 is squared at every step:
    $\log(1/s)/\log(3/2)$ steps, and eight more.
    """
    if not 0 < smallest <= 1:
        raise ValueError(
            f"smallest must lie between 0 and 1: a singular value over the Frobenius norm, got {smallest!r}."
        )
    return math.ceil(math.log(1 / smallest) / math.log(CUBIC[0]) + 8)
