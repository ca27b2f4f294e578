"""When the kernel of random neurons is positive definite, and how fast it approaches its mean."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.stats import binom

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Check, Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import absolute_error, relative_error, upper_bound
from finitewidth.lab.framework.estimate import Estimate, exact, jackknife, share, stacked
from finitewidth.lab.framework.sources import orf_543
from finitewidth.lab.instruments import layer_integrals
from finitewidth.prediction.certificates import convergence_certificate
from finitewidth.prediction.concentration import Bernstein, kernel_concentration
from finitewidth.report import style
from finitewidth.statistics.kernels import kernels

_CHAPTER = "Tangent kernel"
_SOURCE = orf_543("10/10")


def parabola(z):
    """A polynomial of degree two."""
    return z + z**2 / 2


_ACTIVATIONS: dict[str, str | Callable] = {"tanh": "tanh", "gelu": "gelu", "parabola": parabola}
# Eigenvalues below this are drawn here.
_ZERO = 1e-12
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


def _definite_theory(setting: Circle) -> Prediction:
    found = {}
    for name, activation in _ACTIVATIONS.items():
        net = MLP((1,), activation, C_b=0.0, C_W=1.0)
        matrices = [kernels(net, np.sqrt(2) * setting.inputs(a)).nngp for a in setting.moving]
        found[name] = np.array([convergence_certificate(K).smallest for K in matrices])
    return found


def _definite_measure(setting: Circle, key) -> Measurement:
    found = {}
    for name, activation in _ACTIVATIONS.items():
        function = layer_integrals.plain_function(activation) if isinstance(activation, str) else activation
        cosines = np.stack([setting.inputs(a) @ setting.inputs(a).T for a in setting.moving])
        distinct, where = np.unique(np.clip(cosines, -1, 1).round(15), return_inverse=True)
        moments = np.array([layer_integrals.pair_moment(function, c) for c in distinct])
        found[name] = exact(np.linalg.eigvalsh(moments[where].reshape(cosines.shape))[:, 0])
    return found


def _definite_compare(setting: Circle, predicted: Prediction, measured: Measurement) -> Verdict:
    middle = setting.angles // 2
    off = np.abs(np.arange(setting.angles) - middle) > setting.angles // 4
    generic = np.concatenate([measured["tanh"].value[off], measured["gelu"].value])
    singular = np.append(measured["parabola"].value, measured["tanh"].value[middle])
    return Verdict(
        (
            *(absolute_error(name, predicted[name], measured[name].value, 1e-8) for name in _ACTIVATIONS),
            upper_bound("inverse of the smallest eigenvalue, generic", 1e6, 1 / generic),
            absolute_error("smallest eigenvalue, antipodes or a polynomial", 0.0, singular, 1e-12),
        )
    )


def _definite_figure(setting: Circle, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Which kernels of random neurons are positive definite")
    degrees = np.degrees(setting.moving)
    for name, color in zip(_ACTIVATIONS, style.PALETTE, strict=False):
        label = r"$z+z^2/2$" if name == "parabola" else name
        style.theory_line(axes, degrees, np.maximum(predicted[name], _ZERO), color, label)
        value = np.maximum(measured[name].value, _ZERO)
        style.measured_points(axes, degrees, value, 0 * value, color)
    axes.axvline(180, color=style.GREY, lw=0.9, ls=":")
    axes.text(degrees[0], 2 * _ZERO, "zero, up to rounding", color=style.GREY, fontsize=9)
    axes.set(
        yscale="log", ylim=(_ZERO / 3, 1),
        xlabel="direction of the sixth point, degrees (antipode of the first: 180)",
        ylabel="smallest eigenvalue",
    )  # fmt: skip
    style.legend(axes, "direct integration", "kernel", error_bars=False, loc="center right")
    return figure


@dataclass(frozen=True)
class RandomKernels:
    """Output-layer kernels of random neurons, on growing numbers of points."""

    points: tuple[int, ...]
    draws: int
    width: int = 1000
    n_in: int = 10
    distances: tuple[int, ...] = (14, 18, 22, 26, 30, 34)
    probability: float = 0.05

    def inputs(self, points: int) -> Float[np.ndarray, "m d"]:
        """Inputs of length one."""
        x = np.random.default_rng(7).normal(size=(points, self.n_in))
        return x / np.linalg.norm(x, axis=1, keepdims=True)


_BOUNDED = {"sin": (np.sin, np.sinh), "cos": (np.cos, np.cosh)}
_SIGNS = 100


def _concentration_theory(setting: RandomKernels) -> Prediction:
    found = {"signs": Bernstein(1, 1.0, _SIGNS).tail(np.array(setting.distances, dtype=float))}
    for name in _BOUNDED:
        net = MLP((1,), name, C_b=0.0, C_W=1.0)
        means = [kernels(net, np.sqrt(setting.n_in) * setting.inputs(m)).nngp for m in setting.points]
        bounds = [kernel_concentration(K, setting.width) for K in means]
        found[f"{name} bound"] = np.array([bound.distance(setting.probability) for bound in bounds])
        # A sum of random matrices is at least as large as its standard deviation, up to a constant, and
        # larger by at most the root of the logarithm of the dimension.
        size = np.sqrt([bound.variance for bound in bounds])
        sizes = np.stack([size, size * np.sqrt(np.log(setting.points))])
        found[f"{name} growth"] = sizes / sizes[:, :1]
    return found


def _concentration_measure(setting: RandomKernels, key) -> Measurement:
    found = {"signs": exact(2 * binom.sf((_SIGNS + np.array(setting.distances)) // 2, _SIGNS, 0.5))}
    w = np.asarray(jax.random.normal(key, (setting.draws, setting.width, setting.n_in)))
    for name, (function, mean) in _BOUNDED.items():
        distances = np.array([_distances(function, mean, setting.inputs(m), w) for m in setting.points])
        found[f"{name} distances"] = exact(distances)
        found[f"{name} growth"] = jackknife(distances.T, lambda mean: mean / mean[0])
    return found


def _distances(function: Callable, mean: Callable, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Norms of the differences between kernels of random neurons and their mean."""
    expected = np.exp(-1) * mean(x @ x.T)

    def one(weights: np.ndarray) -> float:
        neurons = function(x @ weights.T)
        return np.abs(np.linalg.eigvalsh(neurons @ neurons.T / len(weights) - expected)).max()

    return np.array([one(weights) for weights in w])


