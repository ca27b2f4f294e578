"""Initial weights of several sizes: how lazy they make a network, and how well it then generalises."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import Params
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact, sample_mean, stacked
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled, shifted
from finitewidth.course.lazy_training.networks.initial_scales import Task, teacher_task, train_at_scales
from finitewidth.course.lazy_training.networks.linearised_path import linearised_path
from finitewidth.course.lazy_training.networks.one_hidden_sum import relu_neurons
from finitewidth.report import style
from finitewidth.report.style import Figure

# Relative change of the tangent kernel's predictions over the relative motion of the weights, about.
_CHANGED = 5.0


@dataclass(frozen=True)
class InitialScales:
    """Opposite pairs of ReLU neurons, trained on unit labels from multiples of their weights."""

    multiples: tuple[float, ...]
    pairs: int = 30
    points: int = 8
    n_in: int = 4
    steps: int = 600
    edge: float = 0.3

    def theory(self) -> Prediction:
        """Residuals of order one over a differential of order lam, over weights of order lam."""
        return {"exponent": np.array(-2.0)}

    def measure(self, key) -> Measurement:
        keys = jax.random.split(key, 3)
        half = np.asarray(jax.random.normal(keys[0], (self.pairs, self.n_in + 1)))
        rows = np.concatenate([half, half * np.append(np.ones(self.n_in), -1)])
        x = np.asarray(jax.random.normal(keys[1], (self.points, self.n_in)))
        y = np.asarray(jax.random.normal(keys[2], (self.points, 1)))
        y = y / np.sqrt(np.mean(y**2))
        largest = np.linalg.norm(_jacobian(rows, x), 2) ** 2
        motion = [
            linearised_path(
                relu_neurons,
                m * rows,
                x,
                y,
                learning_rate=float(self.edge / (m**2 * largest)),
                steps=self.steps,
                record_every=self.steps,
            ).relative_motion
            for m in self.multiples
        ]
        return {
            "motion": exact(np.array(motion)),
            "exponent": exact(fitted_power(np.array(self.multiples), np.array(motion))),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        name = "exponent of the relative motion of the weights"
        return [absolute_error(name, predicted["exponent"], measured["exponent"], 0.05)]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        laws = {r"$|w-w_0|/|w_0|$": (measured["motion"], predicted["exponent"])}
        labels = r"multiple $\lambda$ of the initial weights", "relative motion"
        return power_laws("Larger initial weights move less", self.multiples, laws, *labels)


def _jacobian(rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    before = x @ rows[:, :-1].T
    inner = ((before > 0) * rows[:, -1])[:, :, None] * x[:, None, :]
    both = np.concatenate([inner, np.maximum(before, 0)[:, :, None]], axis=2)
    return both.reshape(len(x), -1) / np.sqrt(len(rows))


class LazyEnd(NamedTuple):
    """A student linearised at its start: test loss, and motion relative to the weights, after training."""

    test_loss: float
    motion: float


@dataclass(frozen=True)
class LazyOrRich(RandomProblem):
    """Students of several initial scales on a teacher of three ReLU neurons, 15 points per input."""

    scales: tuple[float, ...]
    students: int
    n_in: int = 10
    width: int = 40
    steps: int = 3000
    edge: float = 1.0

    @property
    def network(self) -> Layer:
        """One hidden ReLU layer without biases."""
        return equal_layers(self.width, 1, "relu", 0.0, 1.0, lambda_b=0.0)

    @functools.cached_property
    def drawn_students(self) -> list[tuple[Task, Params]]:
        """Tasks, and networks at scale one."""
        found = []
        for key in jax.random.split(jax.random.key(self.seed), self.students):
            task_key, net_key = jax.random.split(key)
            task = teacher_task(task_key, n_in=self.n_in, points=15 * self.n_in, test=500)
            found.append((task, self.network.init(net_key, self.n_in)))
        return found

    def theory(self) -> Prediction:
        """The laziest students are linear in their weights; the richest lose half of their loss or more."""
        lazy = [self.linearised(*student) for student in self.drawn_students]
        return {
            "lazy loss": np.array([one.test_loss for one in lazy]),
            "lazy motion": np.array([one.motion for one in lazy]),
            "ratio": np.array(0.5),
        }

    def linearised(self, task: Task, params: Params) -> LazyEnd:
        """Gradient descent with the tangent kernel of the start, at the largest scale."""
        first, last = (np.asarray(layer.weight) * self.scales[-1] for layer in params)
        x = np.concatenate([task.x, task.x_test])
        m, before = len(task.x), x @ first.T
        hidden, slopes = np.maximum(before, 0), (before > 0) * last
        # Squared rates 1/n are those of the raw weights, whose motion is asked.
        kernels = [
            hidden @ hidden.T / self.width**power + slopes @ slopes.T * (x @ x.T) / self.n_in**power
            for power in (1, 2)
        ]
        values, vectors = np.linalg.eigh(kernels[0][:m, :m])
        left = (1 - self.edge * np.maximum(values, 0) / values[-1]) ** self.steps
        gains = np.where(values > 1e-12 * values[-1], (1 - left) / values, 0.0)
        dual = vectors @ (gains * (vectors.T @ task.y[:, 0]))
        missed = kernels[0][m:, :m] @ dual - task.y_test[:, 0]
        moved = dual @ kernels[1][:m, :m] @ dual
        return LazyEnd(
            float(np.mean(missed**2)) / 2, float(np.sqrt(moved / (np.sum(first**2) + np.sum(last**2))))
        )

    def measure(self, key) -> Measurement:
        sweeps = [
            train_at_scales(self.network, params, task, self.scales, steps=self.steps, edge=self.edge)
            for task, params in self.drawn_students
        ]
        train, test, motion = (
            np.array([getattr(sweep, name) for sweep in sweeps])
            for name in ("train_losses", "test_losses", "motion")
        )
        return {
            "train": stacked([sample_mean(column) for column in np.log2(train).T]),
            "losses": stacked([sample_mean(column) for column in np.log2(test).T]),
            "lazy loss": exact(test[:, -1]),
            "lazy motion": exact(motion[:, -1]),
            "ratio": exact(test[:, 0] / test[:, -1]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Weights that move by a share of themselves change the tangent kernel by about as much.
        allowed = _CHANGED * predicted["lazy motion"]
        texts = {"lazy loss": "test loss of the laziest students", "lazy motion": "their relative motion"}
        for name, text in texts.items():
            yield relative_error(
                text, predicted[name], measured[name], allowed, "changes of the tangent kernel"
            )
        yield upper_bound("test loss, smallest scale over largest", predicted["ratio"], measured["ratio"])

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (axes,) = style.panels("Small initial weights find the teacher")
        for name, label, color in (("losses", "test", style.PALETTE[1]), ("train", "training", style.GREY)):
            found = measured[name]
            spread = np.log(2) * 2**found.value * found.sem
            axes.plot(self.scales, 2**found.value, color=color, lw=1)
            style.measured_points(axes, self.scales, 2**found.value, spread, color, f"{label} loss")
        lazy = float(2 ** np.mean(np.log2(predicted["lazy loss"])))
        axes.axhline(lazy, color=style.PALETTE[0], lw=1, ls="--", label="test loss, linearised")
        axes.set(xscale="log", yscale="log", xlabel="scale of the initial weights", ylabel="loss")
        axes.legend()
        return figure


def _untrained(setting: LazyOrRich, value: np.ndarray) -> np.ndarray:
    """The loss of a student that has learnt nothing: labels have variance one."""
    return np.full_like(value, 0.5)


_SOURCE = f"{IEMS_402}, lazy training"

CLAIMS = (
    Claim(
        id="lazy-init-scale",
        title="initial weights lam times as large move lam^-2 times as far, relatively",
        statement="""Opposite pairs of ReLU neurons, trained from lam w_0 on labels of size one, move by a
        share of their length that falls like lam^-2, from lam = 4 on. Larger labels need larger lam, in
        proportion to the root of their size.""",
        source=f"{_SOURCE} (made quantitative here)",
        quick=InitialScales((4.0, 8.0, 16.0)),
        full=InitialScales(tuple(2.0**k for k in range(2, 8)), steps=1500),
        wrong={"exponent": (shifted(1.0), shifted(-2.0))},
    ),
    Claim(
        id="lazy-vs-feature-generalisation",
        title="on a teacher of few neurons rich students beat lazy ones",
        statement="""Students of one hidden ReLU layer that start with small weights find a teacher of three
        ReLU neurons: the test loss of each is less than half of its loss when it starts with large weights
        and hardly moves. Then it learns what its tangent kernel at the start learns, and moves as far as
        that says. Inputs are standard normal, 15 points per input dimension, labels have variance one
        and no noise, and the step is 1/lambda with the largest eigenvalue of the tangent kernel over the
        number of points.""",
        source=_SOURCE,
        quick=LazyOrRich((0.1, 10.0), students=3),
        full=LazyOrRich((0.1, 0.3, 1.0, 3.0, 10.0), students=6, n_in=20, width=60, steps=6000),
        bounds={"ratio": "above"},
        wrong={"lazy loss": (_untrained, scaled(1.3)), "lazy motion": scaled(1.3), "ratio": scaled(1e-3)},
    ),
)
