r"""The drift of stochastic gradient descent along a valley, to where its walls are flat.

Across a valley the weights fluctuate with a covariance $\Sigma$. The mean gradient is then
$\nabla L+\frac12\nabla\mathrm{tr}(H\Sigma)$ with $\Sigma$ held fixed, and its second part pulls along the
floor, where the first one vanishes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive
from finitewidth.course.stochastic_gradients.theory.steady_state import (
    as_symmetric,
    refuse_unstable,
    steady_covariance,
)

Numbers = AnyArray | float | int

_MOST_PARAMETERS = 2000


def valley_variance(curvature: Numbers, alpha: Numbers, eta: Numbers) -> np.ndarray:
    r"""Variance across a valley when the noise of gradients is $\alpha$ times the curvature.

    $$\langle t^2\rangle=\frac{\alpha\eta}{2-\eta h}$$

    for the loss $ht^2/2$ and gradient noise of variance $\alpha h$: to leading order the same for all walls.

    Parameters
    ----------
    curvature
        h, the eigenvalue of the Hessian; a wall $\lambda t^2$ has $h=2\lambda$.
    alpha
        Noise over curvature.
    eta
        The step, below 2/h.
    """
    h, eta = np.asarray(curvature, float), np.asarray(eta, float)
    if np.any(h <= 0):
        raise ValueError(f"curvature must be positive, got {h.min():.4g}.")
    worst = np.argmax(eta * h)
    refuse_unstable(*(float(np.broadcast_to(a, (eta * h).shape).ravel()[worst]) for a in (eta, 2 / h)))
    return np.asarray(alpha * eta / (2 - eta * h))


def valley_drift(
    curvatures: Float[AnyArray, " walls"],
    slopes: Float[AnyArray, "walls floor"],
    alpha: float | int,
    eta: float | int,
) -> Float[np.ndarray, " floor"]:
    r"""Mean motion along a valley in one step, $-\frac\eta2\sum_j\langle t_j^2\rangle\nabla h_j$.

    To leading order it is $-\frac{\alpha\eta^2}4\nabla\sum_jh_j$: the sum of the curvatures falls, a single
    one need not.

    Parameters
    ----------
    curvatures
        Eigenvalues $h_j$ of the Hessian across the valley.
    slopes
        Their gradients along the floor.
    alpha
        Gradient noise over curvature, the same for every wall.
    eta
        The step.
    """
    return -float(eta) / 2 * valley_variance(curvatures, alpha, eta) @ np.asarray(slopes, float)


def entropic_drift(
    loss: Callable[[Any], Array],
    params: PyTree,
    noise: Float[AnyArray, "params params"],
    eta: float | int,
    *,
    flat: float = 1e-6,
) -> PyTree:
    r"""Mean motion per step along the floor of a valley of any loss, from noise in its steep directions.

    $$-\frac\eta2\,P\,\nabla\,\mathrm{tr}(H(\theta)\Sigma)$$

    with the steady covariance $\Sigma$ in the directions of curvature and the projection P on those without.

    Parameters
    ----------
    loss
        Function of the parameters, twice differentiable by JAX.
    params
        A point on the floor, where the gradient vanishes.
    noise
        Covariance of the gradient of a batch, (parameters, parameters) in the order of
        `jax.flatten_util.ravel_pytree`; what it has along the floor is left out.
    eta
        The step.
    flat
        A direction belongs to the floor if its curvature is below this part of the largest.

    Returns
    -------
    PyTree
        The motion, with the structure of `params`.
    """
    at, unravel = ravel_pytree(params)
    if at.size > _MOST_PARAMETERS:
        raise ValueError(f"params has {at.size} entries; a dense Hessian is for at most {_MOST_PARAMETERS}.")
    check_positive("eta", eta)
    covariance = as_symmetric("noise", noise)
    if len(covariance) != at.size:
        raise ValueError(f"noise has shape {covariance.shape}; {at.size} parameters need as many rows.")
    hessian = jax.jit(jax.hessian(lambda w: loss(unravel(w))))
    values, vectors = np.linalg.eigh(np.asarray(hessian(at), float))
    steep = vectors[:, values > flat * values[-1]]
    inside = steady_covariance(np.diag(values[values > flat * values[-1]]), steep.T @ covariance @ steep, eta)
    sigma = jnp.asarray(steep @ inside @ steep.T)
    pull = np.asarray(jax.jit(jax.grad(lambda w: jnp.sum(hessian(w) * sigma)))(at))
    return unravel(jnp.asarray(-float(eta) / 2 * (pull - steep @ (steep.T @ pull))))
