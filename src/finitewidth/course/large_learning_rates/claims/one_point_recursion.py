"""One point and frozen gates: gradient descent on all weights closes on the output and the kernel."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import BEYOND, orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.large_learning_rates.networks import one_point
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork
from finitewidth.report import style
from finitewidth.report.style import Figure

# Relative to the largest number so far; rounding grows with every step of a catapult.
_ROUNDING = 1e-10
# Steps that the pictures show.
_SHOWN = 25
# Divergent runs are compared before they overflow.
_LARGEST = 1e6

Path = Float[np.ndarray, "edges times"]


@dataclass(frozen=True)
class Recursion(RandomProblem):
    """One random network with a given first output, trained at multiples `edges` of 1 / lambda_0."""

    steps: int
    edges: tuple[float, ...] = (1.0, 3.0, 3.5, 6.0)
    width: int = 200
    n_in: int = 7
    output: float = 1.2
    label: float = 0.7

    @property
    def start(self) -> one_point.Weights:
        """The network."""
        return one_point.draw(self.rng(), 1, self.width, self.n_in, self.output)

    @property
    def times(self) -> np.ndarray:
        return np.arange(self.steps + 1)

    def theory(self) -> Prediction:
        weights = self.start
        start = OnePointNetwork.of_weights(weights.u[0], weights.v[0], weights.x, self.label)
        etas = np.array(self.edges) / float(start.kernel)
        path = start.descend(etas, self.steps)
        outputs, kernels = np.asarray(path.outputs).T, np.asarray(path.kernels).T
        return {
            "output": _finite(outputs, outputs),
            "kernel": _finite(kernels, outputs),
            "sums": self.decoupled(start, etas),
            "largest ratio": np.array(1.0),
        }

    def decoupled(self, start: OnePointNetwork, etas: np.ndarray) -> Float[np.ndarray, "2 edges times"]:
        """S and D, each multiplied at every step by a factor that both decide about."""
        S, D = (np.full(len(etas), float(part)) for part in start.sums)
        root, path = float(np.sqrt(start.curvature)), []
        for _ in self.times:
            z = (S - D) / (4 * root)
            running = np.abs(z) < _LARGEST
            path.append(np.where(running, [S, D], 0.0))
            c = np.where(running, etas * root * (z - self.label), 0.0)
            S, D = (1 - c) ** 2 * S, (1 + c) ** 2 * D
        return np.stack(path, axis=-1)

    def measure(self, key) -> Measurement:
        at = self.start
        etas = np.array(self.edges) / at.kernels[0]
        at, path = at.copies(len(etas)), []
        for _ in self.times:
            run = one_point.train(at, self.label, etas, 1)
            path.append(np.stack([run.outputs[0], run.kernels[0], *one_point.sums(at)]))
            at = run.end
        output, kernel, *both = np.stack(path, axis=-1)
        seen = np.abs(output) < _LARGEST
        ratio = 2 * np.sqrt(at.curvature) * np.abs(output[seen]) / kernel[seen]
        return {
            "output": exact(_finite(output, output)),
            "kernel": exact(_finite(kernel, output)),
            "sums": exact(np.stack([_finite(part, output) for part in both])),
            "largest ratio": exact(ratio.max()),
        }


def _finite(values: Path, outputs: Path) -> Path:
    """Numbers of a path up to where its outputs are too large, 0 from there on."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(outputs) < _LARGEST, values, 0.0)


def _close(name: str, text: str):
    """A comparison that forgives rounding of the largest number so far."""

    def compare(setting: Recursion, predicted: Prediction, measured: Measurement) -> Checks:
        found = measured[name]
        largest = np.maximum.accumulate(np.abs(found.value), axis=-1)
        return [absolute_error(text, predicted[name], found, _ROUNDING * largest)]

    return compare


def _both_sums(setting: Recursion, predicted: Prediction, measured: Measurement) -> Checks:
    yield from _close("sums", "S and D along training")(setting, predicted, measured)
    yield upper_bound("2 a^1/2 |z| / lambda", predicted["largest ratio"], measured["largest ratio"])


def _other_recursion(residual_term: float, kernel_term: float, missing_output: bool = False):
    """A recursion with other factors of its quadratic terms; the kernel's as printed, with 4/(z - y)."""

    def path(setting: Recursion) -> tuple[Path, Path]:
        weights = setting.start
        a, y = weights.curvature, setting.label
        lam = np.repeat(weights.kernels, len(setting.edges))
        z, eta = np.full(len(lam), setting.output), np.array(setting.edges) / lam
        kept = []
        with np.errstate(all="ignore"):
            for _ in setting.times:
                kept.append((z, lam))
                r = z - y
                push = r if missing_output else z * r
                z, lam = (
                    y + r * (1 - eta * lam + residual_term * a * eta**2 * z * r),
                    lam - 4 * kernel_term * a * eta * push + a * eta**2 * r**2 * lam,
                )
        outputs, kernels = np.moveaxis(np.array(kept), 0, -1)
        return outputs, kernels

    return path


def _wrong_output(setting: Recursion, value: np.ndarray) -> np.ndarray:
    """Outputs of a linear model: no term of order 1/width in the residual."""
    outputs = _other_recursion(0.0, 1.0)(setting)[0]
    return np.nan_to_num(_finite(outputs, outputs))


