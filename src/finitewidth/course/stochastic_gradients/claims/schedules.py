"""Noisy gradients: which schedules of steps converge, and how fast."""

from dataclasses import dataclass

import numpy as np

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import relative_error, upper_bound, z_score
from finitewidth.course._lab.estimate import exact, sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.stochastic_gradients.theory.schedules import (
    best_schedule,
    late_variance,
    noise_bound,
    noisy_descent,
    variance_floor,
)

_SCHEDULES = ("constant", "c/t", "c/sqrt t", "best")


@dataclass(frozen=True)
class Schedules:
    """One direction of curvature 2 with noise, under four schedules; and a bowl for the bound.

    The bowl has curvatures 0.5 and 4, and its first step is at 0.9 of 1/lambda_max.
    """

    chains: int
    steps: int
    curvature: float = 2.0
    noise_std: float = 1.3
    eta: float = 0.35
    c: float = 1.0
    start: float = 1.0
    bowl: tuple[float, ...] = (0.5, 4.0)

    @property
    def counted(self) -> np.ndarray:
        return np.arange(1, self.steps + 1)

    def steps_of(self, name: str) -> np.ndarray:
        """The steps of a schedule; those of c/t and c/sqrt t begin where descent is stable."""
        t = self.counted
        if name == "best":
            wait = self.noise_std**2 / (self.curvature**2 * self.start**2)
            return 1 / (self.curvature * (t + wait))
        late = {"constant": np.full(self.steps, self.eta), "c/t": self.c / t, "c/sqrt t": self.c / np.sqrt(t)}
        return np.minimum(late[name], 1 / self.curvature)

    @property
    def bowl_steps(self) -> np.ndarray:
        return 0.9 / max(self.bowl) / np.sqrt(self.counted)

    @property
    def records(self) -> np.ndarray:
        return np.unique(np.geomspace(1, self.steps, 8).round().astype(int))

    def theory(self) -> Prediction:
        about = self.curvature, self.noise_std
        best = best_schedule(*about, self.start**2, self.steps)
        variances = [
            noisy_descent(
                *about, best if name == "best" else self.steps_of(name), start_variance=self.start**2
            )
            for name in _SCHEDULES
        ]
        late = [
            variance_floor(*about, self.eta),
            late_variance(*about, self.c),
            late_variance(*about, self.c, 0.5),
        ]
        return {
            "variances": np.array([v.variance[self.records] for v in variances]),
            "late": np.array([float(value) for value in late]),
            "bound": np.array(noise_bound(self.bowl_steps, np.ones(self.steps), *self.bowl)),
        }

    def measure(self, key) -> Measurement:
        rng = random_generator(key)
        found = [self.simulated(rng, self.steps_of(name)) for name in _SCHEDULES]
        # The recursion of the variance, iterated far beyond what can be simulated.
        far = 200_000
        t = np.arange(1, far + 1)
        late = [
            self.far(np.full(2000, self.eta)),
            self.far(np.minimum(self.c / t, 1 / self.curvature)) * far,
            self.far(np.minimum(self.c / np.sqrt(t), 1 / self.curvature)) * np.sqrt(far),
        ]
        return {
            "variances": stacked(found),
            "late": exact(np.array(late)),
            "bound": exact(np.array([self.moved_by_noise(rng), self.moved_by_the_worst_noise()])),
        }

    def simulated(self, rng: np.random.Generator, etas: np.ndarray):
        """Squares of the distance from the minimum at the records."""
        at, found = self.start * rng.standard_normal(self.chains), []
        for t, eta in enumerate(etas, start=1):
            at = at - eta * (self.curvature * at + self.noise_std * rng.standard_normal(self.chains))
            if t in self.records:
                found.append(at**2)
        return sample_mean(np.stack(found, axis=1))

    def far(self, etas: np.ndarray) -> float:
        """Sum over all kicks of their squares, each shrunk by the steps after it."""
        shrink = np.log(np.abs(1 - etas * self.curvature) + 1e-300)
        after = np.concatenate([np.cumsum(shrink[::-1])[::-1][1:], [0.0]])
        return float(np.sum((etas * self.noise_std) ** 2 * np.exp(2 * after)))

    def moved_by_noise(self, rng: np.random.Generator) -> float:
        """The largest distance that kicks of length one have moved weights in the bowl."""
        at = np.zeros((self.chains, len(self.bowl)))
        for eta in self.bowl_steps:
            kick = rng.standard_normal(at.shape)
            at = at - eta * (at * self.bowl + kick / np.linalg.norm(kick, axis=1, keepdims=True))
        return float(np.linalg.norm(at, axis=1).max())

    def moved_by_the_worst_noise(self) -> float:
        """The distance that kicks of length one move the flattest weight when all push the same way."""
        at = 0.0
        for eta in self.bowl_steps:
            at -= eta * (min(self.bowl) * at - 1)
        return at

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for i, name in enumerate(_SCHEDULES):
            yield z_score(f"variance, {name}", predicted["variances"][i], measured["variances"][i])
        # What c/sqrt t leaves out is of relative order 1/sqrt(t): 0.2 % at 200,000 steps.
        yield relative_error("variance in the end", predicted["late"], measured["late"], 0.01)
        yield upper_bound(
            "distance moved by random and by the worst noise", predicted["bound"], measured["bound"]
        )


def _small_step_floor(setting: Schedules, value: np.ndarray) -> np.ndarray:
    wrong = value.copy()
    wrong[0] = setting.eta * setting.noise_std**2 / (2 * setting.curvature)
    return wrong


def _no_convergence(setting: Schedules, value: np.ndarray) -> np.ndarray:
    """As if c/sqrt t left a floor: steps must be summable in squares."""
    wrong = value.copy()
    wrong[2] = np.maximum(wrong[2], wrong[0, -1])
    return wrong


CLAIMS = (
    Claim(
        id="noisy-gd-schedule",
        title="a constant step leaves a floor; steps that go to zero, with an infinite sum, leave nothing",
        statement="""On a loss of curvature lam with gradient noise of variance s^2 a constant step leaves the
        variance eta s^2/(lam (2 - eta lam)). Steps c/t leave c^2 s^2/((2 c lam - 1) t), if 2 c lam > 1, and
        c/sqrt t leaves c s^2/(2 lam sqrt t): squares of steps with a finite sum are enough, and not needed.
        1/(lam (t + s^2/(lam^2 v))) is best from a start of variance v and leaves 1/(1/v + t lam^2/s^2). With
        steps of at most 1/lam_max noise moves the weights by at most the sum over s of
        eta_s |xi_s| exp(-lam_min times the sum of later steps).""",
        source=orf_543("7"),
        quick=Schedules(chains=5000, steps=500),
        full=Schedules(chains=100_000, steps=5000),
        figure=Curves("records", "step"),
        bounds={"bound": "above"},
        wrong={
            "variances": (scaled(1.25), _no_convergence),
            "late": (_small_step_floor, scaled(1.1)),
            "bound": scaled(0.9),
        },
    ),
)
