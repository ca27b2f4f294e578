"""Noise that depends on the place: quiet regions are favoured."""

import functools
from dataclasses import dataclass

import jax
import numpy as np
from scipy.integrate import quad

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean, stacked
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.stochastic_gradients.networks.noisy_steps import occupation, ring_occupation
from finitewidth.course.stochastic_gradients.theory.batches import batch_covariance
from finitewidth.course.stochastic_gradients.theory.diffusion import (
    ito_density,
    ring_walk,
    step_density,
    two_step_share,
)

_LECTURE = orf_543("11/16")
# The wells exchange their walkers within about 120 steps.
_BURN_IN = 1500


@dataclass(frozen=True)
class Circle:
    """A circle with steps of one size on one half and of twice the size on the other.

    Whole steps on rings of several numbers of sites, by enumeration; walkers on the first of them, and
    walkers with Gaussian steps.
    """

    walkers: int
    steps: int
    sites: tuple[int, ...] = (40, 100, 400)
    step: float = 0.2

    @property
    def burn_in(self) -> int:
        """Twelve times the time in which a walker forgets where it was, for either kind of step."""
        return int(12 / min(self.step, 2 * np.pi / self.sites[0]) ** 2)

    def halves(self, sites: int) -> np.ndarray:
        return np.repeat([1, 2], sites // 2)

    def theory(self) -> Prediction:
        density = step_density(
            lambda x: 0 * x, lambda x: np.where(x < np.pi, 1.0, 2.0), self.step, 0, 2 * np.pi, periodic=True
        )
        n = self.sites[0]
        return {
            "rings": np.array([two_step_share(n) for n in self.sites]),
            "ring": ring_walk(self.halves(n))[: n // 2].sum(),
            "circle": np.array(density.probability(density.points < np.pi)),
        }

    def measure(self, key) -> Measurement:
        rng, n = random_generator(key), self.sites[0]
        sign = lambda: 2 * rng.integers(0, 2, self.walkers) - 1
        ring = occupation(
            lambda at: (at + sign() * np.where(at < n // 2, 1, 2)) % n,
            rng.integers(0, n, self.walkers),
            lambda at: at < n // 2,
            self.burn_in,
            self.steps,
        )
        circle = occupation(
            lambda at: (
                at + self.step * np.where(at < np.pi, 1, 2) * rng.standard_normal(self.walkers)
            ) % (2 * np.pi),
            rng.uniform(0, 2 * np.pi, self.walkers),
            lambda at: at < np.pi,
            self.burn_in,
            self.steps,
        )  # fmt: skip
        shares = [ring_occupation(self.halves(n), np.arange(n) < n // 2) for n in self.sites]
        return {"rings": exact(np.array(shares)), "ring": ring, "circle": circle}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            relative_error(
                "share of time with small steps, rings", predicted["rings"], measured["rings"], 1e-9
            ),
            z_score("share of walkers on a ring", predicted["ring"], measured["ring"]),
            z_score("share of walkers with Gaussian steps", predicted["circle"], measured["circle"]),
        ]


@dataclass(frozen=True)
class TwoWells(RandomProblem):
    """Two equal wells, (x^2 - 1)^2/4, with more noise in the right one; and single steps on a regression."""

    walkers: int
    steps: int
    draws: int
    noise: tuple[tuple[float, float], ...] = ((4.0, 4.0), (4.0, 6.0), (4.0, 8.0))
    eta: float = 0.02
    batch_size: int = 8
    points: int = 16
    features: int = 3

    @functools.cached_property
    def gradients(self) -> np.ndarray:
        """Gradients of every point of a regression at a place away from its minimum."""
        rng = self.rng(0)
        x, y = rng.normal(size=(self.points, self.features)), rng.normal(size=self.points)
        return (x @ rng.normal(size=self.features) - y)[:, None] * x

    def theory(self) -> Prediction:
        found = {"chain": [], "small steps": []}
        for left, right in self.noise:
            sd = lambda x, left=left, right=right: np.where(x < 0, left, right)
            chain = step_density(lambda x: x**3 - x, sd, self.eta, -4, 4)
            limit = ito_density(lambda x: (x**2 - 1) ** 2 / 4, sd, self.eta, -4, 4)
            found["chain"].append(chain.probability(chain.points < 0))
            found["small steps"].append(limit.probability(limit.points < 0))
        shares = {name: np.array(values) for name, values in found.items()}
        return shares | {
            "drift": -self.eta * self.gradients.mean(axis=0),
            "diffusion": self.eta**2 * batch_covariance(self.gradients, self.batch_size),
        }

    def measure(self, key) -> Measurement:
        walk_key, batch_key = jax.random.split(key)
        rng = random_generator(walk_key)
        shares = []
        for left, right in self.noise:
            step = lambda at, left=left, right=right: (
                at - self.eta * (at**3 - at + np.where(at < 0, left, right) * rng.standard_normal(at.shape))
            )
            start = rng.choice([-1.0, 1.0], self.walkers)
            shares.append(occupation(step, start, lambda at: at < 0, _BURN_IN, self.steps))
        rng = random_generator(batch_key)
        batches = np.argsort(rng.random((self.draws, self.points)), axis=1)[:, : self.batch_size]
        moves = -self.eta * self.gradients[batches].mean(axis=1)
        noise = moves + self.eta * self.gradients.mean(axis=0)
        share = stacked(shares)
        return {
            "chain": share,
            "small steps": share,
            "drift": sample_mean(moves),
            "diffusion": sample_mean(noise[:, :, None] * noise[:, None]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            z_score("mean of a step", predicted["drift"], measured["drift"]),
            z_score("covariance of a step", predicted["diffusion"], measured["diffusion"]),
            z_score("time in the quiet well, this step", predicted["chain"], measured["chain"]),
            absolute_error(
                "time in the quiet well, small steps", predicted["small steps"], measured["small steps"], 0.01
            ),
        ]


def _share(share: float):
    """The same share of time for every step."""
    return lambda setting, value: np.full_like(value, share)


def _prefactor(power: float):
    """A law D^-power exp(-(L - L(0))/D) with another power than one."""

    def wrong(setting: TwoWells, value: np.ndarray) -> np.ndarray:
        def weight(sd: float) -> float:
            d = setting.eta * sd**2 / 2
            return d**-power * quad(lambda x: np.exp(-((x**2 - 1) ** 2 - 1) / (4 * d)), 0, 4)[0]

        return np.array([weight(left) / (weight(left) + weight(right)) for left, right in setting.noise])

    return wrong


def _with_replacement(setting: TwoWells, value: np.ndarray) -> np.ndarray:
    covariance = batch_covariance(setting.gradients, setting.batch_size, "with replacement")
    return setting.eta**2 * covariance


CLAIMS = (
    Claim(
        id="state-dependent-diffusion",
        title="a walker on a circle spends four fifths of its time where its steps are half as long",
        statement="""A walker who steps left or right alike, by h on one half of a circle and by 2h on the
        other, has a stationary density in proportion to 1/step^2: four fifths of its time with small steps.
        On a ring of N sites, N divisible by four and steps of one and two sites, the share is N/(5N/4 + 1)
        exactly; at a finite step it is below four fifths.""",
        source=f"{_LECTURE} (a challenge problem, its answer corrected)",
        quick=Circle(walkers=4000, steps=1500),
        full=Circle(walkers=40_000, steps=6000, sites=(40, 100, 400, 1000)),
        wrong={
            "rings": (_share(2 / 3), _share(np.sqrt(2) / (1 + np.sqrt(2))), _share(0.8)),
            "ring": (_share(2 / 3), _share(0.8)),
            "circle": (_share(2 / 3), _share(0.8)),
        },
    ),
    Claim(
        id="sgd-drift-diffusion-split",
        title="a step is the full gradient plus noise, and the quieter of two equal wells is favoured",
        statement="""A step moves the weights by -eta grad L on average, with covariance eta^2 C: the
        covariance of the gradient of a batch, (m - b)/(m - 1)/b of that of single points for batches
        without replacement. For noise of another size on either side of a barrier the density is (1/D)
        exp(-(L - L(0))/D) with D = eta sd^2/2, up to order eta, and the fixed point of the transition
        kernel at any step: of two equal quartic wells the quieter one is favoured, the more so the larger
        the ratio of the noise.""",
        source=_LECTURE,
        quick=TwoWells(walkers=4000, steps=400, draws=20_000),
        full=TwoWells(walkers=40_000, steps=2000, draws=200_000),
        wrong={
            "small steps": (_prefactor(0.5), _prefactor(0.0)),
            "chain": (_prefactor(0.5), _prefactor(0.0)),
            "diffusion": _with_replacement,
        },
    ),
)
