"""Networks as measures: a convex risk, and training as motion by the shortest way."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves, power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.orders import leading_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.mean_field.networks import two_layers
from finitewidth.course.mean_field.theory.population import neuron_population
from finitewidth.course.mean_field.theory.transport import minimising_movement, potential_curvature
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class Mixtures(RandomProblem):
    """Pairs of trained networks, their mixtures, and averages of their weights with permuted ones."""

    pairs: int
    neurons: int = 24
    points: int = 12
    shares: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
    tau: float = 0.3
    steps: int = 200

    @functools.cached_property
    def trained(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Neurons of all networks, half of them partners of the others; inputs and labels."""
        rng, m = self.rng(0), self.neurons
        x = np.linspace(-1.5, 1.5, self.points)
        y = np.sin(2 * x + rng.uniform(0, 2 * np.pi))
        start = rng.uniform(-np.sqrt(3), np.sqrt(3), (2 * self.pairs, m, 3))
        return two_layers.train(start, x, y, x, 1 / m, m * self.tau, self.steps).end, x, y

    def theory(self) -> Prediction:
        """Of half the mean square the mixture is below the line by t (1 - t)/2 mean (f - g)^2."""
        ends, x, y = self.trained
        gaps, line = [], []
        for first, second in zip(ends[: self.pairs], ends[self.pairs :], strict=True):
            a, b = neuron_population(first), neuron_population(second)
            f, g = np.asarray(a(x[:, None])), np.asarray(b(x[:, None]))
            t = np.array(self.shares)
            gaps.append(t * (1 - t) / 2 * np.mean((f - g) ** 2))
            line.append((1 - t) * _logistic(f, np.sign(y)) + t * _logistic(g, np.sign(y)))
        return {"gap": np.array(gaps), "line": np.array(line), "raised": np.array(1.0)}

    def measure(self, key) -> Measurement:
        ends, x, y = self.trained
        rng, m = random_generator(key), self.neurons
        gaps, mixed, raised = [], [], 0
        for first, second in zip(ends[: self.pairs], ends[self.pairs :], strict=True):
            losses, others = [], []
            for t in self.shares:
                # A network with the neurons of both, output weights scaled by their shares.
                both = np.concatenate([first * [1, 1, 1 - t], second * [1, 1, t]])[None]
                z = two_layers.outputs(both, x, 1 / m)[0]
                losses.append(np.mean((z - y) ** 2) / 2)
                others.append(_logistic(z, np.sign(y)))
            line = np.interp(self.shares, (0, 1), (losses[0], losses[-1]))
            gaps.append(line - np.array(losses))
            mixed.append(others)
            middle = (first + rng.permutation(first)) / 2
            z = two_layers.outputs(middle[None], x, 1 / m)[0]
            raised += np.mean((z - y) ** 2) / 2 > losses[0]
        return {
            "gap": exact(np.array(gaps)),
            "line": exact(np.array(mixed)),
            "raised": exact(np.array(raised / self.pairs)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("square loss below the line", predicted["gap"], measured["gap"], 1e-12),
            upper_bound("logistic loss of mixtures", predicted["line"], measured["line"]),
            absolute_error(
                "share of permuted averages with a larger loss", predicted["raised"], measured["raised"], 0.1
            ),
        ]


def _logistic(z: np.ndarray, sign: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, -sign * z)))


