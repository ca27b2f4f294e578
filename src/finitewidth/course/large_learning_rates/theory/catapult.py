r"""Gradient descent with large steps on one training point: lazy, catapult and divergent.

A hidden layer of m ReLU units whose gates stay as they were at the start is quadratic in its weights,

$$z=\frac1{\sqrt{md}}\sum_{i=1}^mv_i\,(u_i\cdot x)\,1\{u_i(0)\cdot x\ge0\},\qquad
\lambda=\frac1{md}\sum_i\left(v_i^2|x|^2+(u_i\cdot x)^2\right)1\{u_i(0)\cdot x\ge0\},$$

and gradient descent on $(z-y)^2/2$ closes on its output z and its tangent kernel $\lambda$. With
$r=z-y$ and $a=|x|^2/(md)$,

$$r'=r\,(1-\eta\lambda+a\eta^2zr),\qquad\lambda'=\lambda-4a\eta\,zr+a\eta^2r^2\lambda.$$
"""

from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_whole

Numbers = AnyArray | float | int

# A kernel that has grown to this many times 1/eta goes on growing: divergence sets in above 4.
_ESCAPED = 100.0
# What is left of the first residual when training has converged.
_CONVERGED = 1e-9
_STEPS = 20_000
_BISECTIONS = 48


class Phase(IntEnum):
    """What large steps make of a network."""

    LAZY = 0
    CATAPULT = 1
    DIVERGENT = 2
    UNDECIDED = 3


def _numbers(value: Numbers) -> Array:
    return jnp.asarray(value, float)


