"""A width that is enough for the lazy-training theorem, and the width that it takes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact, jackknife
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.lazy_training.claims.bounds import SOURCE, hidden_kernel_of_infinite_width
from finitewidth.course.lazy_training.networks.fixed_readout import (
    LazyRun,
    Neurons,
    outputs,
    paired_start,
    train_hidden,
)
from finitewidth.prediction.selection.certificates import LazyTraining, convergence_certificate


@dataclass(frozen=True)
class Thresholds:
    """Two orthogonal inputs with labels of several sizes, and widths on both sides of the theorem's."""

    labels: tuple[float, ...]
    widths: tuple[int, ...]
    networks: int
    steps: int = 150
    step: float = 0.3

    inputs = np.eye(2)

    def targets(self, label: float) -> np.ndarray:
        """Labels of both points."""
        return label * np.array([1.0, -1.0])

    def theorem(self, label: float) -> LazyTraining:
        """The theorem with the kernel of infinite width."""
        certificate = convergence_certificate(hidden_kernel_of_infinite_width(self.inputs))
        return LazyTraining(2, certificate.smallest, label**2 / 2)

    def theory(self) -> Prediction:
        theorems = [self.theorem(label) for label in self.labels]
        return {
            "width": np.array([theorem.width for theorem in theorems]),
            "kept": np.array(0.5),
            "exponent": np.array(1.0),
        }

    def measure(self, key) -> Measurement:
        moved = np.zeros((self.networks, len(self.labels), len(self.widths)))
        kept = np.zeros_like(moved)
        for i, label in enumerate(self.labels):
            for j, n in enumerate(self.widths):
                runs = [_run(self, label, n, k) for k in jax.random.split(key, self.networks)]
                # In units of what may happen: lambda_0/(4m) for the distance, the start for the kernel.
                moved[:, i, j] = [8 * run.movement.max() / _smallest(run)[0] for run in runs]
                kept[:, i, j] = [_smallest(run).min() / _smallest(run)[0] for run in runs]
        worst = [self.lost_at_worst(label) for label in self.labels]
        log_width, log_loss = np.log(self.widths), np.log(np.array(self.labels) ** 2 / 2)
        needed = lambda log_moved: np.array([_crossing(log_width, row) for row in log_moved])
        return {
            "kept": exact(kept.min(axis=0)),
            "lost at worst": exact(np.array(worst)),
            "width": exact(np.exp(needed(np.log(moved.max(axis=0))))),
            # The furthest of all networks is too rough to leave one out: the typical furthest weight.
            "exponent": jackknife(np.log(moved), lambda typical: np.polyfit(log_loss, needed(typical), 1)[0]),
        }

    def lost_at_worst(self, label: float) -> float:
        """Share of the kernel of one input that equal neurons lose, all pushed where tanh' falls fastest.

        The width is 128 L(0)/lambda_0^4 with lambda_0 = tanh'^2 = 0.64, so that they move about as far as the
        theorem allows.
        """
        x, steepest = np.ones((1, 1)), np.arctanh(np.sqrt(0.2))
        n = int(np.ceil(128 * label**2 / 2 / 0.64**4))
        neurons = Neurons(jnp.full((n, 1), steepest), jnp.ones(n))
        start = float(outputs(neurons, jnp.asarray(x))[0, 0])
        run = train_hidden(neurons, x, np.array([start + label]), self.step, self.steps, 10)
        return 1 - float(_smallest(run).min() / _smallest(run)[0])

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        enough = np.array(self.widths) >= predicted["width"][:, None]
        lost = np.append(1 - measured["kept"].value[enough], measured["lost at worst"].value)
        exponent = measured["exponent"]
        return [
            upper_bound("width from which no weight moves too far", predicted["width"], measured["width"]),
            upper_bound("share of the smallest eigenvalue lost beyond it", predicted["kept"], lost),
            absolute_error("exponent in the initial loss", predicted["exponent"], exponent, 0.1),
        ]


def _run(setting: Thresholds, label: float, n: int, key) -> LazyRun:
    start = paired_start(key, n, 2)
    return train_hidden(start, setting.inputs, setting.targets(label), setting.step, setting.steps, 10)


def _smallest(run: LazyRun) -> np.ndarray:
    return np.linalg.eigvalsh(run.kernels)[:, 0]


def _crossing(log_width: np.ndarray, log_moved: np.ndarray) -> float:
    """Logarithm of the width beyond which no weight moves too far, between the last two that differ so."""
    last = int(np.flatnonzero(log_moved > 0)[-1])
    fraction = log_moved[last] / (log_moved[last] - log_moved[last + 1])
    return float(log_width[last] + fraction * (log_width[last + 1] - log_width[last]))


def _squares_for_fourth_powers(setting: Thresholds, value: np.ndarray) -> np.ndarray:
    """16 m^2 L(0)/lambda_0^2, as the notes print."""
    theorems = [setting.theorem(label) for label in setting.labels]
    return np.array([16 * 4 * t.initial_loss / t.smallest**2 for t in theorems])


CLAIMS = (
    Claim(
        id="width-threshold",
        title="the kernel survives training from a certain width on",
        statement="""From the width 128 m^4 L(0)/lambda_0^4 on, no hidden weight moves further than
        lambda_0/(4m) and the tangent kernel keeps at least half of its smallest eigenvalue during all of
        training. The width that networks need for this grows in the same proportion to L(0).""",
        source=f"{SOURCE} (fourth powers of m and lambda_0, where the notes print squares)",
        quick=Thresholds(labels=(0.4, 1.6), widths=tuple(4**k for k in range(3, 9)), networks=8),
        full=Thresholds(labels=(0.2, 0.4, 0.8, 1.6), widths=tuple(2**k for k in range(4, 17)), networks=16),
        figure=Curves("labels", "size of the labels"),
        bounds={"width": "above", "kept": "above"},
        # The constant of the theorem is generous.
        notices={"width": 10.0},
        wrong={"width": _squares_for_fourth_powers, "exponent": scaled(2.0)},
    ),
)
