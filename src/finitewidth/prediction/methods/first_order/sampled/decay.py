r"""How training spends residuals, as arrays for sampling, and the times at which it is sampled.

With $X=x^\tau$ at one time, or at a late and an early one, the projector weights are sums over time of
products over the modes of their legs; `spent` is $(1-x^\tau)/t$, what a mode has learnt after a time. A
ridge at the end of training leaves no time to sum over.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.prediction.methods.first_order.projector_weights import FIRST_CHANGE, SECOND_CHANGE
from finitewidth.prediction.methods.first_order.sampled.contractions import (
    FirstWeights,
    Legs,
    SecondWeights,
    second_change,
    second_change_of_equal_legs,
)
from finitewidth.prediction.methods.first_order.sampled.neuron import Neuron, Rows, Signs
from finitewidth.prediction.methods.first_order.sampled.time_nodes import Times, TimeStrata
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes

_GONE = -690.0


class Powers(eqx.Module):
    """What is left of every mode after a time, and what has been learnt; x may be negative in descent."""

    flow: bool = eqx.field(static=True)
    t: Float[Array, " k"]
    eta: Float[Array, ""]
    log_size: Float[Array, " k"]
    sign: Float[Array, " k"]

    @classmethod
    def of(cls, modes: TrainingModes, dtype) -> "Powers":
        t, clock = modes.t, modes.algorithm.clock()
        flow, eta, x = clock.continuous, clock.residual_step, clock.factor(t)
        slow = np.log1p(-np.minimum(eta * t, 0.5))
        log_size = -t if flow else np.where(eta * t < 0.5, slow, np.log(np.maximum(np.abs(x), np.exp(_GONE))))
        sign = np.ones_like(t) if flow else np.where(x < -1e-12, -1.0, 1.0)
        return cls(flow, *(jnp.asarray(a, dtype) for a in (t, clock.rate, log_size, sign)))

    def left(self, time: Rows, odd: Rows) -> Rows:
        """X: what is left of every mode after a time."""
        return jnp.exp(time * self.log_size) * jnp.where(odd > 0.5, self.sign, 1.0)

    def spent(self, time: Rows, odd: Rows) -> Rows:
        """What has been learnt of every mode, per unit of kernel."""
        exponent = time * self.log_size
        flipped = (odd > 0.5) & (self.sign < 0)
        learnt = jnp.where(flipped, 1 + jnp.exp(exponent), -jnp.expm1(exponent))
        return jnp.where(self.t > 0, learnt / jnp.where(self.t > 0, self.t, 1.0), time * self.eta)

    @property
    def x(self) -> Float[Array, " k"]:
        """What one step leaves."""
        return self.sign * jnp.exp(self.log_size)


class Decay(eqx.Module):
    """The modes of a training problem, and the factors with which their residuals enter a source.

    `labels` are the targets in the eigenbasis, `root` times random signs has the second moments of initial
    outputs there, and `reach` is the NTK between test points and modes. The step of a flow counts as one.
    """

    U: Float[Array, "train k"]
    t: Float[Array, " k"]
    labels: Float[Array, "1 out k"]
    root: Float[Array, "k k"]
    reach: Float[Array, "test k"]

    @property
    def outputs(self) -> int:
        return self.labels.shape[1]

    @abstractmethod
    def fluctuation(self, labels: Rows, times: Times) -> tuple[Callable[[Rows], Rows], Rows]:
        """The propagator between two kernel fluctuations, and the vector that the first one acts on."""

    @abstractmethod
    def learning(self, time: Rows, odd: Rows) -> Rows:
        """What one step, or unit of time, learns of the initial residual; all of training at its end."""

    @abstractmethod
    def first_weights(self, times: Times) -> FirstWeights:
        """The sampled term of the weights of the dNTK."""

    @abstractmethod
    def second_change(self, neuron: Neuron, signs: Signs, times: Times, residual: Rows, mixed: Rows) -> Rows:
        """The ddNTK of initial residuals in the eigenbasis; `mixed` is their sum over outputs with signs."""

    @abstractmethod
    def unlearnt(self, on_modes: Rows, times: Times) -> Rows:
        """What the rest of training spends on a source on the training set."""

    @abstractmethod
    def kept(self, times: Times) -> Rows | float:
        """What the rest of training leaves of a source itself."""

    def delivered(self, value: Rows, times: Times) -> Float[Array, "rows out test"]:
        """What a source makes of the trained outputs: on the training set it is unlearnt."""
        train = len(self.U)
        direct = self.kept(times) * value[..., train:]
        return direct - self.unlearnt(value[..., :train] @ self.U, times) @ self.reach.T

    def legs(self, factor: Rows, residual: Rows, mixed: Rows) -> Legs:
        own = (factor * residual) @ self.U.T
        return Legs(own, own if mixed is residual else (factor * mixed) @ self.U.T)


class Ended(Decay):
    """The end of training: every residual has been spent."""

    def fluctuation(self, labels, times):
        inverse = lambda v: ((v @ self.U) / self.t) @ self.U.T
        return inverse, (labels / self.t) @ self.U.T

    def learning(self, time, odd):
        return jnp.broadcast_to(1 / self.t, (*time.shape[:2], len(self.t)))

    def kept(self, times):
        return 1.0

    def unlearnt(self, on_modes, times):
        return on_modes / self.t


class HeldToTheStart(Ended):
    """The end of training with a ridge, which t contains: all weights are products of 1/t, without times."""

    def first_weights(self, times):
        return FirstWeights(0.5, 1.0, 1 / self.t, 1 / self.t)

    def second_change(self, neuron, signs, times, residual, mixed):
        return -second_change_of_equal_legs(neuron, signs, self.legs(1 / self.t[None, None], residual, mixed))


class ByTimes(Decay):
    """Weights that are sums over time: a sample is one term of one of them.

    `first_enters` and `second_enters` say how often each arrangement enters with each sum.
    """

    first_enters: ClassVar[dict[str, tuple[float, ...]]] = {**FIRST_CHANGE}
    second_enters: ClassVar[dict[str, tuple[float, ...]]] = {**SECOND_CHANGE}
    powers: Powers

    @abstractmethod
    def pair(self, times: Times) -> dict[str, tuple[Rows, Rows]]:
        """Factors of the two legs of the dNTK, by weight."""

    @abstractmethod
    def triple(self, times: Times) -> dict[str, tuple[Rows, Rows, Rows]]:
        """Factors of the three legs of the ddNTK, by weight."""

    def first_weights(self, times):
        pair = self.pair(times)
        enter = _chosen(times.part, [self.first_enters[name] for name in pair])
        return FirstWeights(*enter, *_chosen(times.part, list(pair.values())))

    def second_change(self, neuron, signs, times, residual, mixed):
        triple = self.triple(times)
        enter = _chosen(times.part, [self.second_enters[name] for name in triple])
        factors = _chosen(times.part, list(triple.values()))
        a, b, g = (self.legs(factor, residual, mixed) for factor in factors)
        return second_change(neuron, signs, SecondWeights(*enter), (a, b, g))


class EndOfFlow(ByTimes, Ended):
    """Gradient flow until nothing is left."""

    def pair(self, times):
        X = self.powers.left(times.late, times.late_odd)
        return {"b2": (X / self.t, X)}

    def triple(self, times):
        X = self.powers.left(times.late, times.late_odd)
        return {"d3": (-X / self.t, X, self.powers.spent(times.late, times.late_odd))}


class EndOfDescent(ByTimes, Ended):
    """Gradient descent until nothing is left."""

    def pair(self, times):
        X, eta = self.powers.left(times.late, times.late_odd), self.powers.eta
        return {"a2": (eta**2 / 2 * X, X), "b2": (eta * X * self.powers.x / self.t, X)}

    def triple(self, times):
        X, x, eta = self.powers.left(times.late, times.late_odd), self.powers.x, self.powers.eta
        spent = self.powers.spent(times.late + 1, 1 - times.late_odd)
        return {
            "a3": (-(eta**3) / 6 * X, X, X),
            "b3": (-(eta**2) / 2 * X * x, X * x, spent),
            "c3": (-(eta**2) / 2 * X * x / self.t, X, X),
            "d3": (-eta * X * x**2 / self.t, X * x, spent),
        }


class Stopped(ByTimes):
    """Training that stops at `end`; where two times are needed, the earlier one comes first."""

    end: Float[Array, ""]

    def fluctuation(self, labels, times):
        # No step lies between the two where there is no earlier one; such samples have no weight.
        waited = times.late - times.early
        waited = jnp.maximum(waited if self.powers.flow else waited - 1, 0.0)
        factor = self.powers.eta**2 * self.powers.left(waited, jnp.mod(waited, 2))
        between = lambda v: (factor * (v @ self.U)) @ self.U.T
        return between, (self.powers.left(times.early, times.early_odd) * labels) @ self.U.T

    def learning(self, time, odd):
        return self.powers.eta * self.powers.left(time, odd)

    def rest(self, times: Times) -> Rows:
        """Steps, or time, that are left after a source has been made."""
        return self.end - times.late if self.powers.flow else self.end - 1 - times.late


class StoppedFree(Stopped):
    """Training that stops, without a ridge."""

    def kept(self, times):
        return 1.0

    def unlearnt(self, on_modes, times):
        rest = self.rest(times)
        return self.powers.spent(rest, jnp.mod(rest, 2)) * on_modes

    def pair(self, times):
        X, eta = self.powers.left(times.late, times.late_odd), self.powers.eta
        moved = {"b2": (eta * X, self.powers.spent(times.late, times.late_odd))}
        return moved if self.powers.flow else {"a2": (eta**2 / 2 * X, X)} | moved

    def triple(self, times):
        X, eta = self.powers.left(times.late, times.late_odd), self.powers.eta
        before = self.powers.left(times.early, times.early_odd)
        last = {"d3": (-(eta**2) * X, before, self.powers.spent(times.early, times.early_odd))}
        if self.powers.flow:
            return last
        return {
            "a3": (-(eta**3) / 6 * X, X, X),
            "b3": (-(eta**2) / 2 * X, X, self.powers.spent(times.late, times.late_odd)),
            "c3": (-(eta**3) / 2 * X, before, before),
        } | last


def _chosen(part: Rows, options: list[tuple]) -> tuple:
    """For every sample the option that it is a sample of."""
    if len(options) == 1:
        return options[0]
    one = [jnp.where(part == i, 1.0, 0.0).astype(part.dtype) for i in range(len(options))]
    return tuple(
        sum(o * value for o, value in zip(one, values, strict=True)) for values in zip(*options, strict=True)
    )


class TrainingTimes(NamedTuple):
    """Times of every kind: of one fluctuation, of two in turn, of two apart, and of the changes."""

    learning: TimeStrata
    fluctuations: TimeStrata
    squares: TimeStrata
    first: TimeStrata
    second: TimeStrata
