"""Noise drives weights along a valley, to where its walls are flat."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.estimate import Estimate, sample_mean
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import constant
from finitewidth.course.stochastic_gradients.networks.label_noise import label_noise_runs
from finitewidth.course.stochastic_gradients.theory.label_noise import label_noise_path
from finitewidth.course.stochastic_gradients.theory.valleys import entropic_drift, valley_drift
from finitewidth.report import style
from finitewidth.report.style import Figure

# Curvatures of the walls at a place s of the floor, and their slopes: one wall, and two that pull against
# each other.
Walls = Callable[[np.ndarray], tuple[list[np.ndarray], list[np.ndarray]]]
WALLS: dict[str, Walls] = {
    "one wall": lambda s: ([2 + s**2], [2 * s]),
    "opposed walls": lambda s: ([2 + s**2, 3 - s], [2 * s, -np.ones_like(s)]),
}


def loss(params):
    """The valley with opposed walls, as a function of its floor and of the distances from it."""
    s, t = params
    return 0.5 * ((2 + s**2) * t[0] ** 2 + (3 - s) * t[1] ** 2)


def network(params, x):
    """One hidden tanh layer on numbers."""
    w, b, a = params
    return jnp.tanh(x * w + b) @ a


@dataclass(frozen=True)
class Drift(RandomProblem):
    """Weights in valleys with one and two walls, and a small network with noisy labels.

    The step on the network is half the inverse of the trace of its Hessian, and the noise in its labels such
    that the drift is over within the steps: sigma^2/m = 3/(steps eta^2).
    """

    chains: int
    network_chains: int
    steps: int = 600
    network_steps: int = 3000
    records: int = 6
    eta: float = 0.1
    alpha: float = 0.7
    start: float = 1.5
    neurons: int = 6

    @property
    def times(self) -> np.ndarray:
        return self.steps // self.records * np.arange(1, self.records + 1)

    @functools.cached_property
    def fitted(self) -> tuple[tuple, np.ndarray, np.ndarray, float]:
        """A network that fits three points, the points, their labels, and the trace of its Hessian."""
        rng = self.rng(0)
        x, y = np.array([[-1.0], [0.2], [1.0]]), rng.normal(size=3)
        params = tuple(jnp.asarray(rng.normal(size=self.neurons)) for _ in range(3))
        slope = jax.grad(lambda p: 0.5 * jnp.mean((network(p, x) - y) ** 2))
        step = lambda _, p: jax.tree.map(lambda w, g: w - 0.05 * g, p, slope(p))
        params, jacobian = jax.jit(
            lambda p: (q := lax.fori_loop(0, 20_000, step, p), jax.jacrev(network)(q, x))
        )(params)
        return params, x, y, sum(float(jnp.sum(part**2)) for part in jacobian) / 3

    def noisy(self) -> dict[str, float]:
        """The noise and the step of training with noisy labels."""
        eta = 0.5 / self.fitted[3]
        return {"noise_std": float(np.sqrt(9 / (self.network_steps * eta**2))), "eta": eta}

    def path(self, walls: Walls, alpha: float, eta_walls: float) -> np.ndarray:
        """Means at the recorded times, one step of the mean motion after the other.

        `eta_walls` is the step as it enters the variance across the walls: 0 for its leading order.
        """
        s, found = np.array(self.start), []
        for _ in range(self.steps):
            curvatures, slopes = walls(s)
            step = valley_drift(np.array(curvatures), np.array(slopes)[:, None], alpha, eta_walls)[0]
            s = s + step * (self.eta / eta_walls) ** 2
            found.append(s)
        return np.array(found)[self.times - 1]

    def theory(self) -> Prediction:
        start = jnp.asarray(self.start), jnp.zeros(2)
        curvatures = WALLS["opposed walls"](np.array(self.start))[0]
        noise = np.diag([0.0, *(self.alpha * float(c) for c in curvatures)])
        params, x, y, _ = self.fitted
        settings = self.noisy()
        found = label_noise_path(
            network,
            params,
            x,
            y,
            noise_std=settings["noise_std"],
            batch_size=3,
            eta=settings["eta"],
            steps=self.network_steps,
            record_every=self.network_steps // self.records,
        )
        return {
            **{name: self.path(walls, self.alpha, self.eta) for name, walls in WALLS.items()},
            "first step": np.asarray(entropic_drift(loss, start, noise, self.eta)[0]),
            "trace": np.asarray(found.traces),
        }

    def measure(self, key) -> Measurement:
        walk_key, net_key = jax.random.split(key)
        rng = random_generator(walk_key)
        params, x, y, _ = self.fitted
        settings = self.noisy()
        runs = label_noise_runs(
            network,
            params,
            x,
            y,
            noise_std=settings["noise_std"],
            batch_size=3,
            learning_rate=settings["eta"],
            steps=self.network_steps,
            key=net_key,
            chains=self.network_chains,
            record_every=self.network_steps // self.records,
        )
        return {
            **{name: self.walk(rng, walls) for name, walls in WALLS.items()},
            "first step": self.settled_step(rng),
            "trace": runs.trace,
        }

    def walk(self, rng: np.random.Generator, walls: Walls) -> Estimate:
        """Gradient descent with noise of variance alpha h on every wall, none along the floor."""
        s = np.full(self.chains, self.start)
        t = [np.zeros(self.chains) for _ in walls(s)[0]]
        found = []
        for number in range(-50, self.steps):
            curvatures, slopes = walls(s)
            pull = sum(d * u**2 / 2 for d, u in zip(slopes, t, strict=True))
            t = [
                u - self.eta * (h * u + np.sqrt(self.alpha * h) * rng.standard_normal(self.chains))
                for h, u in zip(curvatures, t, strict=True)
            ]
            if number >= 0:  # the walls settle first, at the start
                s = s - self.eta * pull
            if number + 1 in self.times:
                found.append(s)
        return sample_mean(np.stack(found, axis=1))

    def settled_step(self, rng: np.random.Generator) -> Estimate:
        """The mean step of the floor while it is held at the start, with opposed walls."""
        curvatures, slopes = WALLS["opposed walls"](np.array(self.start))
        total, t = np.zeros(self.chains), np.zeros((2, self.chains))
        h, d = np.array(curvatures)[:, None], np.array(slopes)[:, None]
        for number in range(300):
            t = t - self.eta * (h * t + np.sqrt(self.alpha * h) * rng.standard_normal(t.shape))
            if number >= 100:
                total -= self.eta * np.sum(d * t**2, axis=0) / 2
        return sample_mean(total / 200)

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name in WALLS:
            # The walls follow the floor with a delay of about 1/(eta h): 3 % of the way.
            moved = np.abs(predicted[name] - self.start)
            yield z_score(f"floor, {name}", predicted[name], measured[name], 0.03 * moved)
        yield z_score("step along a floor at rest", predicted["first step"], measured["first step"])
        moved = np.abs(predicted["trace"] - predicted["trace"][0])
        yield z_score(
            "trace of the Hessian, noisy labels", predicted["trace"], measured["trace"], 0.1 * moved.max()
        )

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (left, right) = style.panels("Noise drives weights to flat regions", 2)
        for name, color in zip(WALLS, style.PALETTE, strict=False):
            value, sem = measured[name]
            line = np.append(self.start, predicted[name])
            style.theory_line(left, np.append(0, self.times), line, color, name)
            style.measured_points(left, self.times, value, sem, color)
        left.set(xlabel="step", ylabel="mean place on the floor", title="Valleys")
        times = self.network_steps // self.records * np.arange(self.records + 1)
        value, sem = measured["trace"]
        style.theory_line(right, times, predicted["trace"], style.PALETTE[0])
        style.measured_points(right, times, value, sem, style.PALETTE[1])
        right.set(xlabel="step", ylabel="trace of the Hessian", title="Network with noisy labels")
        for axes, what in ((left, "simulated"), (right, "networks")):
            style.legend(axes, what)
        return figure


def _half_as_fast(walls: str):
    return lambda setting, value: setting.path(WALLS[walls], setting.alpha / 2, setting.eta)


def _leading(walls: str):
    """The variance across a wall to leading order in the step."""
    return lambda setting, value: setting.path(WALLS[walls], setting.alpha, 1e-6)


def _one_power_of_the_step(setting: Drift, value: np.ndarray) -> np.ndarray:
    return np.asarray(value / setting.eta)


def _twice_the_fall(setting: Drift, value: np.ndarray) -> np.ndarray:
    return 2 * value - value[0]


def _every_wall_falls(setting: Drift, value: np.ndarray) -> np.ndarray:
    """Drifts of single walls, each with the sign that makes it flatter."""
    (h, other), (d, slope) = WALLS["opposed walls"](np.array(setting.start))
    drift = lambda h, d: valley_drift(np.array([h]), np.array([[d]]), setting.alpha, setting.eta)[0]
    return np.array(-abs(drift(h, d)) - abs(drift(other, slope)))


CLAIMS = (
    Claim(
        id="entropic-force",
        title="noise across a valley drives weights to where its walls are flat",
        statement="""With gradient noise alpha h_j on walls of curvature h_j and none along the floor, the
        mean step along the floor is -(eta/2) sum_j alpha eta/(2 - eta h_j) grad h_j, to leading order
        -(alpha eta^2/4) grad sum_j h_j: the sum of the curvatures falls, a single one may rise. The means
        follow this drift within 3 % of the way. Noise in the labels of a network that fits its points has
        alpha = sigma^2/b, and lowers the trace of its Hessian as gradient descent with the penalty
        -(alpha/2) log det(1 - eta Theta/(2m)) does, within a tenth of the fall.""",
        source=f"{orf_543('11/16')} (noisy labels are beyond it)",
        quick=Drift(chains=4000, network_chains=64),
        full=Drift(chains=40_000, network_chains=256, network_steps=12_000),
        wrong={
            "one wall": (_half_as_fast("one wall"), _leading("one wall")),
            "opposed walls": _half_as_fast("opposed walls"),
            "first step": (_one_power_of_the_step, _every_wall_falls),
            "trace": (constant, _twice_the_fall),
        },
    ),
)
