"""Algorithm projectors: in the eigenbasis, mode by mode, and for direct optimisation."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import (
    DirectOptimization,
    GradientDescent,
    GradientFlow,
    SpectralAlgorithm,
    direct_coefficient,
    inverting,
)
from finitewidth.lab import quadratic
from finitewidth.lab.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import absolute_error
from finitewidth.lab.estimate import exact
from finitewidth.lab.quadratic import Problem
from finitewidth.lab.random_problem import RandomProblem, drawn
from finitewidth.lab.sources import ROBERTS
from finitewidth.nearly_kernel_methods.algorithm_projectors import pair_projectors
from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, nearly_kernel
from finitewidth.report import style

_CHAPTER = "Nearly-kernel methods"
_SOURCE = f"{ROBERTS}, nearly-kernel methods"


def _machine(problem: Problem, epsilon: float, algorithm: SpectralAlgorithm) -> NearlyKernel:
    return nearly_kernel(*problem.parts(epsilon), problem.y, algorithm)


@dataclass(frozen=True)
class DirectSolvers(RandomProblem):
    """Gauss-Newton with ever smaller steps, and the shortest solution, at one small epsilon."""

    steps: tuple[float, ...]
    epsilon: float = 1e-4

    @property
    def problem(self) -> Problem:
        return quadratic.draw(self.rng())

    @property
    def algorithms(self) -> list[DirectOptimization]:
        return quadratic.direct_solvers(self.steps)

    @property
    def names(self) -> list[str]:
        return ["row space", *(f"Gauss-Newton {step:g}" for step in self.steps), "minimum norm"]


def _direct_theory(setting: DirectSolvers) -> Prediction:
    return {"coefficient": np.array([direct_coefficient(a) for a in setting.algorithms])}


def _direct_measure(setting: DirectSolvers, key) -> Measurement:
    """Test outputs along the one direction in which solutions may differ at first order."""
    problem = setting.problem
    n, k = len(problem.y), problem.k
    q = np.linalg.solve(k[:n, :n], problem.y)
    source = np.einsum("adc,ai,ci->d", problem.mu(setting.epsilon)[:n, :, :n], q, q)
    direction = source - k[:, :n] @ np.linalg.solve(k[:n, :n], source[:n])
    ends = [quadratic.trained_outputs(problem, setting.epsilon, a)[:, 0] for a in setting.algorithms]
    found = [direction @ (end - ends[0]) / (direction @ direction) for end in ends]
    return {"coefficient": exact(np.array(found))}


def _direct_compare(setting: DirectSolvers, predicted: Prediction, measured: Measurement) -> Verdict:
    # The next order of the series in epsilon, with a coefficient of order one, and ten of them to be safe.
    found, allowed = measured["coefficient"].value, 10 * setting.epsilon
    return Verdict((absolute_error("coefficient of Z_A", predicted["coefficient"], found, allowed),))


def _direct_figure(setting: DirectSolvers, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Direct optimisation is not one algorithm")
    where = np.arange(len(setting.names))
    axes.bar(where, predicted["coefficient"], color=style.PALETTE[0], alpha=0.35, label="theory")
    style.measured_points(
        axes, where, measured["coefficient"].value, np.zeros(len(where)), style.PALETTE[1], "solved"
    )
    axes.set_xticks(where, setting.names, rotation=20, ha="right")
    axes.set(ylabel=r"$Z_A$ in units of $\tilde k^{-1}\tilde k^{-1}$")
    axes.legend()
    return figure


@dataclass(frozen=True)
class Pairs(RandomProblem):
    """Modes that decay together in pairs, at a few learning rates."""

    modes: int
    edges: tuple[float, ...] = (0.05, 0.37, 1.3, 1.9)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Random ones between 0.2 and 3, in ascending order."""
        return np.geomspace(0.2, 3.0, 1001)[np.sort(self.rng().choice(1001, self.modes, replace=False))]

    def eta(self, edge: float) -> float:
        return float(edge / self.eigenvalues[-1])


def _pairs_theory(setting: Pairs) -> Prediction:
    l = setting.eigenvalues
    Z = [pair_projectors(l[:, None], l, GradientDescent(setting.eta(edge))) for edge in setting.edges]
    Z_A, Z_B = (np.array([pair[i] for pair in Z]) for i in (0, 1))
    return {"Z_A": Z_A, "Z_B": Z_B, "symmetric Z_B": np.array([1 / (2 * l[:, None] * l)] * len(Z))}


