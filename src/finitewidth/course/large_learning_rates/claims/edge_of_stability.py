"""Training that sharpens its loss until steps are as large as stability allows."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.optimize import root_scalar

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.measure.loss.stability import EdgeOfStability, edge_of_stability
from finitewidth.report import style
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class Sharpening:
    """Two hidden tanh layers and squared error: gradient descent at parts of its limit, and Adam.

    The parts are those of eta lambda_max / 2 before training; a small step leaves room to the end.
    """

    parts: tuple[float, ...]
    adam_steps: tuple[float, ...]
    small_step: float = 0.02
    steps: int = 3000
    momentum: float = 0.9
    hidden: tuple[int, ...] = (32, 32)
    points: int = 32
    n_in: int = 4

    def theory(self) -> Prediction:
        """Where the linear recursion on a quadratic loss of curvature 1 begins to grow."""
        b = self.momentum
        descent = _limit(lambda s: np.array([[1 - s]]), 10.0)
        # Adam with a frozen preconditioner: position and averaged gradient.
        adam = _limit(lambda s: np.array([[1 - s * (1 - b), -s * b], [1 - b, b]]), 100.0)
        return {
            "descent": np.full(len(self.parts), descent),
            "adam": np.full(len(self.adam_steps), adam),
            "small": np.array(0.75 * descent),
        }

    def measure(self, key) -> Measurement:
        runs = self.runs(key)
        late = [eta_lambda(run) for run in runs]
        count = len(self.parts)
        shown = [np.interp(np.linspace(0, 1, 61), np.linspace(0, 1, len(r.ratio)), r.ratio) for r in runs]
        return {
            "small": exact(late[0]),
            "descent": exact(np.array(late[1 : count + 1])),
            "adam": exact(np.array(late[count + 1 :])),
            "ratio": exact(np.array(shown)),
        }

    def runs(self, key: PRNGKeyArray) -> list[EdgeOfStability]:
        """A small step, gradient descent at its parts, and Adam at its steps."""
        data_key, net_key = jax.random.split(key)
        x = jax.random.normal(data_key, (self.points, self.n_in))
        y = jnp.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
        net = MLP(self.hidden, "tanh", C_b=0.0, C_W=0.5, parametrisation="standard")
        params = net.init(net_key, self.n_in)

        def loss(params):
            return 0.5 * jnp.mean((net.apply(params, x) - y) ** 2)

        def train(optimizer: str, eta: float) -> EdgeOfStability:
            return edge_of_stability(
                loss,
                params,
                learning_rate=eta,
                steps=self.steps,
                optimizer=optimizer,
                momentum=self.momentum,
                record_every=max(1, self.steps // 60),
            )

        small = train("sgd", self.small_step)
        unit = 2 / float(small.sharpness[0])
        return [
            small,
            *(train("sgd", part * unit) for part in self.parts),
            *(train("adam", eta) for eta in self.adam_steps),
        ]

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            relative_error("late eta lambda_max, descent", predicted["descent"], measured["descent"], 0.05),
            relative_error("late eta lambda_max, Adam", predicted["adam"], measured["adam"], 0.15),
            upper_bound("late eta lambda_max, small step", predicted["small"], measured["small"]),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        picture, (axes,) = style.panels("Sharpness rises to the limit of the optimiser")
        names = [
            rf"descent, $\eta$ = {self.small_step:g}",
            *(f"descent, from {part:g}" for part in self.parts),
            *(rf"Adam, $\eta$ = {eta:g}" for eta in self.adam_steps),
        ]
        for i, (name, row) in enumerate(zip(names, measured["ratio"].value, strict=True)):
            axes.plot(np.linspace(0, self.steps, len(row)), row, color=style.PALETTE[i], label=name)
        axes.axhline(1.0, color=style.GREY, lw=1.2)
        axes.set(xlabel="step", ylabel=r"$\eta\lambda_{max}$ / limit", ylim=(0, 1.5))
        axes.legend(fontsize=8)
        return picture


def eta_lambda(run: EdgeOfStability) -> float:
    """eta lambda_max over the last quarter of a run."""
    return run.late * run.limit


def _limit(recursion, high: float) -> float:
    """The step at which the spectral radius of a linear recursion passes 1."""
    excess = lambda s: np.abs(np.linalg.eigvals(recursion(s))).max() - 1
    return float(root_scalar(excess, bracket=(1e-3, high)).root)


_LECTURE = orf_543("10/5")

CLAIMS = (
    Claim(
        id="edge-of-stability",
        title="sharpness rises to the limit of the optimiser and stays there",
        statement="""Under full-batch gradient descent on the mean of half squared errors the largest
        eigenvalue of the Hessian rises to 2/eta and hovers there, within 5 %, provided that training with
        small steps would exceed 2/eta; a small step leaves it below. Under Adam the same holds, within 15 %,
        for the preconditioned Hessian and (2 + 2b)/((1 - b) eta), which is 38/eta for b = 0.9. Seen for
        two hidden tanh layers of 32 units on 32 points.""",
        source=f"{_LECTURE} (Adam is beyond it)",
        quick=Sharpening(parts=(0.3, 0.45), adam_steps=(0.02,)),
        full=Sharpening(parts=(0.3, 0.35, 0.4, 0.45), adam_steps=(0.01, 0.02, 0.03), steps=12_000),
        wrong={
            "descent": (scaled(0.5), scaled(1.2)),
            "adam": (scaled(2 / 38), scaled(3.8 / 38)),
            "small": scaled(0.1),
        },
        bounds={"small": "above"},
    ),
)
