r"""Large steps on quadratic models of several points: the same three phases, from the model's own recursion.

A quadratic model has features $\phi^E$ that are linear in its weights. With residuals $e=z-y$, a step
$-\eta d$ along $d=\sum_be_b\phi^E_b$ changes outputs and kernel $K_{ab}=\phi^E_a\cdot\phi^E_b$ exactly by

$$z'=z-\eta Ke+\tfrac{\eta^2}2\,\mu ee,\qquad
K'_{ab}=(\phi^E_a-\eta\epsilon\psi_ad)\cdot(\phi^E_b-\eta\epsilon\psi_bd),$$

with the meta kernel $\mu$. For one point and frozen gates this closes on two numbers, `OnePointNetwork`; in
general the weights themselves are followed.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_targets, check_whole
from finitewidth.architecture.models.point_model import PointModel
from finitewidth.course.large_learning_rates.theory.catapult import Phase

# Growth of the loss from which no training came back, and below which it is rounding.
_RUNAWAY = 1e12
_RISE = 1e-9


class QuadraticPhases(eqx.Module):
    r"""How training ends, for every step: by the loss, and by the kernel that it ends with."""

    phase: Int[Array, " etas"]
    """A `Phase`: 0 lazy, 1 catapult, 2 divergent."""
    rise: Float[Array, " etas"]
    """The largest loss over the first."""
    sharpness: Float[Array, " etas"]
    r"""$\eta\lambda_{max}(K)$ at the end; NaN for divergent ones."""
    kernel: Float[Array, ""]
    r"""$\lambda_0=\lambda_{max}(K)$ at the start."""


def quadratic_phases(
    model: PointModel,
    weights: Float[AnyArray, "out features"],
    y: Float[AnyArray, "points out"] | Float[AnyArray, " points"],
    *,
    edges: Float[AnyArray, " etas"],
    steps: int = 1000,
) -> QuadraticPhases:
    r"""Phases of gradient descent on half the sum of squared errors, at steps $\eta=\mathrm{edge}/\lambda_0$.

    Parameters
    ----------
    model
        A model at its training points: `QuadraticModel(...).at(x)`, or any other `PointModel`.
    weights
        Weights to start from.
    y
        Labels.
    edges
        Multiples $\eta\lambda_0$.
    steps
        Steps of gradient descent.

    Examples
    --------
    >>> import numpy as np, finitewidth as fw
    >>> from finitewidth.course.large_learning_rates.theory import quadratic_phases
    >>> swap = np.array([[[0.0, 1.0], [1.0, 0.0]]])                # z = w_1 w_2
    >>> model = fw.QuadraticModel(lambda i: np.zeros((1, 2)), lambda i: swap).at(np.arange(1))
    >>> found = quadratic_phases(model, np.array([[2.0, 0.02]]), np.zeros(1), edges=np.array([1.0, 3.0, 5.0]))
    >>> found.phase.tolist()
    [0, 1, 2]
    """
    check_whole("steps", steps)
    weights, edges = jnp.asarray(weights, float), jnp.asarray(edges, float)
    y = as_targets(y, model(weights).shape[0], weights.dtype, "y")
    return _phases(model, weights, y, edges, steps)


@eqx.filter_jit
def _phases(model: PointModel, weights: Array, y: Array, edges: Array, steps: int) -> QuadraticPhases:
    def largest(at: Array) -> Array:
        features = model.jacobian(at)
        return jnp.linalg.eigvalsh(features @ features.T)[-1]

    def residual(at: Array) -> Array:
        return (model(at) - y).ravel()

    kernel, first = largest(weights), jnp.sum(residual(weights) ** 2)

    def one(edge: Array) -> tuple[Array, Array, Array]:
        def step(state, _):
            at, peak = state
            e = residual(at)
            size = jnp.sum(e**2)
            moved = at - edge / kernel * (e @ model.jacobian(at)).reshape(at.shape)
            return (jnp.where(size < _RUNAWAY * first, moved, at), jnp.maximum(peak, size)), None

        (end, peak), _ = lax.scan(step, (weights, first), None, length=steps)
        last = jnp.sum(residual(end) ** 2)
        converges = last < first
        phase = jnp.where(peak > first * (1 + _RISE), Phase.CATAPULT, Phase.LAZY)
        sharpness = jnp.where(converges, edge / kernel * largest(end), jnp.nan)
        return jnp.where(converges, phase, Phase.DIVERGENT), peak / first, sharpness

    phase, rise, sharpness = lax.map(one, edges)
    return QuadraticPhases(phase, rise, sharpness, kernel)
