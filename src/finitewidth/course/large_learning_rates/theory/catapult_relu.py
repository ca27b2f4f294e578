r"""Large steps on one training point when the gates of ReLU units may close.

In a catapult outputs reach the size $\sqrt m$. Every weight moves by a number of order one, and some units of
any network, however wide, cross their kink. A unit enters through $w=u\cdot x/|x|$ and v alone. While it
is on, $w'=w-qv$ and $v'=v-qw$ with one number $q=\eta|x|r/\sqrt{md}$ for all units; once $w<0$ it is off for
good. These rules do not know the length of (v, w). Its square is 2 on average for Gaussian weights, whatever
the angle, and the angles of a wide layer fill the circle evenly: sums over units are averages over angles.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from finitewidth._base.checks import check_positive, check_whole


class ReluCatapult(eqx.Module):
    """The way that large steps take in a wide ReLU network on one point."""

    outputs: Float[Array, " times"]
    r"""$z/\sqrt m$ before the first step and after every step, for $|x|^2=d$ and weights of variance one."""
    kernels: Float[Array, " times"]
    r"""$\lambda/\lambda_0$ at the same times."""
    closed: Float[Array, " times"]
    """Share of all m units that were on at the start and are off now."""

    @property
    def peak(self) -> Float[Array, ""]:
        r"""Largest $|z|/\sqrt m$."""
        return jnp.abs(self.outputs).max()


def relu_catapult(
    edge: float | int,
    width: float | int,
    *,
    output: float | int = 1.0,
    steps: int = 100,
    angles: int = 4000,
) -> ReluCatapult:
    r"""A ReLU network of one hidden layer on one point with label 0, gates and all, at large width.

    Parameters
    ----------
    edge
        $\eta\lambda_0$, the step in units of the inverse kernel at the start.
    width
        m, which enters through the size $z_0/\sqrt m$ of the first output alone.
    output
        The first output $z_0$.
    steps
        Steps of gradient descent.
    angles
        Units on the half circle where $w\ge0$.

    Examples
    --------
    >>> from finitewidth.course.large_learning_rates.theory import relu_catapult
    >>> path = relu_catapult(edge=3.0, width=1e6)
    >>> round(float(path.peak), 2), round(float(path.closed[-1]), 2)
    (0.22, 0.11)
    """
    for name, value in (("edge", edge), ("width", width)):
        check_positive(name, value)
    for name, value in (("steps", steps), ("angles", angles)):
        check_whole(name, value)
    return _path(jnp.asarray(edge, float), jnp.asarray(output / width**0.5, float), steps, angles)


@eqx.filter_jit
def _path(edge: Array, first: Array, steps: int, angles: int) -> ReluCatapult:
    angle = (jnp.arange(angles) + 0.5) / angles * jnp.pi - jnp.pi / 2
    v, w = jnp.sqrt(2) * jnp.sin(angle), jnp.sqrt(2) * jnp.cos(angle)

    def mean(values: Array, on: Array) -> Array:
        """Average over all units: only half of them start on."""
        return jnp.mean(jnp.where(on, values, 0.0)) / 2

    v = v + first / mean(w**2, w >= 0) * w
    eta = edge / mean(v**2 + w**2, w >= 0)

    def step(at, _):
        v, w, on = at
        z, kernel = mean(v * w, on), mean(v**2 + w**2, on)
        q = jnp.where(on, eta * z, 0.0)
        after = v - q * w, w - q * v
        return (*after, after[1] >= 0), (z, kernel, 0.5 - jnp.mean(on) / 2)

    _, (outputs, kernels, closed) = lax.scan(step, (v, w, w >= 0), None, length=steps + 1)
    return ReluCatapult(outputs, kernels / kernels[0], closed)
