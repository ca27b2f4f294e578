"""The trained mean to order 1/n by sampled neurons, for hundreds of points.

Strata are (kind of source, hidden layer, training time). A pilot run finds how much each of them scatters;
samples then go where they reduce the error of the whole coefficient most for their cost.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.prediction.finite_width.correction import Origins
from finitewidth.prediction.finite_width.projector_weights import first_weights
from finitewidth.prediction.finite_width.sampled.mean_kinds import (
    COST,
    NESTED,
    Decay,
    Kind,
    contribution,
    kinds,
)
from finitewidth.prediction.finite_width.sampled.neuron_sources import Source
from finitewidth.prediction.finite_width.sampled.time_nodes import Nodes, Times, TimeStrata, time_strata
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.prediction.methods import Progress
from finitewidth.statistics.hidden_layers import LayerKernels
from finitewidth.statistics.mean_shifts import mean_shifts
from finitewidth.statistics.source_edges import source_edges

if TYPE_CHECKING:
    from finitewidth.prediction.finite_width.sampled.method import SampledNeurons

_ORIGIN = {"A": 1, "B": 1, "a2": 2, "b2": 2, "a3": 3, "b3": 3, "c3": 3, "d3": 3}
_PILOT = 48
_GROWTH = 6.0
# Numbers held for one batch of samples: some forty arrays of the size (samples, points).
_ENTRIES = 2**17


@dataclass(frozen=True)
class SampledMean:
    """Coefficient of 1/n by origin, its standard errors, and the number of samples."""

    origins: Origins
    standard_errors: Origins
    standard_error: Float[np.ndarray, "test out"]
    samples: int


class Stratum:
    """Samples of one kind of source at one hidden layer, all its times apart."""

    def __init__(self, kind: Kind, source: Source, times: TimeStrata, scale: float, shape: tuple[int, int]):
        self.kind: Kind = kind
        self.source, self.times, self.scale = source, times, scale
        self.count = np.zeros(times.count)
        self.sums = np.zeros((times.count, *shape))
        self.squares = np.zeros((times.count, *shape))

    @property
    def mean(self) -> Float[np.ndarray, "out test"]:
        return self.scale * np.sum(self.sums / self.count[:, None, None], axis=0)

    @property
    def variances(self) -> Float[np.ndarray, "times out test"]:
        """Of a single sample."""
        n = self.count[:, None, None]
        return self.scale**2 * np.maximum(self.squares / n - (self.sums / n) ** 2, 0.0) * n / (n - 1)

    @property
    def squared_error(self) -> Float[np.ndarray, "out test"]:
        return np.sum(self.variances / self.count[:, None, None], axis=0)

    def add(self, decay: Decay, key: PRNGKeyArray, rng: np.random.Generator, extra: np.ndarray, rows: int):
        """Draw `extra[j]` more samples at every time j, in batches of one size."""
        which = np.repeat(np.arange(self.times.count), extra)
        for batch, start in enumerate(range(0, len(which), rows)):
            part = which[start : start + rows]
            drawn = self.times.draw(rng, part)
            spare = rows - len(part)
            padded = Times(*(np.pad(a, (0, spare), mode="edge") for a in drawn))
            member = np.zeros((rows, self.times.count))
            member[np.arange(len(part)), part] = 1.0
            sums, squares = _batch(
                self.kind, self.source, decay, jax.random.fold_in(key, batch), padded, jnp.asarray(member)
            )
            self.sums += np.asarray(sums, dtype=float)
            self.squares += np.asarray(squares, dtype=float)
            yield len(part)
        self.count += extra


@eqx.filter_jit
def _batch(
    kind: Kind,
    source: Source,
    decay: Decay,
    key: PRNGKeyArray,
    times: Times,
    member: Float[Array, "rows times"],
):
    dtype = decay.t.dtype
    cast = Times(*(jnp.asarray(a, dtype) for a in times))
    value = contribution(kind, source, decay, key, cast)
    member = member.astype(dtype)
    total = lambda v: jnp.einsum("rs,rot->sot", member, v)
    return total(value), total(value**2)


def sampled_mean(
    kernels: LayerKernels,
    modes: TrainingModes,
    options: "SampledNeurons",
    progress: Progress | None = None,
) -> SampledMean:
    """Coefficient of 1/n_{L-1} in the trained mean at the test points."""
    dtype = jnp.float32 if options.single_precision else jnp.float64
    decay = Decay.of(modes, dtype)
    test, out = len(modes.K) - modes.train, modes.Y.shape[1]
    shift = _mean_kernel(kernels, modes)
    strata = _strata(kernels, modes, dtype, (out, test))
    rows = batch_rows(len(modes.K), out)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(options.key)).tolist())
    extra = [np.full(s.times.count, max(_PILOT, -(-rows // s.times.count))) for s in strata]
    done, round_ = 0, 0
    while True:
        planned = done + sum(int(e.sum()) for e in extra)
        for n, (stratum, more) in enumerate(zip(strata, extra, strict=True)):
            key = jax.random.fold_in(jax.random.fold_in(options.key, round_), n)
            for drawn in stratum.add(decay, key, rng, more, rows):
                done += drawn
        coefficient = shift.T + sum(s.mean for s in strata)
        squared_error = sum(s.squared_error for s in strata)
        size, error = float(np.mean(coefficient**2)), float(np.mean(squared_error))
        wanted = options.relative_error**2 * max(size - error, 0.1 * size)
        reached = math.sqrt(error / size) if size > 0 else 0.0
        finished = error <= wanted or done >= options.most_samples
        if progress is not None:
            progress(1.0 if finished else min(0.99, wanted / error), reached)
        if finished:
            break
        extra = _allocation(strata, wanted, options.most_samples - done, planned)
        round_ += 1
    return _collected(strata, shift, done)


def _strata(kernels: LayerKernels, modes: TrainingModes, dtype, shape) -> list[Stratum]:
    once = Nodes(np.zeros(1), np.zeros(1), np.ones(1))
    ended = modes.algorithm.converged
    single = time_strata(modes.t, modes.algorithm, nested=False)
    nested = single if ended else time_strata(modes.t, modes.algorithm, nested=True)
    strata = []
    for source, scale in layer_sources(kernels, modes.train, dtype):
        for kind in kinds(modes):
            times = once if ended and kind in ("A", "B") else nested if kind in NESTED else single
            strata.append(Stratum(kind, source, times, scale, shape))
    return strata


def layer_sources(
    kernels: LayerKernels, train: int, dtype: jnp.dtype | type
) -> Iterator[tuple[Source, float]]:
    """Every hidden layer as a source, and its factor: the last hidden width over its own."""
    for l, layer in enumerate(kernels.hidden):
        top = l == len(kernels.hidden) - 1
        source = Source.of(kernels.function, train, layer, source_edges(kernels, l), top, dtype)
        yield source, kernels.hidden[-1].width / layer.width


def batch_rows(points: int, outputs: int) -> int:
    """Samples of one batch: a power of two that keeps its arrays small."""
    rows = _ENTRIES // (points * outputs)
    return int(2 ** np.clip(np.floor(np.log2(max(rows, 1))), 5, 12))


def _allocation(strata: list[Stratum], wanted: float, left: int, planned: int) -> list[np.ndarray]:
    """Samples to add so that the squared error is reached at the least cost."""
    spread = [np.sqrt(s.variances.mean(axis=(1, 2))) for s in strata]
    cost = [COST[s.kind] for s in strata]
    effort = sum(np.sqrt(c) * sd.sum() for c, sd in zip(cost, spread, strict=True))
    ideal = [sd * effort / (wanted * np.sqrt(c)) for c, sd in zip(cost, spread, strict=True)]
    extra = [np.maximum(n - s.count, 0.0) for n, s in zip(ideal, strata, strict=True)]
    total = sum(e.sum() for e in extra)
    # The spread found by few samples is uncertain, so the number of samples grows by stages.
    allowed = min(_GROWTH * planned, left)
    factor = min(1.0, allowed / max(total, 1.0))
    return [np.ceil(factor * e).astype(int) for e in extra]


def _mean_kernel(kernels: LayerKernels, modes: TrainingModes) -> Float[np.ndarray, "test out"]:
    """The part of the shifted mean kernel, which needs no sampling."""
    H1 = mean_shifts(kernels).H1
    h = first_weights(modes.t, modes.algorithm)
    sources = np.einsum("pk,zk,ko->zpo", H1[:, : modes.train] @ modes.U, h, modes.Y, optimize=True)
    return modes.delivered(sources)[modes.train :]


def _collected(strata: list[Stratum], shift: Float[np.ndarray, "test out"], samples: int) -> SampledMean:
    values = [shift] + [np.zeros_like(shift) for _ in range(3)]
    squares = [np.zeros_like(shift) for _ in range(4)]
    for stratum in strata:
        origin = _ORIGIN[stratum.kind]
        values[origin] = values[origin] + stratum.mean.T
        squares[origin] = squares[origin] + stratum.squared_error.T
    errors = Origins(*(np.sqrt(s) for s in squares))
    return SampledMean(Origins(*values), errors, np.sqrt(sum(squares)), samples)
