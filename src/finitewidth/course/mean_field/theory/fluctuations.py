r"""How far networks of finite width are from their mean field, during training.

A network of m sampled neurons is the infinite one with masses that fluctuate. To first order its outputs
after training differ by $\frac1m\sum_j\psi(\theta_j)-\int\psi\,d\mu$, where $\psi(\theta)$ is the
derivative of the trained output with respect to mass at the start $\theta$: it counts what the neuron adds
itself, and how it changes the way of all others. So the outputs have the covariance
$\frac1m\mathrm{Cov}_\mu(\psi,\psi)$.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive, check_whole
from finitewidth.course.mean_field.theory.population import NeuronPopulation, OutputLoss, half_mean_square


class MeanFieldFluctuations(eqx.Module):
    """Outputs of an infinitely wide trained network, and the fluctuations of wide ones around them."""

    mean: Float[Array, " n"]
    """Outputs of the mean-field limit."""
    covariance: Float[Array, "n n"]
    """Covariance of the outputs of networks of m neurons, times m."""

    def std(self, m: AnyArray | int) -> Float[np.ndarray, "..."]:
        """Root mean square distance of the outputs of m neurons from the limit, averaged over the points."""
        return np.asarray(np.sqrt(np.trace(np.asarray(self.covariance)) / len(self.mean) / np.asarray(m)))


def mean_field_fluctuations(
    limit: NeuronPopulation,
    x: Float[AnyArray, "n d"],
    y: Float[AnyArray, " n"],
    x_test: Float[AnyArray, "t d"],
    *,
    tau: float | int,
    steps: int,
    loss: OutputLoss = half_mean_square,
) -> MeanFieldFluctuations:
    r"""Train an infinitely wide layer, and tell how networks of m sampled neurons scatter around it.

    Parameters
    ----------
    limit
        The measure at the start, for example a `infinite_population`.
    x, y, tau, steps, loss
        As in `NeuronPopulation.descend`.
    x_test
        Where outputs are asked for.
    """
    check_positive("tau", tau)
    check_whole("steps", steps)
    x, y, x_test = (jnp.asarray(part, float) for part in (x, y, x_test))
    mean, slopes = _responses(limit, x, y, x_test, jnp.asarray(float(tau)), steps, loss)
    average = slopes @ limit.masses
    covariance = (slopes * limit.masses) @ slopes.T - jnp.outer(average, average)
    return MeanFieldFluctuations(mean, covariance)


@eqx.filter_jit
def _responses(limit: NeuronPopulation, x, y, x_test, tau, steps: int, loss: OutputLoss):
    """Trained outputs, and their derivatives (points, neurons) with respect to the masses at the start."""

    def outputs(masses):
        at = lambda rows: NeuronPopulation(rows, masses, limit.neuron)
        step = lambda rows, _: (at(rows).stepped(x, y, tau, loss).neurons, None)
        return at(lax.scan(step, limit.neurons, None, length=steps)[0])(x_test)

    return outputs(limit.masses), jax.jacrev(outputs)(limit.masses)
