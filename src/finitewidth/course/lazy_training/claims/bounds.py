"""The lazy-training theorem: how far weights move, and how much of the kernel that can cost."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound, z_score
from finitewidth.course._lab.estimate import exact, propagated, sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.kernel_regression.theory.ridge import ridge_regression
from finitewidth.course.lazy_training.networks import fixed_readout as readout
from finitewidth.prediction.selection.certificates import LazyTraining, convergence_certificate
from finitewidth.statistics.wide.kernels import kernels

SOURCE = orf_543("10/12")


def hidden_kernel_of_infinite_width(x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m m"]:
    """Tangent kernel of the hidden weights of tanh neurons with w ~ N(0, 1) and v^2 = 1."""
    net = equal_layers(1, 1, "tanh", 0.0, 1.0, lambda_b=0.0, lambda_W=(1.0, 0.0))
    return np.asarray(kernels(net, np.sqrt(x.shape[1]) * x).ntk)


@dataclass(frozen=True)
class LazyNetworks(RandomProblem):
    """tanh networks of several widths on unit inputs, trained until nothing is left of the residual."""

    widths: tuple[int, ...]
    networks: int
    steps: int
    records: int = 20
    step: float = 0.2
    points: int = 4
    n_in: int = 5

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of length one and labels."""
        rng = self.rng()
        x = rng.normal(size=(self.points, self.n_in))
        return x / np.linalg.norm(x, axis=1, keepdims=True), rng.normal(size=self.points)

    @property
    def alone(self) -> "LazyNetworks":
        """Two networks with one point to learn: there a weight moves half as far as it may."""
        return dataclasses.replace(self, points=1, networks=2)

    @property
    def theorem(self) -> LazyTraining:
        """The theorem with the kernel of infinite width; paired networks start at zero."""
        x, y = self.data
        certificate = convergence_certificate(hidden_kernel_of_infinite_width(x))
        return LazyTraining(self.points, certificate.smallest, float(np.mean(y**2)) / 2)


def _trained(setting: LazyNetworks, key: PRNGKeyArray) -> dict[int, list[readout.LazyRun]]:
    """Trained networks by width."""
    x, y = setting.data
    how = setting.step, setting.steps, setting.records
    return {
        n: [
            readout.train_hidden(readout.paired_start(k, n, setting.n_in), x, y, *how)
            for k in jax.random.split(jax.random.fold_in(key, n), setting.networks)
        ]
        for n in setting.widths
    }


def _times(setting: LazyNetworks) -> np.ndarray:
    return setting.points * setting.step * np.linspace(0, setting.steps, setting.records + 1)


def _movement_theory(setting: LazyNetworks) -> Prediction:
    theorem, (x, y) = setting.theorem, setting.data
    length = ridge_regression(hidden_kernel_of_infinite_width(x), y[:, None]).norm_squared[0]
    alone = setting.alone.theorem
    return {
        "movement": np.array([[one.movement(n) for n in setting.widths] for one in (theorem, alone)]),
        "loss": theorem.loss(_times(setting)),
        "squared distance": np.asarray(length),
        "exponent": np.array(-0.5),
    }


def _movement_measure(setting: LazyNetworks, key) -> Measurement:
    runs, alone = _trained(setting, key), _trained(setting.alone, key)
    furthest = [[max(run.movement.max() for run in one[n]) for n in setting.widths] for one in (runs, alone)]
    squares = [np.array([np.sum(run.movement[-1] ** 2) for run in runs[n]]) for n in setting.widths]
    distance = stacked([sample_mean(s) for s in squares])
    slope = lambda squares: np.polyfit(np.log(setting.widths), np.log(squares / setting.widths) / 2, 1)[0]
    return {
        "movement": exact(np.array(furthest)),
        "loss": exact(np.array([[run.losses for run in runs[n]] for n in setting.widths])),
        "squared distance": distance,
        "exponent": propagated(slope, distance),
    }


def _movement_compare(setting: LazyNetworks, predicted: Prediction, measured: Measurement) -> Checks:
    # The inverse of a kernel that averages n/2 pairs of neurons is off by a few times m/n on average.
    length = predicted["squared distance"]
    allowed = 8 * setting.points / np.array(setting.widths) * length
    distance, losses = measured["squared distance"], measured["loss"].value
    return [
        upper_bound("furthest hidden weight", predicted["movement"], measured["movement"]),
        upper_bound("loss in time", predicted["loss"], losses),
        z_score("squared distance of all weights", length, distance, allowed),
        absolute_error("exponent of the width", predicted["exponent"], measured["exponent"], 0.05),
    ]


