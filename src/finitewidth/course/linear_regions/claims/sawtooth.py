"""Tents folded into tents: as many pieces as depth allows."""

from dataclasses import dataclass

import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.linear_regions.networks.relu_regions import relu_program
from finitewidth.course.linear_regions.networks.sawtooth import sawtooth
from finitewidth.course.linear_regions.theory.linear_regions import sawtooth_pieces
from finitewidth.measure import regions

_NAMES = {
    "pieces": "pieces on [0, 1]",
    "pieces on the line": "pieces on the whole line",
    "pieces of two neurons a layer": "pieces on [0, 1], two neurons a layer",
    "spikes": "spikes",
}


@dataclass(frozen=True)
class Tents:
    """The tent map composed with itself up to so many times; nothing is random."""

    deepest: int

    @property
    def folds(self) -> np.ndarray:
        """How often it is composed."""
        return np.arange(1, self.deepest + 1)

    def theory(self) -> Prediction:
        pieces = np.array([float(sawtooth_pieces(folds)) for folds in self.folds.tolist()])
        line = np.array([float(sawtooth_pieces(folds, whole_line=True)) for folds in self.folds.tolist()])
        return {
            "pieces": pieces,
            "pieces on the line": line,
            "pieces of two neurons a layer": pieces,
            "spikes": 2.0 ** (self.folds - 1),
        }

    def measure(self, key) -> Measurement:
        found = {name: [] for name in _NAMES}
        for folds in self.folds.tolist():
            program = relu_program(_three_neurons(folds))
            found["pieces"].append(regions.line_regions(program, [0.0], [1.0]).pieces)
            found["pieces on the line"].append(regions.line_regions(program, [0.0], [1.0], whole=True).pieces)
            net, params = sawtooth(folds)
            found["pieces of two neurons a layer"].append(
                regions.line_regions(net, [0.0], [1.0], params=params).pieces
            )
            found["spikes"].append(np.sum(_on_dyadic_grid(folds) == 1.0))
        return {name: exact(np.array(counts)) for name, counts in found.items()}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [absolute_error(text, predicted[n], measured[n], 1e-9) for n, text in _NAMES.items()]


def _three_neurons(folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """relu(2 relu(x) - 4 relu(x - 1/2)), folds times: three neurons each."""
    halves = np.ones((2, 1)), np.array([0.0, -0.5])
    tent = np.array([[2.0, -4.0]]), np.zeros(1)
    return [halves, tent] * folds + [(np.ones((1, 1)), np.zeros(1))]


def _on_dyadic_grid(folds: int) -> np.ndarray:
    """The composed tent map at all multiples of 2^-folds in [0, 1], exact in binary."""
    x = np.arange(2**folds + 1) / 2**folds
    for _ in range(folds):
        x = np.maximum(2 * np.maximum(x, 0) - 4 * np.maximum(x - 0.5, 0), 0)
    return x


CLAIMS = (
    Claim(
        id="telgarsky-sawtooth",
        title="a tent folded L times: 2^L pieces with 3L neurons",
        statement="""The tent f(x) = relu(2 relu(x) - 4 relu(x - 1/2)), composed L times, has 2^(L-1) spikes,
        2^L affine pieces on [0, 1] and 2^L + 2 on the whole line, with 3L neurons. Two neurons a layer, 2L in
        all, have as many on [0, 1].""",
        source=orf_543("12/5") + " (with 2^(L-1) spikes for L, and 2^L pieces for 2 2^L)",
        quick=Tents(deepest=9),
        full=Tents(deepest=14),
        deterministic=True,
        figure=Curves("folds", "folds $L$"),
        wrong={
            "spikes": lambda setting, value: setting.folds * 1.0,
            "pieces": lambda setting, value: 2 * value,
            "pieces on the line": lambda setting, value: value - 2,
            "pieces of two neurons a layer": lambda setting, value: 2 * value,
        },
    ),
)
