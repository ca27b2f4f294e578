r"""The kinds of sources that are sampled, each with the times that its projector weight is made of.

With $X=x^\tau$ at one time, or at a late and an early one, the weights are sums over time of products
over the modes of its legs; `spent` is $(1-x^\tau)/t$, what a mode has learnt after a time.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.prediction.finite_width.sampled.neuron_sources import (
    Legs,
    Rows,
    Source,
    first_change,
    kernel_fluctuation_a,
    kernel_fluctuation_b,
    second_change,
)
from finitewidth.prediction.finite_width.sampled.time_nodes import Times
from finitewidth.prediction.finite_width.training_modes import TrainingModes

Kind = Literal["A", "B", "a2", "b2", "a3", "b3", "c3", "d3"]

# How often each arrangement of the ddNTK enters with a weight.
BLOCKS: dict[str, dict[str, int]] = {
    "a3": {"I_D": 1},
    "b3": {"I_D": 1, "J_D": 1, "J_s": 1},
    "c3": {"I_D": 1, "I_a": 1, "J_D": 2},
    "d3": {"I_D": 1, "I_a": 1, "J_D": 1, "J_s": 1, "J_a": 1, "J_b": 1},
}
# Matrix products per sample, roughly: what a sample costs.
COST: dict[str, float] = {"A": 10, "B": 9, "a2": 30, "b2": 40, "a3": 16, "b3": 34, "c3": 34, "d3": 55}
_FLOW: tuple[Kind, ...] = ("A", "B", "b2", "d3")
_DESCENT: tuple[Kind, ...] = ("A", "B", "a2", "b2", "a3", "b3", "c3", "d3")
# Weights that need two times before the end of training.
NESTED = ("A", "B", "c3", "d3")
_GONE = -690.0


def kinds(modes: TrainingModes) -> tuple[Kind, ...]:
    """The kinds that an algorithm has: those of gradient flow are fewer."""
    return _FLOW if modes.algorithm.clock().continuous else _DESCENT


class Decay(eqx.Module):
    """The modes of a training problem as arrays for sampling; `end` is the last time, if there is one."""

    flow: bool = eqx.field(static=True)
    ended: bool = eqx.field(static=True)
    U: Float[Array, "train k"]
    t: Float[Array, " k"]
    log_size: Float[Array, " k"]
    sign: Float[Array, " k"]
    eta: Float[Array, ""]
    end: Float[Array, ""]
    Y: Float[Array, "1 out k"]
    root: Float[Array, "k k"]
    reach: Float[Array, "test k"]

    @classmethod
    def of(cls, modes: TrainingModes, dtype) -> "Decay":
        t, train, ended = modes.t, modes.train, modes.algorithm.converged
        ticking = modes.algorithm.clock()
        flow, eta, x = ticking.continuous, ticking.residual_step, ticking.factor(t)
        slow = np.log1p(-np.minimum(eta * t, 0.5))
        log_size = -t if flow else np.where(eta * t < 0.5, slow, np.log(np.maximum(np.abs(x), np.exp(_GONE))))
        values, vectors = np.linalg.eigh(modes.K[:train, :train])
        root = modes.U.T @ (vectors * np.sqrt(np.maximum(values, 0)))
        array = lambda a: jnp.asarray(a, dtype)
        return cls(
            flow,
            ended,
            array(modes.U),
            array(t),
            array(log_size),
            array(np.ones_like(t) if flow else np.where(x < -1e-12, -1.0, 1.0)),
            array(eta),
            array(0.0 if ended else ticking.end),
            array(modes.Y.T[None]),
            array(root),
            array(modes.Theta_modes[train:]),
        )

    def power(self, time: Rows, odd: Rows) -> Rows:
        """What is left of every mode after a time."""
        return jnp.exp(time * self.log_size) * jnp.where(odd > 0.5, self.sign, 1.0)

    def spent(self, time: Rows, odd: Rows) -> Rows:
        """What has been learnt of every mode, per unit of kernel."""
        exponent = time * self.log_size
        flipped = (odd > 0.5) & (self.sign < 0)
        learnt = jnp.where(flipped, 1 + jnp.exp(exponent), -jnp.expm1(exponent))
        rate = 1.0 if self.flow else self.eta
        return jnp.where(self.t > 0, learnt / jnp.where(self.t > 0, self.t, 1.0), time * rate)

    def pair(self, kind: Kind, late: Rows, odd: Rows) -> tuple[Rows, Rows]:
        """Factors of the two legs of the dNTK."""
        X = self.power(late, odd)
        if kind == "a2":
            return self.eta**2 / 2 * X, X
        if self.ended:
            return (X / self.t if self.flow else self.eta * X * self._x / self.t), X
        return (1.0 if self.flow else self.eta) * X, self.spent(late, odd)

    def triple(self, kind: Kind, late: Rows, early: Rows, odd: Rows, early_odd: Rows):
        """Factors of the three legs of the ddNTK."""
        X, eta = self.power(late, odd), self.eta
        if kind == "a3":
            return -(eta**3) / 6 * X, X, X
        if self.ended and self.flow:
            return -X / self.t, X, self.spent(late, odd)
        if self.ended:
            x, G = self._x, self.spent(late + 1, 1 - odd)
            if kind == "b3":
                return -(eta**2) / 2 * X * x, X * x, G
            if kind == "c3":
                return -(eta**2) / 2 * X * x / self.t, X, X
            return -eta * X * x**2 / self.t, X * x, G
        if kind == "b3":
            return -(eta**2) / 2 * X, X, self.spent(late, odd)
        before = self.power(early, early_odd)
        if kind == "c3":
            return -(eta**3) / 2 * X, before, before
        return -((1.0 if self.flow else eta) ** 2) * X, before, self.spent(early, early_odd)

    @property
    def _x(self) -> Float[Array, " k"]:
        return self.sign * jnp.exp(self.log_size)


def contribution(
    kind: Kind, source: Source, decay: Decay, key: PRNGKeyArray, times: Times
) -> Float[Array, "rows out test"]:
    """One sample per time: its contribution to the trained outputs at the test points."""
    column = lambda a: a[:, None, None]
    late, early, odd, early_odd = (column(a) for a in times[:4])
    rows, outputs = len(times.late), decay.Y.shape[1]
    neuron_key, probe_key, start_key, mix_key = jax.random.split(key, 4)
    neuron = source.neuron(neuron_key, rows)
    if kind in ("A", "B"):
        between, alpha = fluctuation_legs(decay, decay.Y, late, early, early_odd)
        if kind == "A":
            value = kernel_fluctuation_a(neuron, between, alpha)
        else:
            value = kernel_fluctuation_b(neuron, probe_key, between, alpha, outputs)
    elif kind in ("a2", "b2"):
        legs = decay.pair(kind, late, odd)
        value = first_change(neuron, probe_key, decay.U, legs, decay.Y, outputs, moved=kind == "b2")
    else:
        residual, mixed = _residuals(decay, start_key, mix_key, rows)
        legs = []
        for factor in decay.triple(kind, late, early, odd, early_odd):
            own = (factor * residual) @ decay.U.T
            legs.append(Legs(own, own if mixed is None else (factor * mixed) @ decay.U.T))
        value = second_change(neuron, probe_key, *legs, blocks=BLOCKS[kind])
    return column(times.weight) * delivered(decay, value, late, odd)


def fluctuation_legs(decay: Decay, labels: Rows, late: Rows, early: Rows, early_odd: Rows):
    """What lies between two fluctuations, and what the first acts on; `labels` in the eigenbasis."""
    if decay.ended:
        inverse = lambda v: ((v @ decay.U) / decay.t) @ decay.U.T
        return inverse, (labels / decay.t) @ decay.U.T
    # No step lies between the two where there is no earlier one; such samples have no weight.
    waited = jnp.maximum(late - early if decay.flow else late - early - 1, 0.0)
    rate = 1.0 if decay.flow else decay.eta**2
    factor = rate * decay.power(waited, jnp.mod(waited, 2))
    between = lambda v: (factor * (v @ decay.U)) @ decay.U.T
    return between, (decay.power(early, early_odd) * labels) @ decay.U.T


def _residuals(decay: Decay, start_key: PRNGKeyArray, mix_key: PRNGKeyArray, rows: int):
    """Initial residuals in the eigenbasis; random signs have the second moments of initial outputs."""
    outputs, size = decay.Y.shape[1:]
    signs = jax.random.rademacher(start_key, (rows, outputs, size), decay.root.dtype)
    residual = signs @ decay.root.T - decay.Y
    if outputs == 1:
        return residual, None
    mix = jax.random.rademacher(mix_key, (rows, outputs, 1), residual.dtype)
    return residual, jnp.sum(mix * residual, axis=1, keepdims=True)


def delivered(decay: Decay, value: Rows, late: Rows, odd: Rows) -> Float[Array, "rows out test"]:
    """Sources on the training set are unlearnt by the rest of training."""
    train = len(decay.U)
    on_modes = value[..., :train] @ decay.U
    if decay.ended:
        left = on_modes / decay.t
    else:
        rest = decay.end - late if decay.flow else decay.end - 1 - late
        left = decay.spent(rest, jnp.mod(rest, 2)) * on_modes
    return value[..., train:] - left @ decay.reach.T
