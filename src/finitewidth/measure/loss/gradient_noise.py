r"""The noise of stochastic gradients at one place: gradients of single points beside the Hessian.

The loss is a mean over points. Its gradient $\bar g=\frac1m\sum g_i$ is what a batch estimates, and the
scatter of the $g_i$ decides how well. Near a well-specified minimum the covariance of the $g_i$ resembles
the Hessian; how closely is measured here.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

# The loss of a batch: a mean over its points, as a function of parameters and of a tree of arrays.
BatchLoss = Callable[[Any, Any], Array]

_MOST_PARAMETERS = 2000
# Points whose gradients are computed together.
_TOGETHER = 256


class GradientNoise(eqx.Module):
    """Gradients of single points and the Hessian of their mean loss."""

    gradients: Float[np.ndarray, "points params"]
    """One row for each point, parameters in the order of `jax.flatten_util.ravel_pytree`."""
    hessian: Float[np.ndarray, "params params"]
    """Hessian of the mean loss."""

    @property
    def mean(self) -> Float[np.ndarray, " params"]:
        """The gradient of the mean loss."""
        return self.gradients.mean(axis=0)

    @property
    def covariance(self) -> Float[np.ndarray, "params params"]:
        """Covariance of the gradients of single points; a batch of b points has about a b-th of it."""
        centred = self.gradients - self.mean
        return centred.T @ centred / len(centred)

    @property
    def noise_scale(self) -> float:
        r"""$\mathrm{tr}\,C/|\bar g|^2$: the batch size at which noise and gradient are equally large."""
        return float(np.trace(self.covariance) / np.sum(self.mean**2))

    @property
    def alpha(self) -> float:
        r"""The $\alpha$ for which $\alpha H$ is closest to the covariance."""
        return float(np.sum(self.covariance * self.hessian) / np.sum(self.hessian**2))

    @property
    def departure(self) -> float:
        r"""$|C-\alpha H|_F/|C|_F$: 0 where noise is proportional to the Hessian, 1 where it is unrelated."""
        covariance = self.covariance
        return float(np.linalg.norm(covariance - self.alpha * self.hessian) / np.linalg.norm(covariance))


def gradient_noise(loss: BatchLoss, params: PyTree, data: PyTree) -> GradientNoise:
    """Gradients of every single point and the Hessian, for any JAX loss of up to 2,000 parameters.

    Parameters
    ----------
    loss
        Function of (params, batch): the mean over the points of a batch.
    params
        Where noise is measured.
    data
        Arrays with one row for each point, such as (x, y); a batch has the same structure.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> from finitewidth.measure import gradient_noise
    >>> x = np.random.default_rng(0).normal(size=(4000, 2))
    >>> loss = lambda w, batch: 0.5 * jnp.mean((batch[0] @ w - batch[1]) ** 2)
    >>> noise = gradient_noise(loss, jnp.zeros(2), (x, np.random.default_rng(1).normal(size=4000)))
    >>> noise.gradients.shape, noise.departure < 0.1
    ((4000, 2), True)
    """
    data, points = as_batches(data)
    at, unravel = ravel_pytree(params)
    if at.size > _MOST_PARAMETERS:
        raise ValueError(f"params has {at.size} entries; a dense Hessian is for at most {_MOST_PARAMETERS}.")
    check_loss(loss, params, data)
    gradients, hessian = _derivatives(loss, unravel, at, data)
    return GradientNoise(np.asarray(gradients).reshape(points, -1), np.asarray(hessian))


@eqx.filter_jit
def _derivatives(loss: BatchLoss, unravel: Callable, at: Array, data: PyTree) -> tuple[Array, Array]:
    value = lambda w, batch: loss(unravel(w), batch)
    single = lambda point: jax.grad(value)(at, jax.tree.map(lambda part: part[None], point))
    return lax.map(single, data, batch_size=_TOGETHER), jax.hessian(value)(at, data)


def as_batches(data: PyTree) -> tuple[PyTree, int]:
    """Arrays with one row for each point, and the number of points."""
    arrays = jax.tree.map(jnp.asarray, data)
    sizes = {part.shape[0] if part.ndim else 0 for part in jax.tree.leaves(arrays)}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"data must be arrays with one row for each point; they have {sorted(sizes)} rows.")
    return arrays, sizes.pop()


def check_loss(loss: BatchLoss, params: PyTree, batch: PyTree) -> None:
    """Refuse a loss that is not one number."""
    value = eqx.filter_eval_shape(loss, params, batch)
    if getattr(value, "shape", None) != ():
        raise ValueError(f"loss must return one number, got shape {getattr(value, 'shape', None)}.")
