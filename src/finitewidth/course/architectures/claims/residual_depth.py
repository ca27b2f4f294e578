"""Deep residual networks keep their signal and their gradients with branches of size 1/sqrt(depth)."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.estimate import sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.statistics.depth.criticality import criticality

_C_W = 2.0


@dataclass(frozen=True)
class Depths:
    """ReLU blocks z + depth^-1/2 W relu(z), many of them, on a first layer of variance one."""

    depths: tuple[int, ...]
    width: int
    draws: int

    def theory(self) -> Prediction:
        found = [
            criticality(Repeat(Residual(Activate("relu"), Dense(1, 0.0, _C_W), beta=depth**-0.5), depth))
            for depth in self.depths
        ]
        return {
            "variance": np.array([block.variance for block in found]),
            "gradient": np.array([block.gradient for block in found]),
        }

    def measure(self, key: PRNGKeyArray) -> Measurement:
        rng = np.random.default_rng(int(jax.random.bits(key, dtype="uint32")))
        both = [self._squares(depth, rng) for depth in self.depths]
        return {
            name: stacked([sample_mean(each[i]) for each in both])
            for i, name in enumerate(("variance", "gradient"))
        }

    def _squares(self, depth: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares, one of each network, of the signal and of its derivative along a random direction."""
        n = self.width
        z, u = rng.normal(size=(2, self.draws, n, 1))
        u *= np.sqrt(n) / np.linalg.norm(u, axis=1, keepdims=True)
        for _ in range(depth):
            weight = rng.normal(size=(self.draws, n, n)) * np.sqrt(_C_W / (n * depth))
            z, u = z + weight @ np.maximum(z, 0), u + weight @ np.where(z > 0, u, 0)
        return np.mean(z**2, axis=(1, 2)), np.mean(u**2, axis=(1, 2))

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name in ("variance", "gradient"):
            # Corrections in 1/width do not grow with depth here; a few neurons' worth of them is allowed.
            yield z_score(f"squared {name}", predicted[name], measured[name], predicted[name] / self.width)


def _unscaled(setting: Depths, value: np.ndarray) -> np.ndarray:
    """Branches of size one."""
    return (1 + _C_W / 2) ** np.array(setting.depths, dtype=float)


CLAIMS = (
    Claim(
        id="residual-depth-law",
        title="branches of size 1/sqrt(depth) keep signal and gradients at every depth",
        statement="""Behind L blocks z + L^-1/2 W relu(z) the variance and the squared gradient are
        (1 + C_W/(2L))^L, below exp(C_W/2) at any depth; with branches of size one both would be
        (1 + C_W/2)^L.""",
        source=f"{BEYOND}: the recursion of one block, as in {BOOK}",
        quick=Depths((2, 8, 24), 32, 300),
        full=Depths((2, 8, 32, 128), 128, 1000),
        figure=Curves("depths", "number of blocks"),
        wrong={"variance": _unscaled, "gradient": _unscaled},
    ),
)
