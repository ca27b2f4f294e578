"""How fast gradient descent converges on a fixed kernel, and where it ends."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import GradientDescent
from finitewidth.dynamics.kernel_descent import Spectrum
from finitewidth.dynamics.ridge import ridge_regression
from finitewidth.lab.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.lab.estimate import exact
from finitewidth.lab.linear_descent import LinearProblem, descend, largest_curvature, random_problem
from finitewidth.prediction.certificates import ConvergenceCertificate, convergence_certificate
from finitewidth.report import style
from finitewidth.statistics.kernels import kernels

_CHAPTER = "Linear models"


@dataclass(frozen=True)
class Edge:
    """Step sizes around 2 / lambda_max, and how long to run."""

    steps: int
    edges: tuple[float, ...]

    @property
    def problem(self) -> LinearProblem:
        """A random linear model."""
        return random_problem(6, 14, 1, 3)


def _edge_theory(setting: Edge) -> Prediction:
    problem = setting.problem
    spectrum = Spectrum.of(jnp.asarray(problem.train @ problem.train.T))
    top = float(spectrum.eigenvalues[-1])
    start = spectrum.eigenvectors.T @ (problem.train @ problem.start - problem.y)
    left = [GradientDescent(e / top, setting.steps).residual(spectrum.eigenvalues) for e in setting.edges]
    norms = [float(jnp.linalg.norm(factor * start)) for factor in left]
    return {"residual": np.array(norms), "edge": np.array(2.0)}


def _edge_measure(setting: Edge, key) -> Measurement:
    problem = setting.problem
    top = largest_curvature(problem)

    def norm(edge: float, steps: int) -> float:
        weights = descend(problem, edge / top, (steps,))[0]
        return float(np.linalg.norm(problem.train @ weights - problem.y))

    low, high = 1.5, 2.5
    while high - low > 1e-6:
        middle = (low + high) / 2
        grows = norm(middle, setting.steps) > norm(middle, setting.steps // 2)
        low, high = (low, middle) if grows else (middle, high)
    norms = np.array([norm(edge, setting.steps) for edge in setting.edges])
    return {"residual": exact(norms), "edge": exact((low + high) / 2)}


def _edge_compare(setting: Edge, predicted: Prediction, measured: Measurement) -> Verdict:
    # Slower modes still shrink between the two times that are compared, which shifts the edge a little.
    return Verdict(
        (
            relative_error("residual after the run", predicted["residual"], measured["residual"].value, 1e-8),
            absolute_error("edge of stability", predicted["edge"], measured["edge"].value, 1 / setting.steps),
        )
    )


def _edge_figure(setting: Edge, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels(r"Gradient descent converges below $\eta = 2/\lambda_{max}$ only")
    style.theory_line(axes, setting.edges, predicted["residual"], style.PALETTE[0])
    value, sem = measured["residual"]
    style.measured_points(axes, setting.edges, value, sem, style.PALETTE[1])
    axes.axvline(measured["edge"].value, color=style.PALETTE[1], lw=1, ls=":", label="measured edge")
    axes.set(
        yscale="log", xlabel=r"$\eta\lambda_{max}$", ylabel=f"norm of the residual after {setting.steps} steps"
    )
    style.legend(
        axes, "steps on the weights", error_bars=False,
        color=style.PALETTE[0], point_color=style.PALETTE[1],
    )  # fmt: skip
    return figure


@dataclass(frozen=True)
class Rates:
    """A least-squares problem with a chosen spectrum."""

    steps: int
    etas: tuple[float, ...]
    eigenvalues: tuple[float, ...] = (0.5, 1.0, 4.0)

    @property
    def certificate(self) -> ConvergenceCertificate:
        """What the two extreme eigenvalues promise."""
        return ConvergenceCertificate(min(self.eigenvalues), max(self.eigenvalues), 0.0)


def _rate_theory(setting: Rates) -> Prediction:
    certificate = setting.certificate
    return {
        "factor": np.array([certificate.contraction(eta) for eta in setting.etas]),
        "best": np.array([certificate.best_step, certificate.contraction(certificate.best_step)]),
    }


def _rate_measure(setting: Rates, key) -> Measurement:
    problem = LinearProblem(
        np.diag(np.sqrt(setting.eigenvalues)), np.eye(3), np.array([1.0, -0.7, 0.4]), np.zeros(3)
    )

    def factor(eta: float) -> float:
        weights = descend(problem, eta, (setting.steps - 2, setting.steps))
        before, after = np.linalg.norm(weights @ problem.train.T - problem.y, axis=1)
        return float(np.sqrt(after / before))

    grid = np.linspace(0.3, 0.495, 1951)
    found = grid[np.argmin([factor(eta) for eta in grid])]
    factors = np.array([factor(eta) for eta in setting.etas])
    return {"factor": exact(factors), "best": exact(np.array([found, factor(found)]))}


def _rate_compare(setting: Rates, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        (
            relative_error("contraction per step", predicted["factor"], measured["factor"].value, 1e-6),
            absolute_error("best step and its factor", predicted["best"], measured["best"].value, 1e-3),
        )
    )


def _rate_figure(setting: Rates, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The slowest mode decides: contraction of gradient descent")
    grid = np.linspace(0.02, 0.5, 200)
    curve = [setting.certificate.contraction(eta) for eta in grid]
    style.theory_line(axes, grid, curve, style.PALETTE[0], r"$\max_i|1-\eta\lambda_i|$")
    naive = 1 - min(setting.eigenvalues) * grid
    style.theory_line(axes, grid, naive, style.GREY, r"$1-\eta\lambda_{min}$", dash="--")
    value, sem = measured["factor"]
    style.measured_points(axes, setting.etas, value, sem, style.PALETTE[1])
    axes.plot(*predicted["best"], "*", ms=11, color=style.PALETTE[2], label=r"best: $2/(\lambda_{max}+\lambda_{min})$")
    axes.set(xlabel=r"step $\eta$", ylabel="factor per step")
    style.legend(
        axes, "steps on the weights", error_bars=False,
        color=style.PALETTE[0], point_color=style.PALETTE[1],
    )  # fmt: skip
    return figure


@dataclass(frozen=True)
class FewEquations:
    """More unknowns than equations."""

    points: int
    features: int

    @property
    def problem(self) -> LinearProblem:
        """A random linear model."""
        return random_problem(self.points, self.features, 1, 8)


def _norm_theory(setting: FewEquations) -> Prediction:
    problem = setting.problem
    kernel = problem.train @ problem.train.T
    from_zero = ridge_regression(kernel, problem.y[:, None]).coefficients
    correction = ridge_regression(kernel, (problem.y - problem.train @ problem.start)[:, None]).coefficients
    return {
        "from zero": problem.train.T @ from_zero[:, 0],
        "from the start": problem.start + problem.train.T @ correction[:, 0],
    }


def _norm_measure(setting: FewEquations, key) -> Measurement:
    problem = setting.problem
    eta = 1 / largest_curvature(problem)
    steps = (int(np.ceil(36 / (eta * np.linalg.norm(problem.train, -2) ** 2))),)
    shortest = np.linalg.lstsq(problem.train, problem.y, rcond=None)[0]
    return {
        "from zero": exact(descend(problem, eta, steps, np.zeros(setting.features))[0]),
        "from the start": exact(descend(problem, eta, steps)[0]),
        "least norm": exact(shortest),
    }


def _norm_compare(setting: FewEquations, predicted: Prediction, measured: Measurement) -> Verdict:
    zero, start = predicted["from zero"], predicted["from the start"]
    return Verdict(
        (
            absolute_error("weights from zero", zero, measured["from zero"].value, 1e-10),
            absolute_error("weights from a random start", start, measured["from the start"].value, 1e-10),
            absolute_error("interpolator of least norm", zero, measured["least norm"].value, 1e-10),
        )
    )


def _norm_figure(setting: FewEquations, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("From zero, descent finds the shortest interpolator; from elsewhere it does not")
    index = np.arange(setting.features) + 1
    for name, color in zip(("from zero", "from the start"), style.PALETTE, strict=False):
        axes.step(index, predicted[name], where="mid", color=color, lw=1.7, label=name)
        value, sem = measured[name]
        style.measured_points(axes, index, value, sem, color)
    axes.set(xlabel="weight", ylabel="value at the end")
    style.whole_ticks(axes.xaxis)
    style.legend(axes, "steps on the weights", error_bars=False)
    return figure


@dataclass(frozen=True)
class FixedKernel:
    """The NTK of a wide network on random inputs, and how long to descend."""

    points: int
    steps: int
    fraction: float = 0.9

    @property
    def inputs(self) -> np.ndarray:
        """Random inputs."""
        return np.random.default_rng(5).normal(size=(self.points, 3))

    @property
    def network(self) -> MLP:
        """A network whose kernel stays fixed: infinitely wide."""
        return MLP((1, 1), "relu", 0.1, 2.0)


def _bound_theory(setting: FixedKernel) -> Prediction:
    kernel = kernels(setting.network, setting.inputs).ntk
    certificate = convergence_certificate(kernel)
    factor = certificate.contraction(setting.fraction / certificate.largest)
    bound = factor ** (2.0 * np.arange(setting.steps + 1))
    return {"bound": bound, "kernel": np.asarray(kernel)}


def _bound_measure(setting: FixedKernel, key) -> Measurement:
    kernel = _kernel_by_quadrature(setting)
    values, vectors = np.linalg.eigh(kernel)
    eta = setting.fraction / values[-1]
    starts = np.random.default_rng(6).normal(size=(setting.points, 20))
    starts = np.concatenate([vectors[:, :1], starts / np.linalg.norm(starts, axis=0)], axis=1)
    losses = [np.ones(21)]
    residual = starts
    for _ in range(setting.steps):
        residual = residual - eta * kernel @ residual
        losses.append(np.sum(residual**2, axis=0))
    return {"loss": exact(np.array(losses).T), "kernel": exact(kernel)}


def _kernel_by_quadrature(setting: FixedKernel) -> np.ndarray:
    """The NTK by summing over directions of two preactivations, layer by layer."""
    x = setting.inputs
    K = 0.1 + 2.0 * x @ x.T / x.shape[1]
    theta = 1.0 + x @ x.T / x.shape[1]
    for _ in range(2):
        scale = np.sqrt(np.outer(np.diag(K), np.diag(K)))
        angle = np.arccos(np.clip(K / scale, -1, 1))
        np.fill_diagonal(angle, 0.0)
        node, weight = np.polynomial.legendre.leggauss(40)
        # Both preactivations are positive for directions between angle - pi/2 and pi/2.
        half = (np.pi - angle) / 2
        t = (angle[..., None] + half[..., None] * 2 * node) / 2
        both = np.cos(t) * np.cos(t - angle[..., None])
        value = scale * half * np.sum(weight * both, axis=-1) / np.pi
        slope = half / np.pi
        theta = 1.0 + value + 2.0 * slope * theta
        K = 0.1 + 2.0 * value
    return theta


def _bound_compare(setting: FixedKernel, predicted: Prediction, measured: Measurement) -> Verdict:
    loss = measured["loss"].value
    bound = predicted["bound"]
    return Verdict(
        (
            relative_error("kernel by direct integration", predicted["kernel"], measured["kernel"].value, 1e-10),
            upper_bound("loss from 20 random starts", bound, loss[1:]),
            relative_error("loss from the slowest mode", bound, loss[0], 1e-6),
        )
    )


def _bound_figure(setting: FixedKernel, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("A positive definite kernel makes the loss fall geometrically")
    steps = np.arange(setting.steps + 1)
    for row in measured["loss"].value[1:]:
        axes.plot(steps, row, color=style.GREY, lw=0.7, alpha=0.6)
    axes.plot([], [], color=style.GREY, lw=0.7, label="20 random starts")
    style.theory_line(axes, steps, predicted["bound"], style.PALETTE[0], r"$(1-\eta\lambda_{min})^{2t}$")
    shown = steps[:: max(1, setting.steps // 12)]
    slow = measured["loss"].value[0][shown]
    style.measured_points(axes, shown, slow, 0 * slow, style.PALETTE[1], "start in the slowest mode")
    axes.set(yscale="log", xlabel="step", ylabel="loss, one at the start")
    axes.legend()
    return figure


_LECTURE = "ORF 543 lecture notes"

CLAIMS = (
    Claim(
        id="lin-stability-edge",
        title="stable below eta = 2 / lambda_max",
        chapter=_CHAPTER,
        statement="Gradient descent on a linear model converges if and only if eta lambda_max(K) < 2.",
        source="notes on quadratic models and nearly-kernel methods (the condition was left out)",
        quick=Edge(steps=300, edges=(1.8, 1.9, 1.95, 2.05, 2.1)),
        full=Edge(steps=2000, edges=(1.9, 1.95, 1.99, 2.01, 2.05)),
        theory=_edge_theory,
        measure=_edge_measure,
        compare=_edge_compare,
        figure=_edge_figure,
    ),
    Claim(
        id="gd-linear-rate",
        title="contraction max|1 - eta lambda|",
        chapter=_CHAPTER,
        statement=(
            "Each step contracts the error by max(|1 - eta lambda_min|, |1 - eta lambda_max|); the best "
            "step is 2/(lambda_max + lambda_min), with factor (kappa - 1)/(kappa + 1)."
        ),
        source=f"{_LECTURE}, lecture of 9/14 (1 - eta lambda_min holds below the best step only)",
        quick=Rates(steps=400, etas=(0.05, 0.1, 0.2, 0.3, 0.4, 0.47, 0.49)),
        full=Rates(steps=1200, etas=tuple(np.linspace(0.03, 0.495, 24).round(4).tolist())),
        theory=_rate_theory,
        measure=_rate_measure,
        compare=_rate_compare,
        figure=_rate_figure,
    ),
    Claim(
        id="gd-min-norm",
        title="descent from zero: the interpolator of least norm",
        chapter=_CHAPTER,
        statement=(
            "With fewer equations than unknowns descent ends at w(0) + A^T (A A^T)^-1 (y - A w(0)): the "
            "interpolator of least norm if w(0) = 0, and not otherwise."
        ),
        source="lecture notes on feature learning (the condition on the start was left out)",
        quick=FewEquations(points=5, features=12),
        full=FewEquations(points=10, features=30),
        theory=_norm_theory,
        measure=_norm_measure,
        compare=_norm_compare,
        figure=_norm_figure,
    ),
    Claim(
        id="pd-kernel-linear-convergence",
        title="positive definite kernel: geometric convergence",
        chapter=_CHAPTER,
        statement=(
            "On a fixed kernel with eigenvalues at least lambda_0, and eta at most 1 / lambda_max, the loss "
            "after t steps is at most (1 - eta lambda_0)^(2t) times its start; the slowest mode reaches it."
        ),
        source=f"{_LECTURE}, lecture of 10/10 (with the number of steps in the exponent)",
        quick=FixedKernel(points=6, steps=200),
        full=FixedKernel(points=40, steps=3000),
        theory=_bound_theory,
        measure=_bound_measure,
        compare=_bound_compare,
        figure=_bound_figure,
    ),
)
