r"""Rescaled weights: which learning rates keep the path of the function, and what gradient flow conserves.

Let the function of a network not change when every parameter is multiplied by a number,
$f(S\theta)=f(\theta)$ with a diagonal S > 0. For ReLU that is s for the weights into a neuron and 1/s for
those out of it. Gradients become $S^{-1}g$. So steps proportional to the gradient keep the path,
$\theta'=S\theta$ at all times, when the rates are multiplied by $S^2$, and steps whose size does not depend
on the gradient's when they are multiplied by S.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth.architecture.parametrisation import GEOMETRIES

# By how many powers of S the rates of each geometry change.
POWERS = {"gradient": 2, "entrywise": 1, "spectral": 1}


def equivariant_rates(factors: PyTree, geometry: str = "gradient") -> PyTree:
    """What learning rates must be multiplied by, so that a rescaled network trains as the same function.

    Parameters
    ----------
    factors
        What the parameters were multiplied by: a tree of positive numbers or arrays.
    geometry
        Of the optimiser's steps: "gradient" (gradient descent, with momentum or without), "entrywise" (sign
        descent, Adam with epsilon 0) or "spectral" (Muon; one factor per matrix).

    Examples
    --------
    >>> from finitewidth.course.optimiser_geometry.theory import equivariant_rates
    >>> equivariant_rates({"in": 5.0, "out": 0.2}, "gradient")
    {'in': 25.0, 'out': 0.04000000000000001}
    >>> equivariant_rates({"in": 5.0, "out": 0.2}, "entrywise")
    {'in': 5.0, 'out': 0.2}
    """
    if geometry not in POWERS:
        raise ValueError(f"unknown geometry {geometry!r}. Known: {', '.join(GEOMETRIES)}.")
    return jax.tree.map(lambda factor: factor ** POWERS[geometry], factors)


def balance_change(
    gradient_in: Float[AnyArray, "neurons into"], gradient_out: Float[AnyArray, "neurons out"], eta: float
) -> Float[Array, " neurons"]:
    r"""How a step of gradient descent changes $|w_j|^2-|v_j|^2$ of every ReLU neuron, exactly.

    The weights $w_j$ into a neuron (and its bias) and $v_j$ out of it satisfy $w_j\cdot g^{in}_j=v_j\cdot
    g^{out}_j$, because the function does not change under $(sw_j,v_j/s)$. The terms of first order cancel:

    $$\Delta\left(|w_j|^2-|v_j|^2\right)=\eta^2\left(|g^{in}_j|^2-|g^{out}_j|^2\right).$$

    Gradient flow conserves the balance; descent for a time T changes it by order $\eta T$ times squared
    gradients.
    """
    return eta**2 * (jnp.sum(jnp.square(gradient_in), axis=1) - jnp.sum(jnp.square(gradient_out), axis=1))
