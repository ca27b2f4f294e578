r"""The kinds of sampled contributions: to the trained mean, and to the covariance of trained outputs.

Trained outputs are $u+c/\sqrt n+\dots$, $u=\bar z(0)$ with $\bar z$ what training leaves of a function, and
the coefficient of 1/n in their covariance is $M+M^T$ plus parts that need no sampling. M has three groups of
kinds: half the square of the response to kernel fluctuations, the correlation of u with the fluctuations of
the kernel that learns it, and the correlation of u with each source of the mean. There u is correlated with
one residual of the source, all others stay as they are: u and the direction in which that residual moves are
drawn together, as random vectors whose mean product is $E[u\,z(0)]$.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.prediction.methods.first_order.sampled.contractions import (
    CrossedNeurons,
    Probes,
    Product,
    correlated_kernel,
    first_change,
    first_change_of_start,
)
from finitewidth.prediction.methods.first_order.sampled.decay import Decay, TrainingTimes
from finitewidth.prediction.methods.first_order.sampled.neuron import Neuron, Rows, Signs
from finitewidth.prediction.methods.first_order.sampled.time_nodes import Times, TimeStrata
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes


class InitialOutputs(eqx.Module):
    """Random initial outputs, and what training leaves of them at the test points.

    `bar` is what training leaves of a function at all points. `left` and `residual` times the same signs have
    the mean product of what is left of initial outputs with what was there.
    """

    bar: Float[Array, "test p"]
    left: Float[Array, "test s"]
    residual: Float[Array, "k s"]

    @classmethod
    def of(cls, modes: TrainingModes, dtype) -> "InitialOutputs":
        gain, bar = modes.gain, modes.unlearnt
        # Residuals count as much as training learns from them; without training there is nothing to compare.
        gain = gain if gain.all() else np.ones_like(gain)
        product = bar @ modes.K[:, : modes.train] @ modes.U
        left, sizes, right = np.linalg.svd(product * gain, full_matrices=False)
        sides = left * np.sqrt(sizes), right.T * np.sqrt(sizes) / gain[:, None]
        return cls(*(jnp.asarray(a, dtype) for a in (bar, *sides)))

    def correlated(self, signs: Signs, outputs: int) -> tuple[Rows, Rows]:
        """What is left of the start, and the residuals that go with it."""
        drawn = signs(outputs, self.left.shape[1])
        return drawn @ self.left.T, drawn @ self.residual.T


class Training(NamedTuple):
    """What all samples share: the decay of residuals and what is left of the start."""

    decay: Decay
    start: InitialOutputs

    @property
    def signs(self) -> int:
        """The most signs that the residuals of one sample need."""
        outputs, modes = self.decay.outputs, len(self.decay.t)
        return outputs * (modes + self.start.left.shape[1] + 1)

    def residual(self, signs: Signs) -> Rows:
        """Initial residuals in the eigenbasis; random signs have the second moments of initial outputs."""
        return signs(self.decay.outputs, len(self.decay.t)) @ self.decay.root.T - self.decay.labels


class Kind(eqx.Module):
    """One kind of contribution; `cost` is the number of matrix products per sample, roughly."""

    cost: ClassVar[float]

    @abstractmethod
    def times(self, training: TrainingTimes) -> TimeStrata:
        """Of which times its samples are."""

    @abstractmethod
    def sample(
        self, neuron: Neuron, training: Training, signs: Signs, times: Times
    ) -> Array | tuple[Array, Array]:
        """One sample for every time: outputs at the test points, or the two sides of a product."""


class MeanKind(Kind):
    """A kind of source of the mean; `origin` is its place among the origins of the correction."""

    origin: ClassVar[int]

    @abstractmethod
    def source(self, neuron: Neuron, training: Training, signs: Signs, times: Times) -> Rows:
        """One sample of the source for every time, at all points."""

    def sample(
        self, neuron: Neuron, training: Training, signs: Signs, times: Times
    ) -> Float[Array, "rows out test"]:
        """Its contribution to the trained outputs at the test points."""
        return times.weight * training.decay.delivered(self.source(neuron, training, signs, times), times)


class KernelVariance(MeanKind):
    """Both fluctuations of the NTK come from the mean square of one neuron: A."""

    cost = 10
    origin = 1

    def times(self, training):
        return training.fluctuations

    def source(self, neuron, training, signs, times):
        return self.of_labels(neuron, training.decay, signs, times, training.decay.labels)

    def of_labels(self, neuron: Neuron, decay: Decay, signs: Signs, times: Times, labels: Rows) -> Rows:
        between, alpha = decay.fluctuation(labels, times)
        return -neuron.dtheta(between(neuron.cut(neuron.dtheta(alpha))))


class KernelCross(KernelVariance):
    """Fluctuations whose neurons are crossed: B, in both of its arrangements."""

    cost = 9

    def of_labels(self, neuron: Neuron, decay: Decay, signs: Signs, times: Times, labels: Rows) -> Rows:
        between, alpha = decay.fluctuation(labels, times)
        h = CrossedNeurons.of(neuron, signs)
        return -h.onto(between(neuron.cut(h.onto(alpha) + decay.outputs * h.back(alpha))))


class FirstChange(MeanKind):
    """The first change of the NTK in training: the dNTK."""

    cost = 40
    origin = 2

    def times(self, training):
        return training.first

    def source(self, neuron, training, signs, times):
        decay, probes = training.decay, Probes.of(neuron, signs)
        weights = decay.first_weights(times)
        return first_change(neuron, probes, decay.U, weights, decay.labels, decay.outputs)


class SecondChange(MeanKind):
    """The second change of the NTK in training: the ddNTK."""

    cost = 55
    origin = 3

    def times(self, training):
        return training.second

    def source(self, neuron, training, signs, times):
        residual = training.residual(signs)
        return self.of_residual(neuron, training.decay, signs, times, residual)

    def of_residual(self, neuron: Neuron, decay: Decay, signs: Signs, times: Times, residual: Rows) -> Rows:
        mixed = residual
        if decay.outputs > 1:
            mixed = jnp.sum(signs(decay.outputs, 1) * residual, axis=1, keepdims=True)
        return decay.second_change(neuron, signs, times, residual, mixed)


MEAN_KINDS: tuple[MeanKind, ...] = (KernelVariance(), KernelCross(), FirstChange(), SecondChange())


class CovarianceKind(Kind):
    """A kind of contribution to M."""

    @abstractmethod
    def products(self, neuron: Neuron, training: Training, signs: Signs, times: Times) -> list[Product]:
        """One sample of M for every time: functions of the test points times delivered sources."""

    def sample(
        self, neuron: Neuron, training: Training, signs: Signs, times: Times
    ) -> tuple[Float[Array, "rows terms test"], Float[Array, "rows terms test"]]:
        """Both sides of all products."""
        left, right = zip(*self.products(neuron, training, signs, times), strict=True)
        return jnp.concatenate(left, axis=1), times.weight * jnp.concatenate(right, axis=1)


class SquaredVariance(CovarianceKind):
    """Half the square of the response to kernel fluctuations from the mean square of one neuron: A."""

    cost = 12

    def times(self, training):
        return training.squares

    def products(self, neuron, training, signs, times):
        decay = training.decay
        early, late = times._replace(late=times.early, late_odd=times.early_odd), times
        residual = training.residual(signs)
        first, second = ((decay.learning(t.late, t.late_odd) * residual) @ decay.U.T for t in (early, late))
        left, right = self.responses(neuron, signs, first, second, decay.outputs)
        return [Product(decay.delivered(left, early) / (2 * decay.outputs), decay.delivered(right, late))]

    def responses(self, neuron: Neuron, signs: Signs, first: Rows, second: Rows, outputs: int) -> Product:
        return Product(neuron.dtheta(first), neuron.dtheta(second))


class SquaredCross(SquaredVariance):
    """The same with crossed neurons, in both arrangements: B."""

    cost = 10

    def responses(self, neuron: Neuron, signs: Signs, first: Rows, second: Rows, outputs: int) -> Product:
        h = CrossedNeurons.of(neuron, signs)
        return Product(h.onto(first), outputs * h.onto(second) + h.back(second))


class StartWithKernel(CovarianceKind):
    """The start correlated with fluctuations of the kernel that learns it: D and F."""

    cost = 14

    def times(self, training):
        return training.learning

    def products(self, neuron, training, signs, times):
        decay, bar = training.decay, training.start.bar
        weight = decay.learning(times.late, times.late_odd)
        sides = jnp.sqrt(jnp.abs(weight)) * signs(1, len(decay.t))
        first, second = sides @ decay.U.T, (jnp.sign(weight) * sides) @ decay.U.T
        pairs = correlated_kernel(neuron, signs, first, second, decay.outputs)
        return [Product(left @ bar.T, decay.delivered(right, times)) for left, right in pairs]


class StartWithFluctuations(CovarianceKind):
    """The start correlated with the residual that two kernel fluctuations act on: A or B."""

    kind: KernelVariance
    cost = 12

    def times(self, training):
        return self.kind.times(training)

    def products(self, neuron, training, signs, times):
        u, direction = training.start.correlated(signs, 1)
        value = self.kind.of_labels(neuron, training.decay, signs, times, -direction)
        return [Product(u, training.decay.delivered(value, times))]


class StartWithFirstChange(CovarianceKind):
    """The start correlated with a residual of the dNTK, or with the initial outputs on its leg."""

    cost = 62

    def times(self, training):
        return training.first

    def products(self, neuron, training, signs, times):
        decay, outputs, bar = training.decay, training.decay.outputs, training.start.bar
        probes, weights = Probes.of(neuron, signs), decay.first_weights(times)
        u, direction = training.start.correlated(signs, 1)
        value = first_change(neuron, probes, decay.U, weights, -direction, outputs)
        terms = [Product(u, decay.delivered(value, times))]
        residual = training.residual(signs)
        legs = (weights.a * residual) @ decay.U.T, (weights.b * residual) @ decay.U.T
        for left, right in first_change_of_start(neuron, probes, weights, legs, outputs):
            mean = jnp.mean(right, axis=1, keepdims=True)
            terms.append(Product(left @ bar.T, decay.delivered(mean, times)))
        return terms


class StartWithSecondChange(CovarianceKind):
    """The start correlated with one of the three residuals of the ddNTK."""

    cost = 110

    def times(self, training):
        return training.second

    def products(self, neuron, training, signs, times):
        decay, outputs = training.decay, training.decay.outputs
        residual = training.residual(signs)
        u, direction = training.start.correlated(signs, outputs)
        change = lambda residual: SecondChange().of_residual(neuron, decay, signs, times, residual)
        _, slope = jax.jvp(change, (residual,), (direction,))
        return [Product(u / outputs, decay.delivered(slope, times))]


COVARIANCE_KINDS: tuple[CovarianceKind, ...] = (
    SquaredVariance(),
    SquaredCross(),
    StartWithKernel(),
    StartWithFluctuations(KernelVariance()),
    StartWithFluctuations(KernelCross()),
    StartWithFirstChange(),
    StartWithSecondChange(),
)
