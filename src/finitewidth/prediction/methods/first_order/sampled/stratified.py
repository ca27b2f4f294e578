r"""Sampling by strata: a pilot, then samples where they reduce the error most for their cost.

Strata are (kind, hidden layer). Within one, a sample's training time is drawn with the probabilities that
make the result scatter least, as far as earlier samples tell, and samples are weighted accordingly.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.prediction.law.methods import Progress
from finitewidth.prediction.methods.first_order.sampled.decay import TrainingTimes
from finitewidth.prediction.methods.first_order.sampled.kinds import InitialOutputs, Kind, Training
from finitewidth.prediction.methods.first_order.sampled.neuron import (
    Drawn,
    Neuron,
    Signs,
    Source,
    drawn,
    layer_sources,
)
from finitewidth.prediction.methods.first_order.sampled.time_nodes import Times, TimeStrata
from finitewidth.prediction.methods.first_order.sampled.training_course import training_course
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.hidden_layers import LayerKernels
from finitewidth.statistics.first_order.mean_shifts import MeanShifts, mean_shifts

_PILOT = 256
_PILOT_PER_TIME = 8
_GROWTH = 6.0
# Share of the samples whose times are drawn without regard to earlier ones, which may mislead.
_UNIFORM = 0.1
# Numbers held for one batch of samples: some forty arrays of the size (samples, points).
_ENTRIES = 2**17
# Numbers held for the products of a few samples of a batch.
_PRODUCT_ENTRIES = 2**20


class Sampling(NamedTuple):
    """A training problem prepared for sampling: what mean, covariance and kernel variance share."""

    modes: TrainingModes
    shifts: MeanShifts
    sources: list[tuple[Source, float]]
    training: Training
    times: TrainingTimes
    rows: int

    @classmethod
    def of(cls, kernels: LayerKernels, modes: TrainingModes, dtype: jnp.dtype | type) -> "Sampling":
        decay, times = training_course(modes, dtype)
        training = Training(decay, InitialOutputs.of(modes, dtype))
        sources = layer_sources(kernels, modes.train, dtype)
        rows = batch_rows(len(modes.K), decay.outputs)
        return cls(modes, mean_shifts(kernels), sources, training, times, rows)

    def strata(self, kinds: Sequence[Kind]) -> list["Stratum"]:
        """All kinds at all hidden layers, without samples."""
        return [
            Stratum(kind, source, kind.times(self.times), scale)
            for source, scale in self.sources
            for kind in kinds
        ]

    def drawn(self, source: Source, rng: np.random.Generator) -> Drawn:
        """Neurons and signs of one batch."""
        return drawn(source, rng, self.rows, source.signs + self.training.signs)


def batch_rows(points: int, outputs: int) -> int:
    """Samples of one batch: a power of two that keeps its arrays small."""
    rows = _ENTRIES // (points * outputs)
    return int(2 ** np.clip(np.floor(np.log2(max(rows, 1))), 5, 12))


class Stratum:
    """Samples of one kind at one hidden layer."""

    def __init__(self, kind: Kind, source: Source, times: TimeStrata, scale: float):
        self.kind, self.source, self.times, self.scale = kind, source, times, scale
        self.count = 0
        self.sums = self.squares = np.zeros(())
        self._sizes, self._visits = np.zeros(times.count), np.zeros(times.count)

    @property
    def mean(self) -> np.ndarray:
        return self.scale * self.sums / self.count

    @property
    def variance(self) -> np.ndarray:
        """Of a single sample."""
        n = self.count
        spread = np.maximum(self.squares / n - (self.sums / n) ** 2, 0.0)
        return self.scale**2 * spread * n / (n - 1)

    @property
    def probabilities(self) -> Float[np.ndarray, " times"]:
        """Of the times: in proportion to the size of the samples there."""
        uniform = np.full(self.times.count, 1 / self.times.count)
        if not self._sizes.any():
            return uniform
        size = np.sqrt(self._sizes / np.maximum(self._visits, 1))
        return _UNIFORM * uniform + (1 - _UNIFORM) * size / size.sum()

    def add(self, sampling: Sampling, rng: np.random.Generator, extra: int) -> None:
        """Draw more samples, in batches of one size."""
        rows, probabilities = sampling.rows, self.probabilities
        # Evenly spread over the cumulative probability, then shuffled: no time is missed by chance.
        places = (rng.permutation(extra) + rng.random()) / max(extra, 1)
        which = np.minimum(np.searchsorted(np.cumsum(probabilities), places), self.times.count - 1)
        for begin in range(0, extra, rows):
            part = which[begin : begin + rows]
            times = self.times.draw(rng, part)
            times = times._replace(weight=times.weight / probabilities[part])
            # Samples that fill the batch have no weight.
            padded = [np.pad(a, (0, rows - len(part)), mode="edge") for a in times]
            padded = Times(*padded)._replace(weight=np.pad(times.weight, (0, rows - len(part))))
            random = sampling.drawn(self.source, rng)
            found = _batch(self.kind, self.source, sampling.training, random, padded)
            sums, squares, sizes = (np.asarray(a, dtype=float) for a in found)
            self.sums, self.squares = self.sums + sums, self.squares + squares
            np.add.at(self._sizes, part, sizes[: len(part)] * probabilities[part] ** 2)
            np.add.at(self._visits, part, 1)
        self.count += extra


def _batch(kind: Kind, source: Source, training: Training, random: Drawn, times: Times):
    """Sums over samples and their squares, and every sample's mean square."""
    cast = Times(*(jnp.asarray(a, source.root.dtype) for a in times))
    return _accumulated(_samples(kind, source, training, random, cast))


