"""The mean NTK of random ReLU networks layer by layer and between inputs, and its largest eigenvalue."""

from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each, relative_error, upper_bound, z_score
from finitewidth.course._lab.estimate import exact, jackknife, sample_mean, stacked
from finitewidth.course._lab.figures import Curves, layer_names
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.path_counting.networks.relu_layers import relu_networks
from finitewidth.course.path_counting.theory.eigenvalue_bounds import EigenvalueBounds, ntk_eigenvalue_bounds
from finitewidth.statistics.exact.paths import ntk_moments
from finitewidth.statistics.wide.kernels import kernels

_SOURCE = orf_543("11/30") + ", NTK; "


def _critical(hidden: tuple[int, ...]) -> Layer:
    return MLP(hidden, "relu", lambda_b=0.0, lambda_W=2.0)


@dataclass(frozen=True)
class Diagonals:
    """One network shape and one input of mean square one, the NTK split by layers."""

    hidden: tuple[int, ...]
    draws: int
    n_in: int = 4

    @property
    def layers(self) -> range:
        return range(1, len(self.hidden) + 2)

    def theory(self) -> Prediction:
        mean = ntk_moments(_critical(self.hidden)).mean
        return {"layers": np.full(len(self.layers), mean / len(self.layers)), "mean": np.asarray(mean)}

    def measure(self, key) -> Measurement:
        x_key, key = jax.random.split(key)
        x = np.asarray(jax.random.normal(x_key, (1, self.n_in)))
        x = x * np.sqrt(self.n_in / np.sum(x**2))
        parts = [n.kernels()[:, :, 0, 0] for n in relu_networks(x, self.hidden, key, self.draws)]
        found = np.concatenate(parts)
        return {"layers": sample_mean(found), "mean": sample_mean(found.sum(axis=1))}


def _frozen_outputs(setting: Diagonals, value: np.ndarray) -> np.ndarray:
    """2L in place of 2(L+1)."""
    return np.asarray(value * len(setting.hidden) / (len(setting.hidden) + 1))


def _first_layers_less(setting: Diagonals, value: np.ndarray) -> np.ndarray:
    """Later layers with more, as if signals grew."""
    growing = np.arange(1, len(value) + 1)
    return value * growing * len(value) / growing.sum()


@dataclass(frozen=True)
class Pairs(RandomProblem):
    """Two random inputs and networks of several depths, the first with one narrow hidden layer."""

    hidden: tuple[tuple[int, ...], ...]
    draws: int
    n_in: int = 3

    @property
    def x(self) -> np.ndarray:
        first, second = np.linalg.qr(self.rng().normal(size=(self.n_in, 2)))[0].T
        return np.stack([first, np.cos(self.angle) * first + np.sin(self.angle) * second])

    @property
    def angle(self) -> float:
        return self.rng(1).uniform(0.7, 2.4)

    def theory(self) -> Prediction:
        found = [kernels(_critical(hidden), self.x).ntk[0, 1] for hidden in self.hidden]
        return {"kernel": np.array(found, dtype=float)}

    def measure(self, key) -> Measurement:
        keys = jax.random.split(key, len(self.hidden))
        means = []
        for hidden, k in zip(self.hidden, keys, strict=True):
            parts = [
                layers.kernels().sum(axis=1)[:, 0, 1]
                for layers in relu_networks(self.x, hidden, k, self.draws)
            ]
            means.append(sample_mean(np.concatenate(parts)))
        return {"kernel": stacked(means)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        """One hidden layer is exact; more leave out half of depth/width of the kernel of one input."""
        depth = np.array([len(hidden) for hidden in self.hidden])
        width = np.array([min(hidden) for hidden in self.hidden])
        left_out = np.where(depth > 1, 0.5 * depth / width * 2 * (depth + 1) / self.n_in, 0.0)
        return [z_score("E Theta of two inputs", predicted["kernel"], measured["kernel"], left_out)]


def _gate_overlaps(setting: Pairs, value: np.ndarray) -> np.ndarray:
    """Gates of both inputs taken to be independent of the weights."""
    angle, found = setting.angle, []
    overlaps, at = [], angle
    for _ in range(max(map(len, setting.hidden))):
        overlaps.append(1 - at / np.pi)
        at = np.arccos((np.sin(at) + (np.pi - at) * np.cos(at)) / np.pi)
    for hidden in setting.hidden:
        product = np.prod(overlaps[: len(hidden)])
        found.append(2 * (len(hidden) + 1) * np.cos(angle) / setting.n_in * product)
    return np.array(found)


def _last_layer_forgotten(setting: Pairs, value: np.ndarray) -> np.ndarray:
    """Theta' = Theta k_0 without the kernel of the layer itself."""
    angle, found = setting.angle, []
    for hidden in setting.hidden:
        at, theta = angle, 2 * np.cos(angle) / setting.n_in
        for _ in hidden:
            theta *= 1 - at / np.pi
            at = np.arccos((np.sin(at) + (np.pi - at) * np.cos(at)) / np.pi)
        found.append(theta)
    return np.array(found)


@dataclass(frozen=True)
class Orthonormal:
    """Orthonormal inputs, as many as features, and networks with two hidden layers."""

    points: int
    width: int
    draws: int
    failures: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05)

    @property
    def network(self) -> Layer:
        return _critical((self.width, self.width))

    def bounds(self):
        return ntk_eigenvalue_bounds(self.network, np.eye(self.points))

    def tangent_kernels(self, key) -> np.ndarray:
        """NTKs of independent networks at rotated inputs."""
        x_key, key = jax.random.split(key)
        x = np.linalg.qr(np.asarray(jax.random.normal(x_key, (self.points, self.points))))[0]
        hidden = (self.width, self.width)
        return np.concatenate(
            [layers.kernels().sum(axis=1) for layers in relu_networks(x, hidden, key, self.draws)]
        )