@dataclass(frozen=True)
class Movements(RandomProblem):
    """A few tanh neurons on a wave: one step of length tau, in halves of 0.2 over the largest curvature."""

    halvings: int
    neurons: int = 12
    points: int = 8
    longest: float = 0.2

    @functools.cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Neurons, inputs and labels."""
        rng = self.rng(0)
        x = np.linspace(-1.5, 1.5, self.points)
        start = rng.uniform(-np.sqrt(3), np.sqrt(3), (self.neurons, 3))
        return start, x, np.sin(2 * x + rng.uniform(0, 2 * np.pi))

    @functools.cached_property
    def taus(self) -> np.ndarray:
        """Steps in units of the inverse curvature of the risk, m times its Hessian in all weights."""
        neurons, x, y = self.start
        risk = lambda w: 0.5 * jnp.mean((_outputs(w.reshape(-1, 3), x) - y) ** 2)
        hessian = jax.jit(jax.hessian(risk))(neurons.ravel())
        largest = np.abs(np.linalg.eigvalsh(self.neurons * np.asarray(hessian))).max()
        return self.longest / largest * 0.5 ** np.arange(self.halvings + 1)

    def theory(self) -> Prediction:
        neurons, x, y = self.start
        start = neuron_population(neurons)
        found = [minimising_movement(start, x[:, None], y, float(tau)) for tau in self.taus]
        return {
            "positions": np.array([np.asarray(step.population.neurons) for step in found]),
            "order": np.array(2.0),
            "distance": np.array([step.squared_distance for step in found]),
            "curvature": np.array(potential_curvature(start, x[:, None], y)),
        }

    def measure(self, key) -> Measurement:
        """Gradient descent on the weights of the network, with the rate m tau."""
        neurons, x, y = self.start
        slope = jax.jit(jax.grad(lambda w: 0.5 * jnp.mean((_outputs(w, x) - y) ** 2)))
        moved = neurons - self.neurons * self.taus[:, None, None] * np.asarray(slope(neurons))
        # The order in which neurons are listed means nothing: their distance is over the best pairing.
        order = random_generator(key).permutation(self.neurons)
        distance = [_assigned(neurons, cloud[order]) for cloud in moved]
        return {
            "positions": exact(moved),
            "distance": exact(np.array(distance)),
            "curvature": exact(self.longest / self.taus[0]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        gap = np.linalg.norm(predicted["positions"] - measured["positions"].value, axis=(1, 2))
        order = leading_power(self.taus, gap)
        # The two steps differ by tau times the curvature, relatively.
        room = 2 * self.longest * self.taus / self.taus[0]
        return [
            absolute_error("power of tau between both steps", predicted["order"], order, 0.1),
            relative_error("W2^2 of a step", predicted["distance"], measured["distance"], room),
            relative_error("curvature of the risk", predicted["curvature"], measured["curvature"], 1e-8),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        gap = np.linalg.norm(predicted["positions"] - measured["positions"].value, axis=(1, 2))
        laws = {"distance of both steps": (exact(gap), predicted["order"])}
        title = "Gradient descent is a minimising movement up to the square of the step"
        return power_laws(title, self.taus, laws, r"step $\tau$", "distance of the weights")


def _outputs(neurons, x):
    return jnp.tanh(x[:, None] * neurons[:, 0] + neurons[:, 1]) @ neurons[:, 2] / len(neurons)


def _assigned(first: np.ndarray, second: np.ndarray) -> float:
    """The least mean squared distance over pairings: swap partners as long as it helps."""
    second = second.copy()
    while True:
        cost = np.sum((first[:, None] - second) ** 2, axis=-1)
        own = np.diag(cost)
        gain = own[:, None] + own - cost - cost.T
        i, j = np.unravel_index(np.argmax(gain), gain.shape)
        if gain[i, j] <= 1e-14:
            return float(own.mean())
        second[[i, j]] = second[[j, i]]


def _twice_the_cost(setting: Movements, value: np.ndarray) -> np.ndarray:
    """Steps with W2^2/tau in the place of W2^2/(2 tau)."""
    neurons, x, y = setting.start
    start = neuron_population(neurons)
    found = [minimising_movement(start, x[:, None], y, float(tau) / 2) for tau in setting.taus]
    return np.array([np.asarray(step.population.neurons) for step in found])


CLAIMS = (
    Claim(
        id="mf-convex-in-measure",
        title="the risk is convex in the measure of neurons, not in the weights",
        statement="""A network is linear in the measure of its neurons, so that a convex loss is convex in
        it: half the mean square of the mixture (1 - t) mu + t nu is below the line between both by exactly
        t (1 - t)/2 mean (f - g)^2, and the logistic loss is nowhere above. In the weights it is not convex:
        averaging a trained network with a copy whose neurons are permuted raises its loss, in at least nine
        of ten cases.""",
        source=f"{IEMS_402}, mean field",
        quick=Mixtures(pairs=40),
        full=Mixtures(pairs=400),
        figure=Curves("shares", "share of the second network"),
        bounds={"line": "above"},
        wrong={"gap": (scaled(2.0), scaled(0.0)), "raised": scaled(0.0), "line": scaled(0.5)},
    ),
    Claim(
        id="w2-gradient-flow",
        title="a step of gradient descent is a minimising movement in Wasserstein's distance",
        statement="""Gradient descent on the weights of m neurons with the rate m tau is, up to order tau^2,
        the step mu' = argmin R(mu') + W2^2(mu', mu)/(2 tau). For steps up to 0.2 over the largest curvature
        of m R the order is 2 within 0.1, and the best pairing is each neuron with itself.""",
        source=f"{IEMS_402}, Wasserstein gradient flow (its square and its 1/(2 tau) added)",
        quick=Movements(halvings=3),
        full=Movements(halvings=6, neurons=40),
        wrong={"positions": _twice_the_cost, "distance": (scaled(0.25), scaled(2.0)), "order": scaled(0.5)},
    ),
)