@eqx.filter_jit
def _samples(kind: Kind, source: Source, training: Training, random: Drawn, times: Times):
    column = Times(*(a[:, None, None] for a in times))
    neuron = Neuron(source, *random.derivatives)
    return kind.sample(neuron, training, Signs(random), column)


@eqx.filter_jit
def _accumulated(samples: Array | tuple[Array, Array]):
    """Of outputs at the test points, or of the two sides of M, for M + M^T.

    Of M the mean square on the diagonal counts: the variances. The program is compiled apart because all
    kinds share it.
    """
    if not isinstance(samples, tuple):
        squares = samples**2
        return jnp.sum(samples, axis=0), jnp.sum(squares, axis=0), jnp.mean(squares, axis=(1, 2))
    rows, _, test = samples[0].shape
    few = min(rows, 2 ** int(np.log2(max(_PRODUCT_ENTRIES // test**2, 1))))

    def some(sides: tuple[Array, Array]):
        half = jnp.einsum("rkg,rkD->rgD", *sides)
        value = half + half.swapaxes(1, 2)
        size = jnp.mean(jnp.diagonal(value, axis1=1, axis2=2) ** 2, axis=1)
        return jnp.sum(value, axis=0), jnp.sum(value**2, axis=0), size

    split = lambda a: a.reshape(rows // few, few, *a.shape[1:])
    sums, squares, sizes = jax.lax.map(some, (split(samples[0]), split(samples[1])))
    return jnp.sum(sums, axis=0), jnp.sum(squares, axis=0), sizes.reshape(rows)


class Aim(NamedTuple):
    """When to stop: the relative error, and the number of samples past which it is not waited for.

    Both error and coefficient are root mean squares over what `matters` picks of an array; an error below
    `negligible` is small enough whatever the coefficient.
    """

    relative_error: float
    most_samples: int
    matters: Callable[[np.ndarray], np.ndarray] = lambda a: a
    negligible: float = 0.0


def sample_until(
    aim: Aim,
    sampling: Sampling,
    strata: list[Stratum],
    exact: np.ndarray,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> int:
    """Fill the strata until their sum, with the part that needs no sampling, has the error aimed at."""
    square = lambda a: float(np.mean(aim.matters(a)))
    extra = [max(_PILOT, sampling.rows, _PILOT_PER_TIME * s.times.count) for s in strata]
    while True:
        for stratum, more in zip(strata, extra, strict=True):
            stratum.add(sampling, rng, more)
        done = sum(s.count for s in strata)
        size = square((exact + sum(s.mean for s in strata)) ** 2)
        error = square(sum(s.variance / s.count for s in strata))
        wanted = max(aim.relative_error**2 * max(size - error, 0.1 * size), aim.negligible**2)
        finished = error <= wanted or done >= aim.most_samples
        if progress is not None:
            reached = math.sqrt(error / size) if size > 0 else 0.0
            progress(1.0 if finished else min(0.99, wanted / error), reached)
        if finished:
            return done
        spread = np.sqrt([square(s.variance) for s in strata])
        extra = _allocation(strata, spread, wanted, min(_GROWTH * done, aim.most_samples - done))


def _allocation(strata: list[Stratum], spread: np.ndarray, wanted: float, most: float | int) -> list[int]:
    """Samples to add so that the mean squared error is reached at the least cost.

    The spread found by few samples is uncertain, so the number of samples grows by stages.
    """
    cost = np.sqrt([s.kind.cost for s in strata])
    ideal = spread * np.sum(cost * spread) / (wanted * cost)
    extra = np.maximum(ideal - [s.count for s in strata], 0.0)
    return np.ceil(min(1.0, most / max(extra.sum(), 1.0)) * extra).astype(int).tolist()
