"""The coefficient for many training points: residuals at the start, neurons and their windows are sampled.

One neuron serves all windows: conditioned on sitting at a kink at point q it is the same neuron shifted along
the covariance with q. Both signs of the start, of the neuron and of its output weight are taken together.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.expectations.kinked.cones import thin_root
from finitewidth.expectations.kinked.kinks import Kink, value_and_slope
from finitewidth.prediction.law.methods import Progress
from finitewidth.prediction.methods.kinks.particles import Intervals, followed
from finitewidth.prediction.methods.kinks.quadrature import Coefficient, start_and_rest
from finitewidth.prediction.methods.kinks.schedule import schedule
from finitewidth.prediction.methods.kinks.setting import Setting

_SINGLE_STEPS = 24
_GROWTH = 0.15
_LEFT = 1e-6
_STRATA = 4
# Samples between two looks at the error, and windows of samples that are moved together.
_BATCH = 64
_WINDOWS_AT_ONCE = 512


class _Windows(eqx.Module):
    """All that one sample needs, as arrays; windows are the different training points."""

    y: Float[Array, "train out"]
    start: Float[Array, "train rank"]  # root of the covariance of the outputs at the start
    rest: Float[Array, "test rank"]  # covariance of what is left of a test output with the root's components
    U: Float[Array, "train k"]
    impulse: Float[Array, "intervals k"]
    answer: Float[Array, "nodes k"]
    intervals: Intervals
    neuron: Float[Array, "points rank1"]  # root of the first layer's covariance
    pull: Float[Array, "points windows"]  # covariance with the window's preactivation, over its variance
    Theta1: Float[Array, "points windows"]
    Theta_modes: Float[Array, "test k"]
    density: Float[Array, "kinks windows"]
    point_of: Int[Array, " train"]
    twin: Int[Array, " test"]
    cube: Array
    kinks: tuple[Kink, ...] = eqx.field(static=True)
    function: Callable[[Array], Array] = eqx.field(static=True)
    every_node: bool = eqx.field(static=True)

    def sample(self, key: PRNGKeyArray) -> tuple[Float[Array, "test out"], Float[Array, "test test"]]:
        """One sample of c, and of the product of the start with c."""
        start_key, neuron_key, *kink_keys = jax.random.split(key, 2 + len(self.kinks))
        out = self.y.shape[1]
        u = jax.random.normal(start_key, (self.start.shape[1] + 1, out), self.y.dtype)
        # Only the component of the residuals along the output weights a of a neuron moves it.
        direction = u[-1] / jnp.linalg.norm(u[-1]) if out > 1 else jnp.ones_like(u[-1])
        z0 = self.start @ u[:-1]
        e = jnp.stack([z0 - self.y, -z0 - self.y]) @ direction
        modes = self.impulse[:, None, :] * (e @ self.U)
        windows = self.pull.shape[1]
        pushed = jnp.zeros((*modes.shape[:2], windows), e.dtype).at[..., self.point_of].add(modes @ self.U.T)
        z = self.neuron @ jax.random.normal(neuron_key, (self.neuron.shape[1],), e.dtype)
        shifts = [
            self._window(kink, i, sign * z, pushed, kink_keys[i])
            for i, kink in enumerate(self.kinks)
            for sign in (1, -1)
        ]
        c = self._delivered(*(jnp.stack(parts).sum(axis=0) / 2 for parts in zip(*shifts, strict=True)))
        ahead = self.rest @ (u[:-1] @ direction)
        mean = jnp.outer(c.mean(axis=0), direction)
        return mean, jnp.outer(ahead, (c[0] - c[1]) / 2) / out

    def _window(self, kink: Kink, i: int, z: Array, pushed: Array, key: PRNGKeyArray):
        """What one kink adds at the windows, (nodes, 2, windows), and at the test points, (2, test)."""
        windows = self.pull.shape[1]
        at = jnp.arange(windows)
        shifted = z[:, None] - self.pull * (z[:windows] - kink.at)
        slope = value_and_slope(self.function, shifted)[1].at[at, at].set(0)
        moving = slope * self.Theta1
        own = jnp.diagonal(self.Theta1) * pushed
        others = pushed @ moving[:windows]
        # Axes: intervals, sign of a, sign of the start, windows.
        left, right = (-(others + side * own) for side in (kink.left, kink.right))
        left, right = (jnp.stack([v, -v], axis=1) for v in (left, right))
        V = self._displacements(jnp.stack([left, right], axis=1))
        length = jnp.stack([jnp.maximum(V[:, 0].max(axis=0), 0), jnp.maximum(-V[:, 1].min(axis=0), 0)])
        uniform = jax.random.uniform(key, (2, _STRATA, *length.shape[1:]), length.dtype)
        share = (jnp.arange(_STRATA, dtype=length.dtype)[:, None, None, None] + uniform) / _STRATA
        starts = share * length[:, None] * jnp.array([-1, 1], length.dtype)[:, None, None, None, None]
        A, B = followed(starts, left, right, (kink.left, kink.right), self.intervals, self.every_node)
        A, B = ((v * length).sum(axis=1) for v in (A, B))
        size = self.cube * self.density[i]
        A, B = (size * (v[:, 0] - v[:, 1]) for v in (A, B))
        near = moving / jnp.diagonal(self.Theta1)
        return B + A @ near[:windows].T, A[-1] @ near[windows:].T

    def _displacements(self, moves: Float[Array, "intervals 2 *rest"]) -> Array:
        def advance(V, interval):
            move, decay = interval
            V = decay * V + move
            return V, V

        return lax.scan(advance, jnp.zeros_like(moves[0]), (moves, self.intervals.decay))[1]

    def _delivered(
        self, on_train: Float[Array, "nodes 2 windows"], on_test: Float[Array, "2 test"]
    ) -> Float[Array, "2 test"]:
        on_modes = on_train[..., self.point_of] @ self.U
        answered = jnp.einsum("nk,nsk->sk", self.answer, on_modes)
        shifted = jnp.where(self.twin >= 0, on_train[-1][:, self.twin], on_test)
        return shifted - answered @ self.Theta_modes.T


@eqx.filter_jit
def _batch(windows: _Windows, keys: Key[Array, " samples"], at_once: int) -> tuple[Array, ...]:
    """Sums and sums of squares over samples."""
    mean, product = lax.map(windows.sample, keys, batch_size=at_once)
    both = product + product.transpose(0, 2, 1)
    wide = lambda a: a.astype(jnp.float64)
    return tuple(f(wide(a)).sum(axis=0) for a in (mean, both) for f in (lambda a: a, jnp.square))


def sampled_coefficient(
    setting: Setting,
    algorithm: SpectralAlgorithm,
    ridge: float,
    M: Float[np.ndarray, "test train"],
    *,
    relative_error: float,
    most_samples: int,
    key: PRNGKeyArray,
    progress: Progress | None = None,
) -> Coefficient:
    """Sample until the error of the mean is small enough, relative to it, both as root mean squares."""
    windows = _windows(setting, algorithm, ridge, M)
    at_once = max(1, min(_BATCH, _WINDOWS_AT_ONCE // setting.windows))
    sums, count = None, 0
    while True:
        keys = jax.random.split(jax.random.fold_in(key, count), _BATCH)
        found = [np.asarray(part) for part in _batch(windows, keys, at_once)]
        sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
        count += _BATCH
        mean, mean_error = _with_error(sums[0], sums[1], count)
        error = float(np.sqrt(np.mean(mean_error**2) / max(np.mean(mean**2), 1e-300)))
        if progress is not None:
            progress(min(1.0, max(count / most_samples, (relative_error / max(error, 1e-300)) ** 2)), error)
        if error <= relative_error or count >= most_samples:
            covariance, covariance_error = _with_error(sums[2], sums[3], count)
            return Coefficient(mean, covariance, mean_error, covariance_error, count)


def _with_error(total: np.ndarray, squares: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    mean = total / count
    return mean, np.sqrt(np.maximum(squares / count - mean**2, 0) / (count - 1))


def _windows(
    setting: Setting, algorithm: SpectralAlgorithm, ridge: float, M: Float[np.ndarray, "test train"]
) -> _Windows:
    train, K, Theta = len(setting.y), setting.outputs.K, setting.outputs.Theta
    cut = schedule(
        Theta[:train, :train], algorithm, ridge, single_steps=_SINGLE_STEPS, growth=_GROWTH, left=_LEFT
    )
    L = thin_root(K[:train, :train])
    windows, out = setting.windows, setting.y.shape[1]
    variances = np.diag(setting.K1)[:windows]
    kinks = setting.slope.kinks
    # E|a|^3 / 2 for a with so many independent components.
    cube = (2 * setting.C_W) ** 1.5 * math.gamma((out + 3) / 2) / math.gamma(out / 2) / 2
    single = lambda a: jnp.asarray(a, jnp.float32)
    return _Windows(
        y=single(setting.y),
        start=single(L),
        rest=single(start_and_rest(setting, M) @ np.linalg.pinv(L).T),
        U=single(cut.U),
        impulse=single(cut.impulse),
        answer=single(cut.answer),
        intervals=Intervals(single(cut.decay), jnp.asarray(cut.step), single(cut.share)),
        neuron=single(thin_root(setting.K1)),
        pull=single(setting.K1[:, :windows] / variances),
        Theta1=single(setting.Theta1[:, :windows]),
        Theta_modes=single(Theta[train:, :train] @ cut.U),
        density=single([[setting.density(q, kink) for q in range(windows)] for kink in kinks]),
        point_of=jnp.asarray(setting.point_of),
        twin=jnp.asarray(setting.twin),
        cube=single(cube),
        kinks=kinks,
        function=setting.slope.function,
        every_node=cut.every_node,
    )
