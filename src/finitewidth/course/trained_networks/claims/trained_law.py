"""The distribution of trained networks, at infinite width and in ensembles."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each, depth_over_width
from finitewidth.course._lab.estimate import Estimate, sample_mean
from finitewidth.course._lab.sources import BEYOND, DAY_2
from finitewidth.course._lab.wrong import constant, scaled
from finitewidth.networks.models import as_model
from finitewidth.networks.training.ensembles import train_ensemble
from finitewidth.networks.training.observables import Outputs
from finitewidth.prediction.methods.infinite_width.curves import loss_curves
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.report import style
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class Ensembles:
    """Networks on six points of a line, looked at along a grid while they train."""

    hidden: tuple[int, ...]
    networks: int
    tests: int
    every: int = 15
    steps: int = 60
    eta: float = 0.1

    @property
    def network(self) -> Layer:
        """erf networks, whose kernels are known in closed form."""
        return MLP(self.hidden, "erf", C_b=0.2, C_W=1.8)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training inputs and labels, and where to predict."""
        x = np.array([-1.5, -1.0, -0.4, 0.3, 0.9, 1.4])[:, None]
        return x, np.sin(2.5 * x), np.linspace(-2.0, 2.0, self.tests)[:, None]

    @property
    def times(self) -> np.ndarray:
        """Numbers of steps at which the networks are looked at."""
        return np.arange(0, self.steps + 1, self.every)

    def theory(self) -> Prediction:
        problem = TrainingProblem.of(self.network, *self.data)
        descent = GradientDescent(self.eta)
        laws = [trained_distribution(problem, descent.stopped(t)) for t in self.times.tolist()]
        return {
            "mean": np.array([law.mean[:, 0] for law in laws]),
            "covariance": np.array([law.covariance for law in laws]),
            "loss": loss_curves(problem, descent, self.times).train * len(self.data[0]),
        }

    def measure(self, key) -> Measurement:
        net, (x, y, tests) = self.network, self.data
        observe = {
            "tests": Outputs(as_model(net), jnp.asarray(tests)),
            "train": Outputs(as_model(net), jnp.asarray(x)),
        }
        settings = {"steps": self.steps, "learning_rate": self.eta, "record_every": self.every}
        seen = train_ensemble(net, key, self.networks, x, y, record=observe, **settings).recorded
        z = np.asarray(seen["tests"])[..., 0]
        losses = np.sum((np.asarray(seen["train"]) - y) ** 2, axis=(-2, -1)) / 2
        return {"mean": sample_mean(z), "covariance": _covariance(z), "loss": sample_mean(losses)}

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (left, right) = style.panels("Trained networks have the predicted law", count=2)
        x, y, tests = (a[:, 0] for a in self.data)
        for t, color in zip((0, 1, -1), (style.GREY, style.PALETTE[4], style.PALETTE[0]), strict=True):
            mean, std = predicted["mean"][t], np.sqrt(np.diagonal(predicted["covariance"][t]))
            style.theory_line(left, tests, mean, color, f"after {self.times[t]} steps")
            left.fill_between(tests, mean - std, mean + std, color=color, alpha=0.15, lw=0)
            found = measured["mean"].value[t]
            style.measured_points(left, tests, found, measured["mean"].sem[t], color)
        (data,) = left.plot(x, y, "x", ms=7, mew=2, color=style.PALETTE[1], zorder=4)
        left.set(xlabel=r"$x$", ylabel="mean and one standard deviation", ylim=(-1.3, 1.5))
        left.legend([data], ["data"], loc="upper left")
        for t, color in zip((0, 1, -1), (style.GREY, style.PALETTE[4], style.PALETTE[0]), strict=True):
            C = measured["covariance"]
            diagonal = [np.diagonal(part[t]) for part in (predicted["covariance"], C.value, C.sem)]
            std = np.sqrt(np.maximum(diagonal[:2], 0))
            style.theory_line(right, tests, std[0], color, f"after {self.times[t]} steps")
            style.measured_points(right, tests, std[1], diagonal[2] / (2 * std[1]), color)
        right.set(xlabel=r"$x$", ylabel="standard deviation over networks", ylim=(0, None))
        style.legend(right)
        return figure


def _covariance(z: np.ndarray) -> Estimate:
    """Second moments about the mean of a Gaussian sample, with their standard errors."""
    centred = z - z.mean(axis=0)
    C = np.einsum("sta,stb->tab", centred, centred) / (len(z) - 1)
    square = np.einsum("taa,tbb->tab", C, C)
    return Estimate(C, np.sqrt((square + C**2) / (len(z) - 1)))


def _finite_width(setting: Ensembles, value: np.ndarray) -> float:
    depth = len(setting.hidden) + 1
    return float(depth_over_width(depth, min(setting.hidden))) * np.abs(value).max()


CLAIMS = (
    Claim(
        id="trained-law",
        title="mean and covariance of trained networks",
        statement="""At infinite width, networks trained by t steps of gradient descent have Gaussian outputs
        with mean M y and covariance K_BB - M K_AB - K_BA M^T + M K_AA M^T, where M = Theta_BA Theta_AA^-1 (1
        - (1 - eta Theta_AA)^t); wide networks follow it from the start to the end of training.""",
        source=f"{BEYOND}: {DAY_2}, with random initial outputs",
        quick=Ensembles(hidden=(1024,), networks=200, tests=17),
        full=Ensembles(hidden=(1024, 1024), networks=200, tests=25),
        compare=compare_each(
            {name: f"{name} over the whole of training" for name in ("mean", "covariance", "loss")},
            within=_finite_width,
        ),
        wrong={"mean": constant, "covariance": constant, "loss": scaled(1.2)},
    ),
)
