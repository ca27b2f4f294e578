r"""Where gradient descent takes the linearised network, without training it.

With the tangent kernel of the start, residual $e(0) = z_{train}(0) - y$ and squared error, $T$ steps give

$$z_{test}(T) = z_{test}(0) - H_{test,train}\,\frac{1 - (1-\eta H_{train})^T}{H_{train}}\,e(0),$$

and a ridge r replaces $H_{train}$ by $H_{train}+r$.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import as_matrix
from finitewidth._base.linalg.descent_filter import descent_gain
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.training.training import Task


class LinearDescent(NamedTuple):
    """Outputs after training, and the largest eigenvalue of the kernel: beyond 2/eta nothing converges."""

    outputs: Float[Array, "networks test out"]
    lambda_max: Float[Array, ""]


def linear_descent(
    task: Task, starts: Sequence[PyTree], x_test: Array, learning_rate: float, steps: int, ridge: float = 0.0
) -> LinearDescent:
    """Outputs of networks linearised at their starts, after `steps` full-batch steps on squared error.

    The starts share a tangent kernel, as those with both signs of the last layer do. It is factorised once:
    two batched factorisations in one program can wait for each other for ever. A ridge is the strength of a
    spring to the start, and adds to the training kernel.
    """
    params, rates = starts[0], task.optimizer.rates
    training = as_matrix(empirical_ntk(task.model, params, task.x, rates=rates))
    onto_test = as_matrix(empirical_ntk(task.model, params, x_test, task.x, rates=rates))
    eigenvalues, vectors = jnp.linalg.eigh(training)
    gain = descent_gain(eigenvalues + ridge, learning_rate, steps)
    ends = []
    for each in starts:
        residual, start = task.model(each, task.x) - task.y, task.model(each, x_test)
        change = onto_test @ (vectors @ (gain * (vectors.T @ residual.T.reshape(-1))))
        ends.append(start - change.reshape(start.shape[::-1]).T)
    return LinearDescent(jnp.stack(ends), eigenvalues[-1])
