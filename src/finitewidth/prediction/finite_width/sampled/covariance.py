r"""The trained covariance to order 1/n by sampled neurons, for hundreds of points.

Strata are (kind, hidden layer). Within one, a sample's training time is drawn with the probabilities that
make the result scatter least, as far as earlier samples tell, and samples are weighted accordingly. What is
to be known with a given relative error are the variances: most covariances are close to zero, and to tell
them from zero would take as many times the samples as there are test points.
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

from finitewidth.prediction.finite_width.projector_weights import first_weights
from finitewidth.prediction.finite_width.sampled.covariance_kinds import (
    COST,
    CovarianceKind,
    InitialOutputs,
    contributions,
    covariance_kinds,
    unlearnt,
)
from finitewidth.prediction.finite_width.sampled.mean import batch_rows, layer_sources
from finitewidth.prediction.finite_width.sampled.mean_kinds import NESTED, Decay
from finitewidth.prediction.finite_width.sampled.neuron_sources import Neuron, Rows, Source
from finitewidth.prediction.finite_width.sampled.time_nodes import (
    Nodes,
    Pairs,
    Times,
    TimeStrata,
    time_strata,
)
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.prediction.methods import Progress
from finitewidth.statistics.hidden_layers import LayerKernels
from finitewidth.statistics.mean_shifts import mean_shifts

if TYPE_CHECKING:
    from finitewidth.prediction.finite_width.sampled.method import SampledNeurons

_PILOT = 256
_PILOT_PER_TIME = 8
_GROWTH = 6.0
# Share of the samples whose times are drawn without regard to earlier ones, which may mislead.
_UNIFORM = 0.1
# Relative to the variance before training, a coefficient that no width makes visible.
_NEGLIGIBLE = 1e-6
# Numbers held for the products of a few samples of a batch.
_PRODUCT_ENTRIES = 2**20


@dataclass(frozen=True)
class SampledCovariance:
    """Coefficient of 1/n, averaged over outputs, its standard error, and the number of samples."""

    coefficient: Float[np.ndarray, "test test"]
    standard_error: Float[np.ndarray, "test test"]
    samples: int


class CovarianceStratum:
    """Samples of one kind at one hidden layer."""

    def __init__(self, kind: CovarianceKind, source: Source, times: TimeStrata, scale: float, test: int):
        self.kind: CovarianceKind = kind
        self.source, self.times, self.scale = source, times, scale
        self.count = 0
        self.sums, self.squares = np.zeros((test, test)), np.zeros((test, test))
        self._sizes, self._visits = np.zeros(times.count), np.zeros(times.count)

    @property
    def mean(self) -> Float[np.ndarray, "test test"]:
        return self.scale * self.sums / self.count

    @property
    def variance(self) -> Float[np.ndarray, "test test"]:
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

    def add(
        self,
        decay: Decay,
        start: InitialOutputs,
        key: PRNGKeyArray,
        rng: np.random.Generator,
        extra: int,
        rows: int,
    ) -> Iterator[int]:
        """Draw more samples, in batches of one size."""
        probabilities = self.probabilities
        # Evenly spread over the cumulative probability, then shuffled: no time is missed by chance.
        drawn = (rng.permutation(extra) + rng.random()) / max(extra, 1)
        which = np.minimum(np.searchsorted(np.cumsum(probabilities), drawn), self.times.count - 1)
        for batch, begin in enumerate(range(0, extra, rows)):
            part = which[begin : begin + rows]
            times = self.times.draw(rng, part)
            times = times._replace(weight=times.weight / probabilities[part])
            spare = rows - len(part)
            padded = Times(*(np.pad(a, (0, spare), mode="edge") for a in times))
            real = np.pad(np.ones(len(part)), (0, spare))
            sums, squares, sizes = _batch(
                self.kind,
                self.source,
                decay,
                start,
                jax.random.fold_in(key, batch),
                padded,
                jnp.asarray(real),
            )
            self.sums += np.asarray(sums, dtype=float)
            self.squares += np.asarray(squares, dtype=float)
            bare = np.asarray(sizes, dtype=float)[: len(part)] * probabilities[part] ** 2
            np.add.at(self._sizes, part, bare)
            np.add.at(self._visits, part, 1)
            yield len(part)
        self.count += extra


def _batch(
    kind: CovarianceKind,
    source: Source,
    decay: Decay,
    start: InitialOutputs,
    key: PRNGKeyArray,
    times: Times,
    real: Float[Array, " rows"],
):
    """Sums over samples of M + M^T and of its squares, and every sample's mean square on the diagonal.

    The three programs are compiled apart because all kinds share the first and the last.
    """
    dtype = decay.t.dtype
    cast = Times(*(jnp.asarray(a, dtype) for a in times))
    neuron_key, key = jax.random.split(key)
    neuron = Neuron(source, *_preactivations(source, neuron_key, len(real)))
    left, right = _contributions(kind, neuron, decay, start, key, cast)
    return _accumulated(left, real.astype(dtype)[:, None, None] * right)


@eqx.filter_jit
def _preactivations(source: Source, key: PRNGKeyArray, rows: int) -> tuple[Rows, Rows, Rows, Rows]:
    neuron = source.neuron(key, rows)
    return neuron.s0, neuron.s1, neuron.s2, neuron.s3


_contributions = eqx.filter_jit(contributions)


@eqx.filter_jit
def _accumulated(left: Float[Array, "rows terms test"], right: Float[Array, "rows terms test"]):
    rows, _, test = left.shape
    few = min(rows, 2 ** int(np.log2(max(_PRODUCT_ENTRIES // test**2, 1))))

    def some(sides: tuple[Array, Array]):
        half = jnp.einsum("rkg,rkD->rgD", *sides)
        value = half + half.swapaxes(1, 2)
        size = jnp.mean(jnp.diagonal(value, axis1=1, axis2=2) ** 2, axis=1)
        return jnp.sum(value, axis=0), jnp.sum(value**2, axis=0), size

    split = lambda a: a.reshape(rows // few, few, *a.shape[1:])
    sums, squares, sizes = jax.lax.map(some, (split(left), split(right)))
    return jnp.sum(sums, axis=0), jnp.sum(squares, axis=0), sizes.reshape(rows)


def sampled_covariance(
    kernels: LayerKernels,
    modes: TrainingModes,
    options: "SampledNeurons",
    relative_error: float,
    progress: Progress | None = None,
) -> SampledCovariance:
    """Coefficient of 1/n_{L-1} in the covariance of a trained output at the test points.

    With several outputs it is the average of their own covariances. `relative_error` is that of the
    variances, both as root mean squares over test points.
    """
    dtype = jnp.float32 if options.single_precision else jnp.float64
    decay, start = Decay.of(modes, dtype), InitialOutputs.of(modes, dtype)
    exact = unsampled_covariance(kernels, modes)
    strata = covariance_strata(kernels, modes, dtype)
    rows = batch_rows(len(modes.K), modes.Y.shape[1])
    rng = np.random.default_rng(np.asarray(jax.random.key_data(options.key)).tolist())
    negligible = float(np.mean((_NEGLIGIBLE * np.diag(modes.K)[modes.train :]) ** 2))
    extra = [max(_PILOT, _PILOT_PER_TIME * s.times.count) for s in strata]
    done, round_ = 0, 0
    while True:
        for n, (stratum, more) in enumerate(zip(strata, extra, strict=True)):
            key = jax.random.fold_in(jax.random.fold_in(options.key, round_), n)
            for drawn in stratum.add(decay, start, key, rng, more, rows):
                done += drawn
        coefficient = exact + sum(s.mean for s in strata)
        squared_error = sum(s.variance / s.count for s in strata)
        size = float(np.mean(np.diag(coefficient) ** 2))
        error = float(np.mean(np.diag(squared_error)))
        wanted = max(relative_error**2 * max(size - error, 0.1 * size), negligible)
        finished = error <= wanted or done >= options.most_samples
        if progress is not None:
            reached = math.sqrt(error / size) if size > 0 else 0.0
            progress(1.0 if finished else min(0.99, wanted / error), reached)
        if finished:
            # Sums in single precision are symmetric up to rounding only.
            return SampledCovariance((coefficient + coefficient.T) / 2, np.sqrt(squared_error), done)
        extra = _allocation(strata, wanted, options.most_samples - done, done)
        round_ += 1


def covariance_strata(
    kernels: LayerKernels, modes: TrainingModes, dtype: jnp.dtype | type
) -> list[CovarianceStratum]:
    """All kinds at all hidden layers, without samples."""
    test = len(modes.K) - modes.train
    once = Nodes(np.zeros(1), np.zeros(1), np.ones(1))
    ended = modes.algorithm.converged
    single = time_strata(modes.t, modes.algorithm, nested=False)
    nested = single if ended else time_strata(modes.t, modes.algorithm, nested=True)
    strata = []
    for source, scale in layer_sources(kernels, modes.train, dtype):
        for kind in covariance_kinds(modes):
            if ended and kind in ("AA", "BB", "zH", "A", "B"):
                times = once
            elif kind in ("AA", "BB"):
                times = Pairs(single)
            else:
                times = nested if kind in NESTED else single
            strata.append(CovarianceStratum(kind, source, times, scale, test))
    return strata


def unsampled_covariance(kernels: LayerKernels, modes: TrainingModes) -> Float[np.ndarray, "test test"]:
    """The parts of the shifted mean kernels: of the initial outputs, and of the one that learns them."""
    shifts = mean_shifts(kernels)
    train, t, U = modes.train, modes.t, modes.U
    bar, h = unlearnt(modes), first_weights(modes.t, modes.algorithm)
    Ku = bar @ modes.K[:, :train] @ U
    on_modes = shifts.H1[:, :train] @ U
    # A source in mode q, made by mode k, is unlearnt by the rest of training.
    later = 1 / np.outer(t, t) if modes.algorithm.converged else modes.algorithm.clock().rate * h[1:]
    reached = modes.Theta_modes[train:] @ (U.T @ on_modes[:train] * later)
    with_kernel = Ku @ (on_modes[train:] * h[0] - reached).T
    return bar @ shifts.G1 @ bar.T - with_kernel - with_kernel.T


def _allocation(strata: list[CovarianceStratum], wanted: float, left: int, done: int) -> list[int]:
    """Samples to add so that the mean squared error of the variances is reached at the least cost."""
    spread = np.sqrt([np.diag(s.variance).mean() for s in strata])
    cost = np.array([COST[s.kind] for s in strata])
    effort = np.sum(np.sqrt(cost) * spread)
    extra = np.maximum(spread * effort / (wanted * np.sqrt(cost)) - [s.count for s in strata], 0.0)
    # The spread found by few samples is uncertain, so the number of samples grows by stages.
    factor = min(1.0, min(_GROWTH * done, left) / max(extra.sum(), 1.0))
    return np.ceil(factor * extra).astype(int).tolist()