class OnePointNetwork(eqx.Module):
    r"""Networks with frozen gates at one training point: all that gradient descent sees of them.

    Arrays of shape `(*shape)`, one entry for each network; numbers stand for all.

    Examples
    --------
    >>> from finitewidth.course.large_learning_rates.theory import OnePointNetwork
    >>> path = OnePointNetwork.of_width(10_000).descend(eta=3.0, steps=40)
    >>> bool(path.losses.max() > 100 * path.losses[0]), bool(path.losses[-1] < 0.1 * path.losses[0])
    (True, True)
    """

    output: Float[Array, "*shape"] = eqx.field(converter=_numbers)
    """The output $z$."""
    kernel: Float[Array, "*shape"] = eqx.field(converter=_numbers)
    r"""The tangent kernel $\lambda$."""
    curvature: Float[Array, "*shape"] = eqx.field(converter=_numbers)
    """$a=|x|^2/(md)$, the strength of the quadratic term."""
    label: Float[Array, "*shape"] = eqx.field(converter=_numbers, default=0.0)
    """The label $y$."""

    @classmethod
    def of_width(cls, width: Numbers, output: Numbers = 1.0, label: Numbers = 0.0) -> "OnePointNetwork":
        r"""Networks of a width m with $|x|^2=d$ and $\lambda=1$, as for weights of unit variance."""
        width, output, label = jnp.broadcast_arrays(*map(_numbers, (width, output, label)))
        return cls(output, jnp.ones_like(width), 1 / width, label)

    @classmethod
    def of_weights(
        cls,
        u: Float[AnyArray, "m d"],
        v: Float[AnyArray, " m"],
        x: Float[AnyArray, " d"],
        label: float | int = 0.0,
    ) -> "OnePointNetwork":
        """The network with these weights, its gates frozen as they are."""
        u, v, x = map(_numbers, (u, v, x))
        w = jnp.where(u @ x >= 0, u @ x, 0.0)
        v = jnp.where(u @ x >= 0, v, 0.0)
        scale = u.size
        return cls(v @ w / jnp.sqrt(scale), (v @ v * (x @ x) + w @ w) / scale, x @ x / scale, label)

    @property
    def residual(self) -> Float[Array, "*shape"]:
        """$r=z-y$."""
        return self.output - self.label

    @property
    def sums(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        r"""$S,D=\frac1{md}\sum_i(|x|v_i\pm u_i\cdot x)^2$ over active units: $\lambda\pm2\sqrt az$.

        A step multiplies them by $(1\mp\eta\sqrt ar)^2$. As neither is negative, $2\sqrt a|z|\le\lambda$.
        """
        half = 2 * jnp.sqrt(self.curvature) * self.output
        return self.kernel + half, self.kernel - half

    def step(self, eta: Numbers) -> "OnePointNetwork":
        """The networks after one step of gradient descent."""
        z, r, lam, a = self.output, self.residual, self.kernel, self.curvature
        moved = self.label + r * (1 - eta * lam + a * eta**2 * z * r)
        return OnePointNetwork(moved, lam - 4 * a * eta * z * r + a * eta**2 * r**2 * lam, a, self.label)

    def descend(self, eta: Numbers, steps: int) -> "CatapultPath":
        """The way that so many steps take, by the exact recursion; $(\\infty, nan)$ once it has overflown."""
        check_whole("steps", steps)
        start = self._spread(eta)
        return CatapultPath(*_path(start, _numbers(eta), steps), start.label, _numbers(eta))

    def phases(self, eta: Numbers, most_steps: int = _STEPS) -> "CatapultPhases":
        r"""How training ends.

        Divergent where $\eta\lambda$ exceeds 100, from where it cannot come back; else lazy or catapult by
        whether the loss ever rose above its start. A network that has neither converged nor escaped after
        `most_steps` is undecided.
        """
        check_whole("most_steps", most_steps)
        return _phases(self._spread(eta), _numbers(eta), most_steps)

    def divergence_boundary(self, low: float | int = 3.0, high: float | int = 5.0) -> Float[Array, "*shape"]:
        r"""$\eta\lambda_0$ above which training diverges, by bisection between two values.

        Exactly 4 for a label of zero, where $\lambda$ falls if and only if $\eta\lambda<4$.
        """
        return _boundary(self._spread(1.0), jnp.asarray(low, float), jnp.asarray(high, float))

    @property
    def wide_divergence_boundary(self) -> Float[Array, "*shape"]:
        r"""$4+16\,a\,y\,r_0/\lambda_0^2$: the boundary to first order in 1/width.

        Around $\eta\lambda=4$ residuals grow as $(-3)^t$, and $\eta\lambda-4-16ayr/\lambda_0^2$ stays what it
        was at the start until outputs are of size $\sqrt m$. Its sign decides.
        """
        return 4 + 16 * self.curvature * self.label * self.residual / self.kernel**2

    def lazy_drift(self, eta: Numbers) -> Float[Array, "*shape"]:
        r"""$\lambda_\infty-\lambda_0$ to first order in $a$ for $e=\eta\lambda_0<2$, a geometric series.

        $$-\frac a{\lambda_0}\left(\frac{4-e}{2-e}r_0^2+4yr_0\right)$$
        """
        e, r = eta * self.kernel, self.residual
        return -self.curvature / self.kernel * ((4 - e) / (2 - e) * r**2 + 4 * self.label * r)

    def growth_time(self, eta: Numbers, reach: Numbers = 1.0) -> Float[Array, "*shape"]:
        r"""Steps until $|r|$ is reach times $\lambda_0/\sqrt a$, at $|1-\eta\lambda_0|$ a step.

        With $|x|^2=d$ and $\lambda_0=1$ this is reach times $\sqrt m$, so that the time is
        $T_1\simeq\frac12\log m/\log|1-\eta\lambda_0|$.
        """
        height = reach * self.kernel / jnp.sqrt(self.curvature)
        return jnp.log(height / jnp.abs(self.residual)) / jnp.log(jnp.abs(1 - eta * self.kernel))

    def late_factor(self, eta: Numbers) -> Float[Array, "*shape"]:
        r"""$a\eta^2$, the limit of $z'/z^3$ in a divergence: $\log|\sqrt a\eta z|$ triples at every step."""
        return self.curvature * eta**2

    def _spread(self, eta: Numbers) -> "OnePointNetwork":
        """The same with all arrays in the common shape."""
        parts = (self.output, self.kernel, self.curvature, self.label)
        *parts, _ = jnp.broadcast_arrays(*parts, _numbers(eta))
        return OnePointNetwork(*parts)


class CatapultPath(eqx.Module):
    """Outputs and kernels of networks with frozen gates, step by step."""

    outputs: Float[Array, "times *shape"]
    """$z$ before the first step and after every step."""
    kernels: Float[Array, "times *shape"]
    r"""$\lambda$ at the same times."""
    label: Float[Array, "*shape"]
    """$y$."""
    eta: Float[Array, "..."]
    r"""The step $\eta$."""

    @property
    def losses(self) -> Float[Array, "times *shape"]:
        """$(z-y)^2/2$."""
        return (self.outputs - self.label) ** 2 / 2

    @property
    def sharpness(self) -> Float[Array, "times *shape"]:
        r"""$\eta\lambda$: the frozen kernel is stable below 2."""
        return self.eta * self.kernels


class CatapultPhases(eqx.Module):
    """How training with large steps ends, for every network and step."""

    phase: Int[Array, "*shape"]
    """A `Phase`: 0 lazy, 1 catapult, 2 divergent, 3 undecided."""
    peak: Float[Array, "*shape"]
    r"""The largest $|z|$ on the way; meaningless for divergent ones."""
    sharpness: Float[Array, "*shape"]
    r"""$\eta\lambda$ at the end."""
    steps: Int[Array, ""]
    """Steps that the slowest network took."""

    @property
    def diverges(self) -> Bool[Array, "*shape"]:
        """Where training runs away."""
        return self.phase == Phase.DIVERGENT


@eqx.filter_jit
def _path(start: OnePointNetwork, eta: Array, steps: int) -> tuple[Array, Array]:
    def step(at: OnePointNetwork, _):
        after = at.step(eta)
        return after, (after.output, after.kernel)

    first = start.output, start.kernel
    _, rest = lax.scan(step, start, None, length=steps)
    outputs, kernels = (jnp.concatenate([a[None], b]) for a, b in zip(first, rest, strict=True))
    return outputs, kernels


@eqx.filter_jit
def _phases(start: OnePointNetwork, eta: Array, most_steps: int) -> CatapultPhases:
    first = jnp.abs(start.residual)

    def running(at: OnePointNetwork) -> Array:
        moving = (jnp.abs(at.residual) > _CONVERGED * first) | (eta * at.kernel > 2)
        return (eta * at.kernel < _ESCAPED) & moving & jnp.isfinite(at.output)

    def unfinished(state):
        t, at, _, _ = state
        return (t < most_steps) & jnp.any(running(at))

    def step(state):
        t, at, peak, grown = state
        # A network that has ended stays where it is, lest its numbers overflow.
        after = jax.tree.map(lambda new, old: jnp.where(running(at), new, old), at.step(eta), at)
        rises = jnp.abs(after.residual) > first * (1 + 1e-12)
        return t + 1, after, jnp.maximum(peak, jnp.abs(after.output)), grown | rises

    state = jnp.zeros((), int), start, jnp.abs(start.output), jnp.zeros(first.shape, bool)
    t, end, peak, grown = lax.while_loop(unfinished, step, state)
    escaped = ~(eta * end.kernel < _ESCAPED) | ~jnp.isfinite(end.output)
    phase = jnp.where(grown, Phase.CATAPULT, Phase.LAZY)
    phase = jnp.where(escaped, Phase.DIVERGENT, jnp.where(running(end), Phase.UNDECIDED, phase))
    return CatapultPhases(phase, peak, eta * end.kernel, t)


@eqx.filter_jit
def _boundary(start: OnePointNetwork, low: Array, high: Array) -> Array:
    def halve(ends, _):
        low, high = ends
        middle = (low + high) / 2
        diverges = _phases(start, middle / start.kernel, _STEPS).diverges
        return (jnp.where(diverges, low, middle), jnp.where(diverges, middle, high)), None

    shape = start.output.shape
    ends = jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape)
    low, high = lax.scan(halve, ends, None, length=_BISECTIONS)[0]
    return (low + high) / 2
