"""When the kernel of random neurons is positive definite, and how fast it approaches its mean."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import bdtr, bdtrc

from finitewidth.course._instruments import layer_integrals
from finitewidth.course._lab.claim import Check, Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import Estimate, exact, jackknife, share, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled, shifted
from finitewidth.prediction.selection.certificates import convergence_certificate
from finitewidth.prediction.selection.concentration import Bernstein, kernel_concentration
from finitewidth.statistics.wide.kernels import kernels

_SOURCE = orf_543("10/10")


def parabola(z):
    """A polynomial of degree two."""
    return z + z**2 / 2


_ACTIVATIONS: dict[str, str | Callable] = {"tanh": "tanh", "gelu": "gelu", "parabola": parabola}
_FIXED = np.radians([0.0, 50.0, 105.0, 150.0, 260.0])


@dataclass(frozen=True)
class Circle:
    """Five points on the unit circle and a sixth that passes the antipode of the first; nothing is random."""

    angles: int

    @property
    def moving(self) -> Float[np.ndarray, " angles"]:
        """Directions of the sixth point, at the antipode in the middle."""
        return np.pi + np.radians(28.0) * np.linspace(-1, 1, self.angles)

    def inputs(self, angle: float) -> Float[np.ndarray, "6 2"]:
        """All six points."""
        directions = np.append(_FIXED, angle)
        return np.stack([np.cos(directions), np.sin(directions)], axis=1)

    def theory(self) -> Prediction:
        found = {}
        for name, activation in _ACTIVATIONS.items():
            net = equal_layers(1, 1, activation, 0.0, 1.0)
            matrices = [kernels(net, np.sqrt(2) * self.inputs(a)).nngp for a in self.moving]
            # What is left of a zero by rounding is no prediction.
            found[name] = np.array([convergence_certificate(K).smallest for K in matrices]).round(14)
        return found

    def measure(self, key) -> Measurement:
        found = {}
        for name, activation in _ACTIVATIONS.items():
            function = (
                layer_integrals.plain_function(activation) if isinstance(activation, str) else activation
            )
            cosines = np.stack([self.inputs(a) @ self.inputs(a).T for a in self.moving])
            distinct, where = np.unique(np.clip(cosines, -1, 1).round(15), return_inverse=True)
            moments = np.array([layer_integrals.pair_moment(function, c) for c in distinct])
            found[name] = exact(np.linalg.eigvalsh(moments[where].reshape(cosines.shape))[:, 0])
        return found

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        middle = self.angles // 2
        off = np.abs(np.arange(self.angles) - middle) > self.angles // 4
        generic = np.concatenate([measured["tanh"].value[off], measured["gelu"].value])
        singular = np.append(measured["parabola"].value, measured["tanh"].value[middle])
        return [
            *(absolute_error(name, predicted[name], measured[name], 1e-8) for name in _ACTIVATIONS),
            upper_bound("inverse of the smallest eigenvalue, generic", 1e6, 1 / generic),
            absolute_error("smallest eigenvalue, antipodes or a polynomial", 0.0, singular, 1e-12),
        ]


@dataclass(frozen=True)
class RandomKernels(RandomProblem):
    """Output-layer kernels of random neurons, on growing numbers of points.

    Two cases are extreme: sums of fair signs many standard deviations out, where only the exponent counts,
    and neurons that are on or off together at several equal inputs, and seldom on.
    """

    points: tuple[int, ...]
    draws: int
    width: int = 1000
    n_in: int = 10
    distances: tuple[int, ...] = (5000, 10_000, 15_000, 20_000, 25_000, 30_000)
    probability: float = 0.05
    equal: tuple[int, ...] = (1, 2, 4, 8, 16)
    neurons: int = 1_000_000
    share_on: float = 0.02
    rare: float = 1e-6

    def inputs(self, points: int) -> Float[np.ndarray, "m d"]:
        """Inputs of length one."""
        x = self.rng().normal(size=(points, self.n_in))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def theory(self) -> Prediction:
        tails = Bernstein(1, 1.0, _SIGNS).tail(np.array(self.distances, dtype=float))
        equal = [
            kernel_concentration(np.full((m, m), self.share_on), self.neurons).distance(self.rare)
            for m in self.equal
        ]
        found = {"signs": -np.log(tails), "equal inputs": np.array(equal)}
        for name in _BOUNDED:
            net = equal_layers(1, 1, name, 0.0, 1.0)
            means = [kernels(net, np.sqrt(self.n_in) * self.inputs(m)).nngp for m in self.points]
            bounds = [kernel_concentration(K, self.width) for K in means]
            found[f"{name} bound"] = np.array([bound.distance(self.probability) for bound in bounds])
            # A sum of random matrices is at least as large as its standard deviation, up to a constant, and
            # larger by at most the root of the logarithm of the dimension.
            size = np.sqrt([bound.variance for bound in bounds])
            sizes = np.stack([size, size * np.sqrt(np.log(self.points))])
            found[f"{name} growth"] = sizes / sizes[:, :1]
        return found

    def measure(self, key) -> Measurement:
        tails = 2 * bdtrc((_SIGNS + np.array(self.distances)) // 2, _SIGNS, 0.5)
        equal = np.array(self.equal) * self.quantile_of_the_count() / self.neurons
        found = {"signs": exact(-np.log(tails)), "equal inputs": exact(equal)}
        w = np.asarray(jax.random.normal(key, (self.draws, self.width, self.n_in)))
        for name, (function, mean) in _BOUNDED.items():
            distances = np.array([_distances(function, mean, self.inputs(m), w) for m in self.points])
            found[f"{name} distances"] = exact(distances)
            found[f"{name} growth"] = jackknife(distances.T, lambda mean: mean / mean[0])
        return found

    def quantile_of_the_count(self) -> float:
        """How far the number of neurons that are on is from its mean, but for the rare probability."""
        n, p = self.neurons, self.share_on
        away = np.arange(int(10 * np.sqrt(n * p)))
        mean = int(n * p)
        tails = bdtrc(mean + away, n, p) + bdtr(mean - away - 1, n, p)
        return float(away[np.argmax(tails <= self.rare)])

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        equal = predicted["equal inputs"], measured["equal inputs"]
        beyond = {name: _share_beyond(self, name, predicted, measured) for name in _BOUNDED}
        return [
            upper_bound(
                "logarithm of the tail of a million signs", -predicted["signs"], -measured["signs"].value
            ),
            upper_bound("quantile at equal inputs", *equal),
            relative_error("the same from both sides", *equal, 0.22),
            *(
                upper_bound(f"share of kernels beyond the bound, {name}", self.probability, share_beyond)
                for name, share_beyond in beyond.items()
            ),
            *(_within_band(name, predicted, measured) for name in _BOUNDED),
        ]


_BOUNDED = {"sin": (np.sin, np.sinh), "cos": (np.cos, np.cosh)}
_SIGNS = 1_000_000


def _distances(function: Callable, mean: Callable, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Norms of the differences between kernels of random neurons and their mean."""
    expected = np.exp(-1) * mean(x @ x.T)

    def one(weights: np.ndarray) -> float:
        neurons = function(x @ weights.T)
        return np.abs(np.linalg.eigvalsh(neurons @ neurons.T / len(weights) - expected)).max()

    return np.array([one(weights) for weights in w])


