"""Initial weights of several sizes: how lazy they make a network, and how well it then generalises."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact, sample_mean, stacked
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import shifted
from finitewidth.course.lazy_training.networks.initial_scales import teacher_task, train_at_scales
from finitewidth.course.lazy_training.networks.linearised_path import linearised_path
from finitewidth.course.lazy_training.networks.one_hidden_sum import relu_neurons
from finitewidth.report import style
from finitewidth.report.style import Figure


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


@dataclass(frozen=True)
class LazyOrRich:
    """Students of several initial scales on a teacher of three ReLU neurons, 15 points per input."""

    scales: tuple[float, ...]
    students: int
    n_in: int = 10
    width: int = 40
    steps: int = 3000

    def theory(self) -> Prediction:
        """Between which logarithms to base 2 the ratios lie: richest over laziest, and each over the next."""
        return {"test": np.array([-40.0, -1.0]), "motion": np.array([0.5, 40.0])}

    def measure(self, key) -> Measurement:
        net = equal_layers(self.width, 1, "relu", 0.0, 1.0, lambda_b=0.0)
        sweeps = [_student(self, net, k) for k in jax.random.split(key, self.students)]
        train, test, motion = (
            np.log2([getattr(sweep, name) for sweep in sweeps])
            for name in ("train_losses", "test_losses", "motion")
        )
        return {
            "train": stacked([sample_mean(column) for column in train.T]),
            "losses": stacked([sample_mean(column) for column in test.T]),
            "test": exact(test[:, 0] - test[:, -1]),
            "motion": exact(motion[:, :-1] - motion[:, 1:]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "test": "log2 of a student's test losses, smallest scale over largest",
            "motion": "log2 of a student's relative motions, each scale over the next",
        }
        nearest = {name: np.clip(measured[name].value, *predicted[name]) for name in texts}
        return [absolute_error(text, nearest[name], measured[name], 1e-9) for name, text in texts.items()]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (axes,) = style.panels("Small initial weights find the teacher")
        for name, label, color in (("losses", "test", style.PALETTE[1]), ("train", "training", style.GREY)):
            found = measured[name]
            spread = np.log(2) * 2**found.value * found.sem
            axes.plot(self.scales, 2**found.value, color=color, lw=1)
            style.measured_points(axes, self.scales, 2**found.value, spread, color, f"{label} loss")
        axes.set(xscale="log", yscale="log", xlabel="scale of the initial weights", ylabel="loss")
        axes.legend()
        return figure


def _student(setting: LazyOrRich, net, key: PRNGKeyArray):
    task_key, net_key = jax.random.split(key)
    task = teacher_task(task_key, n_in=setting.n_in, points=15 * setting.n_in, test=500)
    return train_at_scales(
        net, net.init(net_key, setting.n_in), task, setting.scales, steps=setting.steps, edge=1.0
    )


def _scale_does_not_matter(setting: LazyOrRich, value: np.ndarray) -> np.ndarray:
    """Test losses that are equal up to a tenth."""
    return np.array([-0.15, 0.15])


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
        and hardly moves. Inputs are standard normal, 15 points per input dimension, labels have variance one
        and no noise, and the step is 1/lambda with the largest eigenvalue of the tangent kernel over the
        number of points.""",
        source=_SOURCE,
        quick=LazyOrRich((0.1, 10.0), students=3),
        full=LazyOrRich((0.1, 0.3, 1.0, 3.0, 10.0), students=6, n_in=20, width=60, steps=6000),
        wrong={"test": _scale_does_not_matter},
    ),
)
