r"""Training as motion in Wasserstein's distance: minimising movements.

Gradient flow of a measure moves it by the shortest way. One step of length $\tau$ of the scheme of Jordan,
Kinderlehrer and Otto is

$$\mu'=\arg\min_\nu\;R(\nu)+\frac1{2\tau}W_2^2(\nu,\mu).$$

For m equal neurons $W_2^2$ is the least mean square distance over all pairings. As long as $\tau$ times the
curvature of the potential is below one, each neuron is paired with itself, and the step is the implicit
$\theta_j'=\theta_j-\tau\nabla V(\theta_j')$, which differs from gradient descent with the rate $m\tau$ by
order $\tau^2$.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment, minimize

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers, check_positive
from finitewidth.course.mean_field.theory.population import NeuronPopulation, OutputLoss, half_mean_square

_MOST_UNKNOWNS = 1500
_PAIRINGS = 20


class Transport(NamedTuple):
    """The best pairing of two clouds of equally many points."""

    squared_distance: float
    r"""$W_2^2$, the mean squared distance of paired points."""
    partner: Int[np.ndarray, " m"]
    """For every point of the first cloud, the index of its partner in the second."""


def wasserstein(first: Float[AnyArray, "m k"], second: Float[AnyArray, "m k"]) -> Transport:
    """Wasserstein's distance of two clouds of equal masses, by the best assignment.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.mean_field.theory import wasserstein
    >>> wasserstein(np.array([[0.0], [1.0]]), np.array([[1.5], [0.0]])).partner.tolist()
    [1, 0]
    """
    a, b = (np.asarray(as_numbers(name, c), float) for name, c in (("first", first), ("second", second)))
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"first and second must be of one shape (points, k), got {a.shape} and {b.shape}.")
    squares = np.sum((a[:, None] - b) ** 2, axis=-1)
    rows, partner = linear_sum_assignment(squares)
    return Transport(float(squares[rows, partner].mean()), partner)


class MinimisingMovement(eqx.Module):
    """One step of the minimising movement."""

    population: NeuronPopulation
    """The measure after the step."""
    squared_distance: float
    """$W_2^2$ between the measures before and after."""
    objective: float
    r"""$R+W_2^2/(2\tau)$ at the minimum."""
    partner: Int[np.ndarray, " m"]
    """Which neuron each one came from; in order as long as the step is short."""


def minimising_movement(
    start: NeuronPopulation,
    x: Float[AnyArray, "n d"],
    y: Float[AnyArray, " n"],
    tau: float | int,
    loss: OutputLoss = half_mean_square,
) -> MinimisingMovement:
    r"""The step $\arg\min_\nu R(\nu)+W_2^2(\nu,\mu)/(2\tau)$ over measures of as many equal neurons.

    Positions and pairing are improved in turn until the pairing stays, which finds a local minimum. For some
    hundred parameters.

    Parameters
    ----------
    start
        $\mu$, with equal masses.
    x, y, loss
        Data and loss of the risk.
    tau
        Length of the step.
    """
    check_positive("tau", tau)
    m, size = len(start.neurons), start.neurons.size
    if size > _MOST_UNKNOWNS:
        raise ValueError(f"start has {size} parameters; the step is solved for at most {_MOST_UNKNOWNS}.")
    if float(jnp.ptp(start.masses)) > 1e-12:
        raise ValueError("start must have equal masses: pairings are between equal neurons.")
    data = start, jnp.asarray(x, float), jnp.asarray(y, float), jnp.asarray(float(tau))
    origin = np.asarray(start.neurons)
    flat, partner = origin.ravel(), np.arange(m)
    value, best = np.inf, Transport(0.0, partner)
    for _ in range(_PAIRINGS):
        target = jnp.asarray(origin[partner])
        found = minimize(
            _value_and_slope,
            flat,
            (target, *data, loss),
            jac=True,
            hess=_dense_curvature,
            method="trust-exact",
            options={"gtol": 1e-13},
        )
        flat, value = found.x, float(found.fun) / m
        best = wasserstein(flat.reshape(m, -1), origin)
        if np.array_equal(best.partner, partner):
            break
        partner = best.partner
    moved = NeuronPopulation(jnp.asarray(flat.reshape(m, -1)), start.masses, start.neuron)
    return MinimisingMovement(moved, best.squared_distance, value, partner)


def potential_curvature(
    at: NeuronPopulation, x: AnyArray, y: AnyArray, loss: OutputLoss = half_mean_square
) -> float:
    r"""The largest curvature of the risk in the geometry of the flow, in units of $1/\tau$.

    The largest eigenvalue of m times the Hessian of the risk in all weights. Below its inverse a step pairs
    each neuron with itself.
    """
    parts = at, jnp.asarray(x, float), jnp.asarray(y, float), jnp.asarray(np.inf)
    hessian = _dense_curvature(np.asarray(at.neurons).ravel(), at.neurons, *parts, loss)
    return float(np.abs(np.linalg.eigvalsh(hessian)).max())


def _objective(w: Array, target: Array, start: NeuronPopulation, x, y, tau, loss: OutputLoss) -> Array:
    """m times the objective, so that the gradient of a neuron does not shrink with their number."""
    rows = w.reshape(target.shape)
    risk = NeuronPopulation(rows, start.masses, start.neuron).risk(x, y, loss)
    return len(rows) * risk + jnp.sum((rows - target) ** 2) / (2 * tau)


_slope = eqx.filter_jit(jax.value_and_grad(_objective))
_curvature = eqx.filter_jit(jax.hessian(_objective))


def _value_and_slope(w: np.ndarray, *rest) -> tuple[float, np.ndarray]:
    value, slope = _slope(w, *rest)
    return float(value), np.asarray(slope)


def _dense_curvature(w: np.ndarray, *rest) -> np.ndarray:
    return np.asarray(_curvature(w, *rest))