def _share_beyond(
    setting: RandomKernels, name: str, predicted: Prediction, measured: Measurement
) -> Estimate:
    """How many kernels are further from their mean than one in twenty may be, for every number of points."""
    counts = np.sum(measured[f"{name} distances"].value > predicted[f"{name} bound"][:, None], axis=1)
    return stacked([share(count, setting.draws, setting.probability) for count in counts])


def _within_band(name: str, predicted: Prediction, measured: Measurement) -> Check:
    growth = measured[f"{name} growth"]
    nearest = np.clip(growth.value, *predicted[f"{name} growth"])
    return relative_error(f"growth of the distance with the points, {name}", nearest, growth, 0.1)


def _distinct_is_enough(setting: Circle, value: np.ndarray) -> np.ndarray:
    """No dip at the antipode."""
    middle = setting.angles // 2
    return np.concatenate([value[:middle], value[middle - 1 : middle], value[middle + 1 :]])


def _without_dimension_and_half(setting: RandomKernels, value: np.ndarray) -> np.ndarray:
    """exp(-t^2/(U + R t/3)), which exact tails of sums of signs exceed."""
    return 2 * (value + np.log(2))


def _without_the_mean_kernel(setting: RandomKernels, value: np.ndarray) -> np.ndarray:
    """U = m/n, whatever the norm of the mean kernel."""
    bounds = [Bernstein(m, m / setting.neurons, m / setting.neurons) for m in setting.equal]
    return np.array([bound.distance(setting.rare) for bound in bounds])


def _root_of_points(setting: RandomKernels, value: np.ndarray) -> np.ndarray:
    """The variance m/n of the notes, whatever the norm of the mean kernel."""
    return np.tile(np.sqrt(np.array(setting.points) / setting.points[0]), (2, 1))


CLAIMS = (
    Claim(
        id="kernel-pd-hermite",
        title="positive definite unless polynomial or antipodal",
        statement="""The kernel <sigma(w x_a) sigma(w x_b)> of random neurons on unit inputs is the power
        series of x_a x_b with the squared Hermite coefficients of sigma. It is positive definite if sigma is
        not a polynomial and no two inputs are parallel or antiparallel; antipodes are harmless when
        coefficients of both parities go on forever.""",
        source=f"{_SOURCE} (distinct inputs are not enough: an odd sigma cannot tell antipodes apart)",
        quick=Circle(angles=13),
        full=Circle(angles=41),
        figure=Curves("moving", "direction of the sixth point"),
        deterministic=True,
        wrong={"tanh": _distinct_is_enough, "gelu": scaled(1 + 1e-4), "parabola": shifted(1e-4)},
    ),
    Claim(
        id="matrix-bernstein-kernel-concentration",
        title="the kernel of n neurons is close to its mean",
        statement="""The output-layer kernel of n random neurons with |sigma| at most 1 on m points is further
        than t from its mean with probability at most 2m exp(-t^2 / (2U + 2mt/(3n))), U = (m/n) |E K|. Where
        neurons are on or off together, and seldom on, the distance is within a fifth of this bound. On
        random inputs it grows with m as the square root of m |E K|, up to another of log m, not as that of
        m.""",
        source=f"{_SOURCE} (with the dimension, the factor 1/2 and the norm of the mean)",
        quick=RandomKernels(points=(25, 50, 100), draws=60),
        full=RandomKernels(points=(25, 50, 100, 200), draws=300),
        figure=(Curves("distances", "$t$"), Curves("points", "points $m$"), Curves("equal", "equal inputs")),
        bounds={"signs": "below", "sin bound": "above", "cos bound": "above"},
        notices={"sin bound": 10.0, "cos bound": 10.0},
        wrong={
            "signs": _without_dimension_and_half,
            "sin growth": _root_of_points,
            "cos growth": _root_of_points,
            "sin bound": scaled(0.1),
            "equal inputs": _without_the_mean_kernel,
        },
    ),
)