def _pairs_measure(setting: Pairs, key) -> Measurement:
    """Residuals of two modes, step by step, times what the other has accumulated."""
    l = setting.eigenvalues
    found = {"Z_A": [], "Z_B": [], "symmetric Z_B": []}
    for edge in setting.edges:
        eta = setting.eta(edge)
        e, accumulated = np.ones_like(l), np.zeros_like(l)
        Z_A, half = np.zeros((len(l), len(l))), np.zeros((len(l), len(l)))
        while np.abs(e).max() > 1e-18:
            Z_A += eta * np.outer(e, accumulated)
            half += eta**2 / 2 * np.outer(e, e)
            accumulated = accumulated + eta * e
            e = e * (1 - eta * l)
        found["Z_A"].append(Z_A)
        found["Z_B"].append(Z_A + half)
        found["symmetric Z_B"].append((Z_A + Z_A.T) / 2 + half)
    return {name: exact(np.array(values)) for name, values in found.items()}


def _pairs_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    names = ("Z_A", "Z_B", "symmetric Z_B")
    scale = float(np.abs(predicted["symmetric Z_B"]).max())
    return Verdict(
        tuple(absolute_error(n, predicted[n] / scale, measured[n].value / scale, 1e-11) for n in names)
    )


def _pairs_figure(setting: Pairs, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (left, right) = style.panels("One projector knows the algorithm, the other does not", 2)
    l, middle = setting.eigenvalues, setting.modes // 2
    for i, (edge, color) in enumerate(zip(setting.edges, style.PALETTE, strict=False)):
        label = rf"$\eta = {edge}/\lambda_{{max}}$"
        for axes, name in ((left, "Z_A"), (right, "symmetric Z_B")):
            style.theory_line(axes, l, predicted[name][i, middle], color, label)
            style.measured_points(axes, l, measured[name].value[i, middle], np.zeros(len(l)), color)
    titles = ((left, "$Z_A$"), (right, "symmetric part of $Z_B$"))
    for axes, title in titles:
        axes.set(xscale="log", xlabel=r"eigenvalue $\lambda_2$ of the other mode", title=title)
    style.legend(left, "summed over steps", loc="best", error_bars=False)
    return figure


@dataclass(frozen=True)
class Tensors(RandomProblem):
    """A training set small enough for tensors of four points."""

    train: int
    edges: tuple[float, ...] = (0.37, 1.3, 1.9)
    epsilon: float = 0.1

    @property
    def problem(self) -> Problem:
        return quadratic.draw(self.rng(), self.train, 5, 3 * self.train)


def _naive(problem: Problem, eta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Z_A, Z_B and X with four indices, from the definitions; no step is gradient flow."""
    n = len(problem.y)
    k, one = problem.k[:n, :n], np.eye(n)
    sums = np.einsum("ac,bd->abcd", k, one) + np.einsum("ac,bd->abcd", one, k)
    sums = sums - eta * np.einsum("ac,bd->abcd", k, k)
    X = np.linalg.inv(sums.reshape(n * n, n * n)).reshape(n, n, n, n)
    inverse = np.linalg.inv(k)
    Z_A = np.einsum("ac,bd->abcd", inverse, inverse) - np.einsum("be,aecd->abcd", inverse, X)
    return Z_A, Z_A + eta / 2 * X, X


def _basis_theory(setting: Tensors) -> Prediction:
    problem = setting.problem
    algorithms = [GradientFlow(), *(problem.descent(edge) for edge in setting.edges)]
    return {"outputs": np.array([_machine(problem, setting.epsilon, a).prediction[:, 0] for a in algorithms])}


def _basis_measure(setting: Tensors, key) -> Measurement:
    problem = setting.problem
    n, y = len(problem.y), problem.y[:, 0]
    k, mu = problem.k, problem.mu(setting.epsilon)
    smooth = k[:, :n] @ np.linalg.inv(k[:n, :n])
    found = []
    for edge in (0.0, *setting.edges):
        Z_A, Z_B, _ = _naive(problem, problem.step(edge) if edge else 0.0)
        A = np.einsum("adb,abce,c,e->d", mu[:n, :, :n], Z_A, y, y, optimize=True)
        B = np.einsum("dab,abce,c,e->d", mu[:, :n, :n], Z_B, y, y, optimize=True)
        found.append(smooth @ y + A + B - smooth @ (A + B)[:n])
    return {"outputs": exact(np.array(found))}


def _basis_compare(setting: Tensors, predicted: Prediction, measured: Measurement) -> Verdict:
    allowed = setting.problem.rounding
    return Verdict((absolute_error("outputs", predicted["outputs"], measured["outputs"].value, allowed),))


def _basis_figure(setting: Tensors, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Eigenbasis and tensors of four points")
    names = ("flow", *(rf"$\eta = {edge}/\lambda_{{max}}$" for edge in setting.edges))
    where = np.arange(predicted["outputs"].shape[1])[setting.train :]
    for i, (name, color) in enumerate(zip(names, style.PALETTE, strict=False)):
        style.theory_line(axes, where, predicted["outputs"][i, where], color, name)
        style.measured_points(axes, where, measured["outputs"].value[i, where], np.zeros(len(where)), color)
    axes.set(xlabel="test point", ylabel="prediction")
    style.whole_ticks(axes.xaxis)
    style.legend(axes, "four-point tensors", "eigenbasis", loc="best", error_bars=False)
    return figure


def _inverting_theory(setting: Tensors) -> Prediction:
    problem = setting.problem
    n = len(problem.y)
    l, V = np.linalg.eigh(problem.k[:n, :n])
    pairs = [np.asarray(inverting(l[:, None], l, problem.step(edge))) for edge in setting.edges]
    return {"X": np.array([np.einsum("ai,bj,ij,ci,dj->abcd", V, V, X, V, V, optimize=True) for X in pairs])}


def _inverting_measure(setting: Tensors, key) -> Measurement:
    problem = setting.problem
    return {"X": exact(np.array([_naive(problem, problem.step(edge))[2] for edge in setting.edges]))}


def _inverting_compare(setting: Tensors, predicted: Prediction, measured: Measurement) -> Verdict:
    scale = float(np.abs(measured["X"].value).max())
    # The matrix of pairs has as many rows as there are pairs, and about the condition of the kernel.
    allowed = setting.train**2 * np.finfo(float).eps * setting.problem.condition
    return Verdict((absolute_error("X", predicted["X"] / scale, measured["X"].value / scale, allowed),))


def _inverting_figure(setting: Tensors, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The inverting tensor, entry by entry")
    for i, (edge, color) in enumerate(zip(setting.edges, style.PALETTE, strict=False)):
        theory, found = predicted["X"][i].ravel(), measured["X"].value[i].ravel()
        some = np.argsort(theory)[:: max(1, len(theory) // 60)]
        label = rf"$\eta = {edge}/\lambda_{{max}}$"
        style.measured_points(axes, theory[some], found[some], np.zeros(len(some)), color, label)
    reach = [predicted["X"].min(), predicted["X"].max()]
    style.theory_line(axes, reach, reach, style.GREY, "equal")
    axes.set(xlabel="eigenbasis", ylabel="inverse of the matrix of pairs")
    axes.legend()
    return figure


CLAIMS = (
    Claim(
        "nk-eigenbasis",
        "algorithm projectors are diagonal in the eigenbasis of the training kernel",
        _CHAPTER,
        "Predictions with Z_A and Z_B as functions of two eigenvalues equal those with the literal "
        "tensors of four training points, so that none of these is ever needed.",
        _SOURCE,
        Tensors(6),
        Tensors(16),
        _basis_theory,
        _basis_measure,
        _basis_compare,
        _basis_figure,
        draw=drawn,
    ),
    Claim(
        "nk-inverting-tensor",
        "the inverting tensor in the eigenbasis",
        _CHAPTER,
        "1/(l1 + l2 - eta l1 l2) in the eigenbasis inverts the matrix k x 1 + 1 x k - eta k x k of pairs.",
        _SOURCE,
        Tensors(6),
        Tensors(16),
        _inverting_theory,
        _inverting_measure,
        _inverting_compare,
        _inverting_figure,
        draw=drawn,
    ),
    Claim(
        "nk-ZB-universal",
        "all dependence on the algorithm sits in Z_A",
        _CHAPTER,
        "The part of Z_B that a meta kernel sees, its symmetric part, is 1/(2 l1 l2) at every learning "
        "rate: residual times accumulated residual plus half a squared step telescopes.",
        f"{_SOURCE} (whose Z_B differ between algorithms by an antisymmetric part only)",
        Pairs(5),
        Pairs(25, edges=(0.02, 0.05, 0.37, 1.3, 1.9)),
        _pairs_theory,
        _pairs_measure,
        _pairs_compare,
        _pairs_figure,
        draw=drawn,
    ),
    Claim(
        "nk-direct-not-unique",
        "natural meanings of direct optimisation differ at first order",
        _CHAPTER,
        "Z_A in units of 1/(l1 l2) is 0 in the row space and for full Gauss-Newton steps, (1-g)/(2-g) for"
        " steps of size g, 1/2 for Gauss-Newton flow and 1 for the shortest weights.",
        f"{_SOURCE} (which gives the first)",
        DirectSolvers((1.0, 0.5, 0.1)),
        DirectSolvers((1.0, 0.8, 0.5, 0.2, 0.1, 0.05, 0.0)),
        _direct_theory,
        _direct_measure,
        _direct_compare,
        _direct_figure,
        draw=drawn,
    ),
)