def _concentration_compare(setting: RandomKernels, predicted: Prediction, measured: Measurement) -> Verdict:
    beyond = {name: _share_beyond(setting, name, predicted, measured) for name in _BOUNDED}
    return Verdict(
        (
            upper_bound("tail of the sum of 100 signs", predicted["signs"], measured["signs"].value),
            *(
                upper_bound(f"share of kernels beyond the bound, {name}", setting.probability, share_beyond)
                for name, share_beyond in beyond.items()
            ),
            *(_within_band(name, predicted, measured) for name in _BOUNDED),
        )
    )


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


def _concentration_figure(setting: RandomKernels, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (left, right) = style.panels("Random kernels concentrate around their mean", count=2)
    for name, color in zip(_BOUNDED, style.PALETTE, strict=False):
        low, high = predicted[f"{name} growth"]
        left.fill_between(setting.points, low, high, color=color, alpha=0.25, lw=0, label=name)
        value, sem = measured[f"{name} growth"]
        style.measured_points(left, setting.points, value, sem, color)
    roots = np.sqrt(np.array(setting.points) / setting.points[0])
    style.theory_line(left, setting.points, roots, style.GREY, r"$m^{1/2}$ alone", dash="--")
    left.set(xscale="log", yscale="log", xlabel=r"points $m$", ylabel="mean distance, first set to one")
    style.plain_ticks(left.xaxis, setting.points)
    style.plain_ticks(left.yaxis)
    style.measured_points(left, [], [], [], style.GREY, "random neurons, ±2 s.e.")
    left.legend(title=r"bands: $(m\|EK\|)^{1/2}$ to $(m\|EK\|\log m)^{1/2}$", alignment="left")
    style.theory_line(right, setting.distances, predicted["signs"], style.PALETTE[0], "bound")
    printed = (predicted["signs"] / 2) ** 2
    style.theory_line(right, setting.distances, printed, style.GREY, "without dimension and 1/2", dash="--")
    value, sem = measured["signs"]
    style.measured_points(right, setting.distances, value, sem, style.PALETTE[1], "exact")
    right.set(yscale="log", xlabel=r"$t$", ylabel=r"probability that $|$sum of 100 signs$|$ exceeds $t$")
    right.legend()
    return figure


CLAIMS = (
    Claim(
        id="kernel-pd-hermite",
        title="positive definite unless polynomial or antipodal",
        chapter=_CHAPTER,
        statement=(
            "The kernel <sigma(w x_a) sigma(w x_b)> of random neurons on unit inputs is the power series of "
            "x_a x_b with the squared Hermite coefficients of sigma. It is positive definite if sigma is not "
            "a polynomial and no two inputs are parallel or antiparallel; antipodes are harmless when "
            "coefficients of both parities go on forever."
        ),
        source=f"{_SOURCE} (distinct inputs are not enough: an odd sigma cannot tell antipodes apart)",
        quick=Circle(angles=13),
        full=Circle(angles=41),
        theory=_definite_theory,
        measure=_definite_measure,
        compare=_definite_compare,
        figure=_definite_figure,
        deterministic=True,
    ),
    Claim(
        id="matrix-bernstein-kernel-concentration",
        title="the kernel of n neurons is close to its mean",
        chapter=_CHAPTER,
        statement=(
            "The output-layer kernel of n random neurons with |sigma| at most 1 on m points is further than "
            "t from its mean with probability at most 2m exp(-t^2 / (2U + 2mt/(3n))), U = (m/n) |E K|. Its "
            "distance grows with m as the square root of m |E K|, up to another of log m, not as that of m."
        ),
        source=f"{_SOURCE} (with the dimension, the factor 1/2 and the norm of the mean)",
        quick=RandomKernels(points=(25, 50, 100), draws=60),
        full=RandomKernels(points=(25, 50, 100, 200), draws=300),
        theory=_concentration_theory,
        measure=_concentration_measure,
        compare=_concentration_compare,
        figure=_concentration_figure,
    ),
)