def _lipschitz_theory(setting: LazyNetworks) -> Prediction:
    """Change of the kernel allowed per distance that a weight has moved."""
    return {"change per distance": np.array(setting.theorem.kernel_change(1.0))}


_PUSHES = np.geomspace(1e-3, 0.3, 8)


def _lipschitz_measure(setting: LazyNetworks, key) -> Measurement:
    runs = _trained(setting, key)
    moved, changed = [], []
    for n in setting.widths:
        for run in runs[n]:
            moved.append(run.movement[1:].max(axis=1))
            changed.append([np.linalg.norm(K - run.kernels[0], 2) for K in run.kernels[1:]])
    return {
        "moved": exact(np.array(moved)),
        "changed": exact(np.array(changed)),
        "pushed": exact(_PUSHES),
        "changed by push": exact(np.array([_pushed(setting, D) for D in _PUSHES])),
    }


def _pushed(setting: LazyNetworks, distance: float) -> float:
    """Change of the kernel when equal inputs meet equal neurons that all move towards zero by `distance`."""
    x = np.zeros((setting.points, setting.n_in))
    x[:, 0] = 1.0
    # Where tanh' tanh'' is largest.
    steepest = np.arctanh(np.sqrt(0.2))
    kernel = [
        readout.hidden_kernel(readout.Neurons(jnp.asarray(w * x), jnp.ones(setting.points)), jnp.asarray(x))
        for w in (steepest, steepest - distance)
    ]
    return float(np.linalg.norm(np.asarray(kernel[1] - kernel[0]), 2))


def _lipschitz_compare(setting: LazyNetworks, predicted: Prediction, measured: Measurement) -> Checks:
    slope = predicted["change per distance"]
    pushed = measured["changed by push"].value / measured["pushed"].value
    trained = measured["changed"].value / measured["moved"].value
    return [
        upper_bound("change of the kernel in training, per distance", slope, trained),
        upper_bound("change of the kernel by the worst push, per distance", slope, pushed),
    ]


def _movement_like_one_over_width(setting: LazyNetworks, value: np.ndarray) -> np.ndarray:
    return value / np.sqrt(setting.widths)


def _rate_without_points(setting: LazyNetworks, value: np.ndarray) -> np.ndarray:
    """exp(-lambda_0 t): the 1/m that the notes lose."""
    return value[0] * (value / value[0]) ** setting.points


_IN_TIME = Curves(lambda setting: _times(setting)[1:], "time of gradient flow")
_FROM_THE_START = Curves(_times, "time of gradient flow")


_QUICK = LazyNetworks(widths=(256, 1024), networks=10, steps=400)
_FULL = LazyNetworks(widths=(256, 1024, 4096, 16384), networks=16, steps=1000)

CLAIMS = (
    Claim(
        id="kernel-lipschitz-lemma",
        title="the kernel changes by at most 2 m times the movement of a weight",
        statement="""With output weights fixed in [-1, 1], |sigma'| and |sigma''| at most 1 and m inputs of
        length one, moving every hidden weight by at most D changes the tangent kernel of the hidden weights
        by at most 2 m D in operator norm.""",
        source=f"{SOURCE} (half of the kernel survives D = lambda_0/(4m))",
        quick=_QUICK,
        full=_FULL,
        theory=_lipschitz_theory,
        measure=_lipschitz_measure,
        compare=_lipschitz_compare,
        figure=(_IN_TIME, Curves(lambda setting: _PUSHES, "distance of the push")),
        bounds={"change per distance": "above"},
        wrong={"change per distance": scaled(0.5)},
    ),
    Claim(
        id="weight-movement-bound",
        title="each hidden weight moves by order n^(-1/2)",
        statement="""Under gradient flow on L = |z - y|^2/(2m), and while the kernel stays above lambda_0/2,
        the loss is at most L(0) exp(-lambda_0 t/m) and each hidden weight moves by at most (8 L(0)/n)^(1/2)
        m/lambda_0. In the limit of large width the squared distance of all weights together is y^T K^-1 y,
        the squared norm of the function that is learnt.""",
        source=f"{SOURCE} (with 1/m in the rate and sqrt(2) in the distance)",
        quick=_QUICK,
        full=_FULL,
        theory=_movement_theory,
        measure=_movement_measure,
        compare=_movement_compare,
        figure=(
            _FROM_THE_START,
            Curves("widths", "width $n$", lambda setting: (f"{setting.points} points", "one point")),
        ),
        bounds={"movement": "above", "loss": "above"},
        wrong={
            "movement": _movement_like_one_over_width,
            "loss": _rate_without_points,
            "squared distance": scaled(1.5),
            "exponent": scaled(2.0),
        },
    ),
)
