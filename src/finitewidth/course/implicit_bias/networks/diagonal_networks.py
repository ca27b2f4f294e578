r"""Real training of diagonal networks $\beta=\theta_+^2-\theta_-^2$ on half the sum of squared errors.

The gradients are $\pm2\theta_\pm X^Tr$. From a small start the weights leave zero one after the other and the
fastest is far ahead of the slowest, so the flow is followed by an implicit solver, until nothing is left
of the residual rather than up to a time.
"""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive, check_whole

_ACCURACY = 1e-9
_MOST_STEPS = 100_000


class DiagonalWeights(NamedTuple):
    """Both layers of weights, and the integral of the residuals up to the moment.

    Attributes
    ----------
    plus, minus
        The weights.
    integral
        For every point, the integral of its residual over time; in descent, eta times the sum over steps.
    time
        When: for descent, eta times the number of steps.
    residual
        The largest residual that is left.
    """

    plus: Float[Array, "*times features"]
    minus: Float[Array, "*times features"]
    integral: Float[Array, "*times train"]
    time: Float[Array, "*times"]
    residual: Float[Array, "*times"]

    @property
    def beta(self) -> Float[Array, "*times features"]:
        """The weights of the linear model."""
        return self.plus**2 - self.minus**2


def diagonal_flow(
    x: Float[AnyArray, "train features"],
    y: Float[AnyArray, " train"],
    start: Float[AnyArray, "*starts features"],
    *,
    times: Float[AnyArray, " times"] | None = None,
    tolerance: float = 1e-9,
) -> DiagonalWeights:
    """Gradient flow from both layers at `start`, or at each of several starts.

    Parameters
    ----------
    x, y
        Features and labels.
    start
        First weights of both layers; with two axes, one run for each row.
    times
        Moments to return, along the first axis. Without them the flow ends where no residual exceeds
        `tolerance` times the largest label.
    tolerance
        See `times`.
    """
    check_positive("tolerance", tolerance)
    x, y, start = (jnp.asarray(a, float) for a in (x, y, start))
    if start.ndim == 2:
        runs = [diagonal_flow(x, y, row, times=times, tolerance=tolerance) for row in start]
        return DiagonalWeights(*(jnp.stack(part) for part in zip(*runs, strict=True)))
    ends = None if times is None else jnp.asarray(times, float)
    found = _followed(x, y, start, ends, jnp.asarray(tolerance * jnp.abs(y).max()))
    if times is None:
        found = DiagonalWeights(*(part[-1] for part in found))
        if not found.residual <= 2 * tolerance * jnp.abs(y).max():
            raise ValueError(
                f"the flow has not reached the labels after {_MOST_STEPS} steps of its solver: a residual of "
                f"{float(found.residual):.2g} is left."
            )
    return found


@eqx.filter_jit
def _followed(x: Array, y: Array, start: Array, times: Array | None, left: Array) -> DiagonalWeights:
    def rates(t, state, args):
        plus, minus, _ = state
        r = x @ (plus**2 - minus**2) - y
        g = r @ x
        return -2 * plus * g, 2 * minus * g, r

    def arrived(t, state, args, **_):
        return jnp.abs(x @ (state[0] ** 2 - state[1] ** 2) - y).max() < left

    first = (start, start, jnp.zeros_like(y))
    # A relative accuracy, for the smallest weights too.
    control = diffrax.PIDController(_ACCURACY, _ACCURACY * 1e-3 * start.min())
    run = diffrax.diffeqsolve(
        diffrax.ODETerm(rates),
        diffrax.Kvaerno5(),
        *(0.0, 1e15 if times is None else times[-1], 1e-6, first),
        saveat=diffrax.SaveAt(t1=True) if times is None else diffrax.SaveAt(ts=times),
        stepsize_controller=control,
        event=diffrax.Event(arrived) if times is None else None,
        max_steps=_MOST_STEPS,
        throw=False,
    )
    assert run.ys is not None
    assert run.ts is not None
    plus, minus, integral = run.ys
    residual = jnp.abs((plus**2 - minus**2) @ x.T - y).max(axis=-1)
    return DiagonalWeights(plus, minus, integral, run.ts, residual)


def diagonal_descent(
    x: Float[AnyArray, "train features"],
    y: Float[AnyArray, " train"],
    start: Float[AnyArray, " features"],
    *,
    eta: float,
    steps: int,
) -> DiagonalWeights:
    """So many steps of gradient descent from both layers at `start`."""
    check_positive("eta", eta)
    check_whole("steps", steps)
    x, y, start = (jnp.asarray(a, float) for a in (x, y, start))
    found = _descended(x, y, start, jnp.asarray(eta, float), steps)
    if not np.isfinite(found.residual):
        raise ValueError(f"eta={eta:.4g} is beyond stability: the weights are no longer finite. Lower it.")
    return found


@eqx.filter_jit
def _descended(x: Array, y: Array, start: Array, eta: Array, steps: int) -> DiagonalWeights:
    def step(_, state):
        plus, minus, integral = state
        r = x @ (plus**2 - minus**2) - y
        g = 2 * eta * (r @ x)
        return plus * (1 - g), minus * (1 + g), integral + eta * r

    plus, minus, integral = lax.fori_loop(0, steps, step, (start, start, jnp.zeros_like(y)))
    residual = jnp.abs(x @ (plus**2 - minus**2) - y).max()
    return DiagonalWeights(plus, minus, integral, eta * steps, residual)