@dataclass(frozen=True)
class OfTheMean(Orthonormal):
    """The largest eigenvalue of the averaged NTK."""

    def theory(self) -> Prediction:
        found = self.bounds()
        return {
            "eigenvalue": np.asarray(found.of_mean),
            "bounds": np.array([found.row_sum * (1 + 2 / self.width), found.frobenius, found.trace]),
        }

    def measure(self, key) -> Measurement:
        flat = self.tangent_kernels(key).reshape(self.draws, -1)
        shape = (self.points, self.points)
        top = jackknife(flat, lambda mean: np.linalg.eigvalsh(mean.reshape(shape))[-1])
        return {"eigenvalue": top, "bounds": stacked([top] * 3)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Row sums of infinite width meet the eigenvalue here: they are allowed depth/width.
        return [
            relative_error(
                "lambda_max of the mean", predicted["eigenvalue"], measured["eigenvalue"], 3 / self.width
            ),
            upper_bound("row sums, Frobenius norm, trace", predicted["bounds"], measured["bounds"]),
        ]


def _diagonal_alone(setting: OfTheMean, value: np.ndarray) -> np.ndarray:
    """Off-diagonal entries from overlaps of gates vanish for orthogonal inputs."""
    return np.full_like(value, 6 / setting.points)


@dataclass(frozen=True)
class Tails(Orthonormal):
    """Largest eigenvalues and traces of single networks, at orthonormal inputs and at equal ones.

    At equal inputs the trace is the largest eigenvalue, and scatters as much as it can.
    """

    failures: tuple[float, ...] = (0.9, 0.5, 0.2, 0.1, 0.05)

    def both_bounds(self) -> list[EigenvalueBounds]:
        equal = np.tile(np.eye(self.points)[0], (self.points, 1))
        return [ntk_eigenvalue_bounds(self.network, x) for x in (np.eye(self.points), equal)]

    def theory(self) -> Prediction:
        both = self.both_bounds()
        return {
            "trace": np.array([found.trace for found in both]),
            "spread": np.array([found.trace * np.sqrt(found.ratio - 1) for found in both]),
            "cantelli": np.array([[found.cantelli(failure) for failure in self.failures] for found in both]),
            "markov": np.array([[found.markov(failure) for failure in self.failures] for found in both]),
        }

    def measure(self, key) -> Measurement:
        drawn = self.tangent_kernels(key)
        # Equal inputs have the kernel of one of them everywhere.
        traces = np.stack([np.trace(drawn, axis1=1, axis2=2), self.points * drawn[:, 0, 0]], axis=1)
        top = np.stack([np.linalg.eigvalsh(drawn)[:, -1], traces[:, 1]], axis=1)
        quantiles = exact(np.quantile(top, 1 - np.array(self.failures), axis=0).T)
        moments = np.stack([traces, traces**2], axis=1)
        return {
            "trace": sample_mean(traces),
            "spread": jackknife(moments, lambda m: np.sqrt(m[1] - m[0] ** 2)),
            "cantelli": quantiles,
            "markov": quantiles,
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            z_score("mean trace", predicted["trace"], measured["trace"]),
            upper_bound("spread of the trace", predicted["spread"], measured["spread"]),
            upper_bound("quantiles, Cantelli", predicted["cantelli"], measured["cantelli"]),
            upper_bound("quantiles, Markov", predicted["markov"], measured["markov"]),
        ]


def _mean_kernel_for_quantiles(setting: Tails, value: np.ndarray) -> np.ndarray:
    """The largest eigenvalue of the mean kernel, as if single networks had it."""
    return np.stack([np.full(len(setting.failures), found.of_mean) for found in setting.both_bounds()])


def _frozen_outputs_of_the_trace(setting: Tails, value: np.ndarray) -> np.ndarray:
    return np.asarray(value * 2 / 3)


CLAIMS = (
    Claim(
        id="ntk-diagonal-mean",
        title="every layer adds the same to the NTK",
        statement="""The mean NTK of a critical ReLU network without biases at one input is 2 (L+1) |x|^2 /
        n_0: each of the L+1 weight matrices adds 2 |x|^2 / n_0, the last one too, at every width.""",
        source=_SOURCE + "L+1 layers, not L",
        quick=Diagonals((20, 30, 25), draws=8000),
        full=Diagonals((20, 30, 25), draws=100_000),
        compare=compare_each({"layers": "each layer", "mean": "E Theta"}),
        figure=Curves("layers", "layer"),
        wrong={"mean": _frozen_outputs, "layers": _first_layers_less},
    ),
    Claim(
        id="ntk-off-diagonal",
        title="the mean NTK between two inputs",
        statement="""The mean NTK between two inputs follows Theta' = K' + Theta k_0 of their angle, with
        arc-cosine kernels; with one hidden layer this is exact at every width, with more to order
        depth/width. A product of the probabilities that both gates are on is not the mean: gates of two
        inputs depend on the weights.""",
        source=_SOURCE + "gate correlations by the arc-cosine recursion",
        quick=Pairs(((8,), (50, 50), (50, 50, 50)), draws=2000),
        full=Pairs(((8,), (60, 60), (60, 60, 60), (100,) * 5), draws=20_000),
        figure=Curves(lambda setting: layer_names(setting.hidden), "hidden widths"),
        wrong={"kernel": (_gate_overlaps, _last_layer_forgotten)},
    ),
    Claim(
        id="ntk-mean-lambda-max-bound",
        title="norms bound the largest eigenvalue of the mean NTK",
        statement="""The largest eigenvalue of the mean NTK is at most its largest row sum, its Frobenius
        norm and its trace 2 (L+1) sum |x_a|^2 / n_0. Its diagonal or its largest entry are no bounds: on
        orthonormal inputs off-diagonal entries are positive and add up.""",
        source=_SOURCE + "the constant C_0 is no bound; induced norms only",
        quick=OfTheMean(points=10, width=60, draws=400),
        full=OfTheMean(points=20, width=200, draws=1000),
        bounds={"bounds": "above"},
        wrong={"bounds": _diagonal_alone, "eigenvalue": scaled(1.1)},
    ),
    Claim(
        id="ntk-lambda-max-tail",
        title="the largest eigenvalue of single networks",
        statement="""With probability 1 - d the largest eigenvalue of the NTK of a random ReLU network is at
        most E tr (1 + sqrt((r - 1)(1 - d)/d)), r = E[H^2]/E[H]^2 at one input, and at most E tr / d. The
        spread of the trace is at most E tr sqrt(r - 1), and no less at equal inputs.""",
        source=_SOURCE + "Cantelli's inequality in place of a matrix Chernoff bound",
        quick=Tails(points=10, width=60, draws=500),
        full=Tails(points=20, width=100, draws=4000),
        figure=Curves(
            "failures", "probability of failure", lambda setting: ("orthonormal inputs", "equal inputs")
        ),
        bounds={"spread": "above", "cantelli": "above", "markov": "above"},
        wrong={
            "cantelli": _mean_kernel_for_quantiles,
            "markov": _mean_kernel_for_quantiles,
            "trace": _frozen_outputs_of_the_trace,
        },
    ),
)
