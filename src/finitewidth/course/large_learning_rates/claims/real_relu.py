"""The gates of real ReLU networks close in a catapult, at any width."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, z_score
from finitewidth.course._lab.estimate import Estimate, exact, sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.large_learning_rates.networks import one_point
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork
from finitewidth.course.large_learning_rates.theory.catapult_relu import ReluCatapult, relu_catapult

_QUANTITIES = {
    "closed": "share of units that a catapult closes",
    "peak": "largest |z| / width^1/2",
    "final": "eta lambda at the end",
}


@dataclass(frozen=True)
class RealGates:
    """Networks with one hidden ReLU layer on one point with label 0, trained with and above a catapult."""

    widths: tuple[int, ...]
    nets: int
    edge: float = 3.0
    above: tuple[float, ...] = (6.0, 8.0)
    steps: int = 40
    n_in: int = 2
    output: float = 0.8

    def theory(self) -> Prediction:
        paths = [self.wide(self.edge, m) for m in self.widths]
        return {
            "closed": np.array([p.closed[-1] for p in paths]),
            "peak": np.array([p.peak for p in paths]),
            "final": np.array([self.edge * p.kernels[-1] for p in paths]),
            "left": np.array([self.wide(edge, self.widths[-1]).kernels[-1] for edge in self.above]),
        }

    def wide(self, edge: float, width: int) -> ReluCatapult:
        """The average over angles."""
        return relu_catapult(edge, width, output=self.output, steps=self.steps)

    def measure(self, key) -> Measurement:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        found = [self.networks(rng, m, np.array([self.edge])) for m in self.widths]
        far = self.networks(rng, self.widths[-1], np.array(self.above))
        return {
            **{name: stacked([row[name] for row in found]) for name in _QUANTITIES},
            "left": exact(far["left"].value.max(axis=0)),
        }

    def networks(self, rng: np.random.Generator, width: int, edges: np.ndarray) -> dict[str, Estimate]:
        """What real training does to networks of one width."""
        rows = []
        for _ in range(self.nets):
            start = one_point.draw(rng, 1, width, self.n_in, self.output)
            lam, copies = start.kernels[0], start.copies(len(edges))
            run = one_point.train(
                copies._replace(gates=np.repeat(start.gates, len(edges), axis=0)),
                0.0,
                edges / lam,
                self.steps,
                frozen=False,
            )
            closed = np.mean(start.gates & ~run.end.gates, axis=1)
            left = run.kernels[-1] / lam
            rows.append([closed, run.peaks * np.sqrt(start.curvature) / lam, edges * left, left])
        samples: Float[np.ndarray, "nets 4 edges"] = np.array(rows)
        names = (*_QUANTITIES, "left")
        if len(edges) == 1:
            return {name: sample_mean(samples[:, i, 0]) for i, name in enumerate(names)}
        return {"left": exact(samples[:, 3])}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Averages over networks are off from the infinite population by order 1/width.
        within = {"closed": 5.0, "peak": 5.0, "final": 40.0}
        m = np.array(self.widths)
        checks = [
            z_score(text, predicted[name], measured[name], within[name] / m)
            for name, text in _QUANTITIES.items()
        ]
        return [*checks, absolute_error("kernel far above 4", predicted["left"], measured["left"], 0.01)]


def _quadratic_expansion(quantity: str):
    """What the quadratic expansion around the start says: gates that stay open."""

    def wrong(setting: RealGates, value: np.ndarray) -> np.ndarray:
        networks = OnePointNetwork.of_width(np.array(setting.widths, float), setting.output)
        end = networks.phases(setting.edge)
        return np.asarray(end.sharpness if quantity == "final" else end.peak / np.sqrt(setting.widths))

    return wrong


def _divergence(setting: RealGates, value: np.ndarray) -> np.ndarray:
    """Kernels that grow above 4, as those of the quadratic expansion do."""
    return np.full(value.shape, 100.0)


CLAIMS = (
    Claim(
        id="catapult-real-relu-differs",
        title="a catapult closes gates at every width",
        statement="""In a catapult each weight vector of a ReLU network moves by order one, at any width, so
        that the network is not its quadratic expansion. On one point with label 0 and at eta lambda_0 = 3
        about 11 % of all units close for good, outputs rise to 0.21 m^1/2 instead of about 0.29 m^1/2 and
        eta lambda ends near 0.7 instead of 0.2. An average over the angles of the units' weights predicts all
        three. From eta lambda_0 = 6 on the network does not diverge: all its units close.""",
        source=f"{orf_543('11/7')} (which takes the quadratic expansion for the network)",
        quick=RealGates(widths=(1000, 2000, 4000, 8000), nets=20),
        full=RealGates(widths=(500, 1000, 2000, 4000, 8000, 16_000, 32_000), nets=100),
        figure=Curves("widths", "width"),
        wrong={
            "closed": (scaled(0.0), scaled(0.5)),
            "peak": _quadratic_expansion("peak"),
            "final": _quadratic_expansion("final"),
            "left": _divergence,
        },
    ),
)
