"""Large steps in wide networks on several points: three phases, told apart by losses and tangent kernels."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.large_learning_rates.networks.phases import (
    TrainingPhase,
    TrainingPhases,
    training_phases,
)
from finitewidth.report import style
from finitewidth.report.style import Figure

# The variance of weights, and a multiple of 1 / lambda_0 from which on training diverges. ReLU and GELU units
# can close, and a few data sets let them come back from 7.
_NETWORKS = {"linear": (1.0, 6.0), "relu": (2.0, 12.0), "gelu": (2.0, 12.0), "tanh": (1.0, 6.0)}


@dataclass(frozen=True)
class Wide:
    """One hidden layer, and steps below 2 and between 2 and 3 as multiples of 1 / lambda_0.

    Divergent ones follow: multiples `beyond` of what is too much for the activation.
    """

    edges: tuple[float, ...]
    beyond: tuple[float, ...] = (1.0, 4 / 3)
    activations: tuple[str, ...] = tuple(_NETWORKS)
    width: int = 1024
    points: int = 10
    n_in: int = 6
    steps: int = 120

    def edges_of(self, activation: str) -> np.ndarray:
        """All steps for an activation."""
        return np.array([*self.edges, *(part * _NETWORKS[activation][1] for part in self.beyond)])

    def theory(self) -> Prediction:
        phases = np.where(np.array(self.edges) < 2, TrainingPhase.LAZY, TrainingPhase.CATAPULT)
        row = np.append(phases, np.full(len(self.beyond), TrainingPhase.DIVERGENT))
        return {"phase": np.tile(row, (len(self.activations), 1)), "final": np.array(2.0)}

    def measure(self, key) -> Measurement:
        found = [self.train(name, key) for name in self.activations]
        ends = [run.sharpness[run.phases == TrainingPhase.CATAPULT].max(initial=0.0) for run in found]
        return {
            "phase": exact(np.stack([run.phases for run in found])),
            "final": exact(np.array(ends)),
            "losses": exact(np.stack([np.nan_to_num(run.losses, posinf=1e300) for run in found])),
        }

    def train(self, activation: str, key: PRNGKeyArray) -> TrainingPhases:
        """Real training of one network, at every step from the same start."""
        data_key, label_key, net_key = jax.random.split(key, 3)
        x = jax.random.normal(data_key, (self.points, self.n_in))
        y = jax.random.normal(label_key, (self.points, 1))
        net = MLP((self.width,), activation, C_b=0.0, C_W=_NETWORKS[activation][0], lambda_b=0.0)
        return training_phases(
            lambda params: net.apply(params, x),
            net.init(net_key, self.n_in),
            y,
            edges=self.edges_of(activation),
            steps=self.steps,
            rates=net.learning_rates(self.n_in),
        )

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error(
                "phase: 0 lazy, 1 catapult, 2 divergent", predicted["phase"], measured["phase"], 0.1
            ),
            upper_bound("eta lambda after a catapult", predicted["final"], measured["final"]),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        picture, panels = style.panels("Wide networks: lazy, catapult, divergent", len(self.activations))
        losses = measured["losses"].value
        for axes, name, rows in zip(panels, self.activations, losses, strict=True):
            for i, (edge, row) in enumerate(zip(self.edges_of(name), rows, strict=True)):
                shown = row[:60] / row[0]
                axes.plot(
                    np.where(shown < 1e5, shown, np.nan),
                    color=style.PALETTE[i % len(style.PALETTE)],
                    label=f"{edge:g}",
                )
            axes.set(yscale="log", ylim=(1e-6, 1e5), xlabel="step", ylabel="loss / first loss", title=name)
            axes.legend(title=r"$\eta\lambda_0$", fontsize=7, loc="lower left")
        return picture


def _divergent_above_two(setting: Wide, value: np.ndarray) -> np.ndarray:
    """No training beyond the limit of the frozen kernel."""
    return np.where(value == TrainingPhase.LAZY, value, TrainingPhase.DIVERGENT)


def _no_upper_edge(setting: Wide, value: np.ndarray) -> np.ndarray:
    """Catapults at any step."""
    return np.minimum(value, TrainingPhase.CATAPULT)


CLAIMS = (
    Claim(
        id="catapult-phases-general",
        title="wide networks have three phases, too",
        statement="""For wide networks with one hidden layer and half the sum of squared errors, eta lambda_0,
        with the largest eigenvalue lambda_0 of the tangent kernel at the start, sorts training into three
        phases. Up to 1.9 the loss never rises above its start. From 2.3 to 3 it rises and then falls,
        and eta lambda < 2 at the end. Linear and tanh units diverge from 6 on, ReLU and GELU units from 12
        on: these can close, and on some data come back from 6 or 7. Seen at width 1,024 on ten points;
        where divergence begins depends on activation and data.""",
        source=f"{orf_543('10/5')} (the upper constant was left open)",
        quick=Wide(edges=(1.0, 1.9, 2.3, 2.6, 3.0)),
        full=Wide(
            edges=(0.5, 1.0, 1.5, 1.9, 2.3, 2.5, 2.7, 3.0),
            beyond=(1.0, 7 / 6, 4 / 3, 2.0),
            width=2048,
            steps=400,
        ),
        bounds={"final": "above"},
        wrong={"phase": (_divergent_above_two, _no_upper_edge), "final": scaled(0.25)},
    ),
)