def _half_the_term(setting: Recursion, value: np.ndarray) -> np.ndarray:
    """A half in front of the quadratic term."""
    outputs = _other_recursion(0.5, 1.0)(setting)[0]
    return np.nan_to_num(_finite(outputs, outputs))


def _printed_kernel(setting: Recursion, value: np.ndarray) -> np.ndarray:
    """eta lambda - 4/(z - y) in place of eta lambda - 4z/(z - y)."""
    outputs, kernels = _other_recursion(1.0, 1.0, missing_output=True)(setting)
    return np.nan_to_num(_finite(kernels, outputs))


def _frozen_kernel(setting: Recursion, value: np.ndarray) -> np.ndarray:
    """A kernel that does not move."""
    return np.broadcast_to(value[:, :1], value.shape)


def _sums_exchanged(setting: Recursion, value: np.ndarray) -> np.ndarray:
    """The factor of each sum on the other."""
    return value[::-1]


def _picture(name: str, title: str, labels: tuple[str, ...], scale: str):
    """The first steps, theory as lines and training as points; a divergent run ends where it is cut off."""

    def figure(setting: Recursion, predicted: Prediction, measured: Measurement) -> Figure:
        picture, panels = style.panels(title, len(labels))
        shape = (len(labels), len(setting.edges), -1)
        rows = zip(predicted[name].reshape(shape), measured[name].value.reshape(shape), strict=True)
        for axes, label, (lines, points) in zip(panels, labels, rows, strict=True):
            shown = setting.times[:_SHOWN]
            for i, edge in enumerate(setting.edges):
                line, dots = (np.where(part[i] == 0, np.nan, part[i])[:_SHOWN] for part in (lines, points))
                color = style.PALETTE[i % len(style.PALETTE)]
                style.theory_line(axes, shown, line, color, rf"$\eta\lambda_0$ = {edge:g}")
                style.measured_points(axes, shown, dots, np.zeros(len(shown)), color)
            axes.set_yscale(scale)
            axes.set(xlabel="step", ylabel=label)
            style.legend(axes, "training of all weights", "recursion", error_bars=False, fontsize=8)
        return picture

    return figure


_SOURCE = orf_543("11/7")
_OUTPUT = _picture("output", "The output through a catapult", ("$z$",), "symlog")
_KERNEL = _picture("kernel", "The kernel through a catapult", (r"$\lambda$",), "log")
_SUMS = _picture("sums", "Two sums of squares through a catapult", ("$S$", "$D$"), "log")

CLAIMS = (
    Claim(
        id="catapult-residual-recursion",
        title="the residual of a one-point network follows a recursion",
        statement="""With gates frozen at their start, z = (md)^-1/2 sum_i v_i (u_i . x) 1{u_i(0) . x >= 0} of
        width m and loss (z - y)^2/2, gradient descent on all weights gives z' - y = (z - y)(1 - eta lambda +
        a eta^2 z (z - y)) with a = |x|^2/(md), exactly and at any step size.""",
        source=_SOURCE,
        quick=Recursion(steps=200),
        full=Recursion(steps=400, edges=(0.5, 1.0, 1.9, 2.2, 2.5, 3.0, 3.3, 3.5, 6.0, 8.0), width=1000),
        figure=_OUTPUT,
        compare=_close("output", "output z along training"),
        context=("kernel", "sums", "largest ratio"),
        wrong={"output": (_wrong_output, _half_the_term)},
    ),
    Claim(
        id="catapult-kernel-recursion",
        title="the kernel of a one-point network follows a recursion",
        statement="""In the same network the tangent kernel moves by lambda' = lambda + eta a (z - y)^2
        (eta lambda - 4 z/(z - y)), exactly: residual and kernel are a closed system of two numbers.""",
        source=f"{_SOURCE} (printed with 4/(z - y), which agrees up to a factor z only)",
        quick=Recursion(steps=200),
        full=Recursion(steps=400, edges=(0.5, 1.0, 1.9, 2.2, 2.5, 3.0, 3.3, 3.5, 6.0, 8.0), width=1000),
        figure=_KERNEL,
        compare=_close("kernel", "kernel lambda along training"),
        context=("output", "sums", "largest ratio"),
        wrong={"kernel": (_printed_kernel, _frozen_kernel)},
    ),
    Claim(
        id="catapult-decoupled-form",
        title="two sums of squares evolve by factors of their own",
        statement="""S and D, the sums of (|x| v_i + u_i . x)^2 and (|x| v_i - u_i . x)^2 over active units
        divided by md, evolve as S' = (1 - c r)^2 S and D' = (1 + c r)^2 D with c = eta |x|/(md)^1/2 and
        r = z - y; lambda = (S + D)/2 and z = (S - D)/(4 a^1/2). Hence 2 a^1/2 |z| <= lambda always.""",
        source=f"{BEYOND}: the recursion of {_SOURCE} in other variables",
        quick=Recursion(steps=200),
        full=Recursion(steps=400, edges=(0.5, 1.0, 1.9, 2.2, 2.5, 3.0, 3.3, 3.5, 6.0, 8.0), width=1000),
        figure=_SUMS,
        compare=_both_sums,
        context=("output", "kernel"),
        bounds={"largest ratio": "above"},
        wrong={"sums": (_sums_exchanged, _frozen_kernel), "largest ratio": scaled(0.5)},
    ),
)
