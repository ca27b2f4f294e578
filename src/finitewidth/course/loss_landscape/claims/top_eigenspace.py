"""The space of the largest eigenvectors of the Hessian: the gradient in it, and how it settles."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import Estimate, exact, sample_mean
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.loss_landscape.networks.classifiers import Architecture, clusters, programs
from finitewidth.measure.loss.spectrum import overlap, share_in_space
from finitewidth.report import style
from finitewidth.report.style import Figure

# How far shares may be from those of noise in a quadratic valley.
_BENT = 0.1


@dataclass(frozen=True)
class Overlapping(RandomProblem):
    """Classifiers of overlapping clusters: descent until it has settled, then descent with noisy batches."""

    networks: int
    classes: int = 3
    per_class: int = 25
    n_in: int = 3
    noise: float = 1.5
    hidden: tuple[int, ...] = (8,)
    eta: float = 0.2
    settling: int = 2000
    every: int = 100
    records: int = 8
    batch: int = 4
    amplitudes: tuple[float, ...] = (0.0, 1e-2, 0.03, 0.1, 0.3)

    @property
    def architecture(self) -> Architecture:
        """A tanh network with one output per class."""
        return Architecture(self.hidden, "tanh", self.n_in, self.classes)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (networks, points, n_in) and classes (networks, points)."""
        sizes = (self.per_class,) * self.classes
        sets = [clusters(self.rng(i), sizes, self.n_in, self.noise)[0] for i in range(self.networks)]
        return np.stack([data.x for data in sets]), np.stack([data.y for data in sets])

    def run(self, starts: np.ndarray, amplitude: float, records: int) -> np.ndarray:
        """Weights along descent with this share of the batches' noise, (networks, records, parameters)."""
        descent = programs(self.architecture).noisy_descent
        keys = jax.random.split(jax.random.key(self.seed), self.networks)

        def one(start: Array, x: Array, y: Array, key: PRNGKeyArray) -> Array:
            return descent(start, x, y, key, self.eta, amplitude, self.batch, records, self.every)

        x, y = self.data
        return np.asarray(jax.vmap(one)(jnp.asarray(starts), jnp.asarray(x), jnp.asarray(y), keys))

    def spectra(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the Hessians, largest first, and the eigenvectors of the C largest.

        Weights are (networks, records, parameters); vectors (networks, records, parameters, C).
        """
        hessian = programs(self.architecture).hessian
        over_records = jax.vmap(hessian, in_axes=(0, None, None))
        values, vectors = np.linalg.eigh(np.asarray(jax.vmap(over_records)(weights, *self.data)))
        return values[..., ::-1], vectors[..., ::-1][..., : self.classes]

    def gradients(self, weights: np.ndarray) -> np.ndarray:
        """Gradients of all points, (networks, records, parameters)."""
        over_records = jax.vmap(programs(self.architecture).gradient, in_axes=(0, None, None))
        return np.asarray(jax.vmap(over_records)(weights, *self.data))


class Settled(NamedTuple):
    """Networks that full-batch descent has trained, and what their curvature was on the way."""

    weights: np.ndarray
    values: np.ndarray
    overlaps: np.ndarray
    drift: np.ndarray


@lru_cache(maxsize=4)
def settled(setting: Overlapping) -> Settled:
    """Full-batch descent of all networks."""
    seeds = setting.rng(setting.networks).integers(2**31, size=setting.networks)
    starts = np.stack([setting.architecture.start(int(seed)) for seed in seeds])
    path = setting.run(starts, 0.0, setting.settling // setting.every)
    path = np.concatenate([starts[:, None], path], axis=1)
    values, spaces = setting.spectra(path)
    overlaps = [[overlap(*pair) for pair in pairwise(space)] for space in spaces]
    drift = np.sum(setting.gradients(path[:, -1:]) ** 2, axis=(1, 2))
    return Settled(path[:, -1], values[:, -1], np.array(overlaps), drift)


@dataclass(frozen=True)
class GradientShare(Overlapping):
    """The gradient's share in the space of the C largest eigenvectors, against the noise of the batches."""

    def theory(self) -> Prediction:
        """Noise of covariance H in a quadratic valley, and the drift that full-batch descent still has."""
        found, squares = settled(self), np.square(self.amplitudes)
        stiff = np.maximum(found.values, 0.0)
        noise = self.eta / self.batch * stiff**2 / (2 - self.eta * stiff)
        inside, total = noise[:, : self.classes].sum(axis=1), noise.sum(axis=1)
        shares = squares * inside[:, None] / (squares * total[:, None] + found.drift[:, None])
        return {"shares": shares}

    def measure(self, key) -> Measurement:
        shares = []
        for amplitude in self.amplitudes:
            path = self.run(settled(self).weights, amplitude, self.records)[:, self.records // 4 :]
            gradients, (_, spaces) = self.gradients(path), self.spectra(path)
            sizes = np.sum(gradients**2, axis=-1)
            inside = [
                [share_in_space(*pair) for pair in zip(*network, strict=True)]
                for network in zip(gradients, spaces, strict=True)
            ]
            shares.append(np.sum(sizes * inside, axis=1) / np.sum(sizes, axis=1))
        return {"shares": exact(np.stack(shares, axis=1))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error(
                "share of the gradient", predicted["shares"].mean(axis=0), paired(predicted, measured),
                _BENT, "valleys that are not quadratic",
            )
        ]  # fmt: skip

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        picture, (axes,) = style.panels("Noise, not descent, puts the gradient into the top eigenspace")
        style.theory_line(axes, self.amplitudes, predicted["shares"].mean(axis=0), style.PALETTE[0])
        shares = paired(predicted, measured)
        style.measured_points(axes, self.amplitudes, shares.value, shares.sem, style.PALETTE[1])
        axes.set_xscale("symlog", linthresh=1e-3)
        axes.set(xlabel="noise of the batches, times", ylabel="share in the top C eigenvectors", ylim=(0, 1))
        style.legend(axes, color=style.PALETTE[0], point_color=style.PALETTE[1])
        return picture


def paired(predicted: Prediction, measured: Measurement) -> Estimate:
    """Mean shares over networks; their error is that of the distance to what is predicted of each network."""
    distance = sample_mean(measured["shares"].value - predicted["shares"])
    return distance.plus(predicted["shares"].mean(axis=0))


@dataclass(frozen=True)
class Stabilises(Overlapping):
    """Overlaps of the space of the C largest eigenvectors with itself 100 steps later."""

    def theory(self) -> Prediction:
        return {"late": np.array(1.0), "early": np.array(0.55)}

    def measure(self, key) -> Measurement:
        paths = settled(self).overlaps
        late = paths[:, -paths.shape[1] // 4 :].mean(axis=1)
        return {"late": sample_mean(late), "early": sample_mean(paths[:, 0]), "path": sample_mean(paths)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("overlap at lag 100 late in training", predicted["late"], measured["late"], 0.05),
            upper_bound("overlap over the first 100 steps", predicted["early"], measured["early"]),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        picture, (axes,) = style.panels("The space of the largest eigenvectors settles")
        path = measured["path"]
        steps = self.every * np.arange(1, len(path.value) + 1)
        style.theory_line(axes, steps, np.ones(len(steps)), style.PALETTE[0])
        style.measured_points(axes, steps, path.value, path.sem, style.PALETTE[1])
        axes.set(xlabel="step", ylabel="overlap with the space 100 steps before", ylim=(0, 1.05))
        style.legend(axes, theory="settled", color=style.PALETTE[0], point_color=style.PALETTE[1])
        return picture


def _without_noise(setting: GradientShare, value: np.ndarray) -> np.ndarray:
    """The share of noisy training, for gradient descent too."""
    return np.broadcast_to(value[:, -1:], value.shape)


def _random_vector(setting: GradientShare, value: np.ndarray) -> np.ndarray:
    """C / p, as for a vector that knows nothing of the Hessian."""
    return np.full_like(value, setting.classes / settled(setting).weights.shape[1])


CLAIMS = (
    Claim(
        id="gradient-in-top-eigenspace",
        title="noise puts the gradient into the top eigenspace",
        statement="""Where classes overlap, stochastic gradient descent with step eta and batches of B ends in
        a steady state in which the gradient of all points has a share of sum_top q / (sum q + D) in the space
        of the C largest eigenvectors, with q_j = a^2 (eta/B) lambda_j^2 / (2 - eta lambda_j): noise of
        covariance H, multiplied by a, in a quadratic valley, beside the squared gradient D that is left
        without noise. The share rises with the noise from nearly nothing to most of the gradient, as long as
        the noise does not leave the valley: it is no property of gradient descent.""",
        source=orf_543("10/3") + " (where the noise is not mentioned)",
        quick=GradientShare(networks=32),
        # The noise of the batches is smaller than one of covariance H, and so are all shares.
        notices={"shares": 2.0},
        full=GradientShare(networks=48, amplitudes=(0.0, 1e-3, 3e-3, 1e-2, 0.03, 0.1, 0.3)),
        wrong={"shares": (_without_noise, _random_vector)},
    ),
    Claim(
        id="top-eigenspace-stabilises",
        title="the space of the largest eigenvectors settles",
        statement="""Under full-batch gradient descent on overlapping classes the space of the C largest
        eigenvectors of the Hessian turns in the first 100 steps until less than 0.55 of it is left; once
        training has settled, 100 steps leave an overlap |V_t^T V_(t+100)|_F^2 / C within 0.05 of one.""",
        source=orf_543("10/3"),
        quick=Stabilises(networks=16),
        full=Stabilises(networks=64, settling=5000),
        bounds={"early": "above"},
        wrong={
            "late": lambda setting, value: np.array(setting.classes / settled(setting).weights.shape[1]),
            "early": lambda setting, value: np.array(0.05),
        },
    ),
)
