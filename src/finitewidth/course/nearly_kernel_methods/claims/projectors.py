"""Algorithm projectors: in the eigenbasis, mode by mode, and for direct optimisation."""

from dataclasses import dataclass

import numpy as np

from finitewidth.algorithms.direct_optimization import DirectOptimization, direct_coefficient
from finitewidth.algorithms.gradient_descent import GradientDescent, inverting
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import ROBERTS
from finitewidth.course._lab.wrong import scaled
from finitewidth.nearly_kernel_methods.algorithm_projectors import pair_projectors
from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, nearly_kernel

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

    def theory(self) -> Prediction:
        return {"coefficient": np.array([direct_coefficient(a) for a in self.algorithms])}

    def measure(self, key) -> Measurement:
        """Test outputs along the one direction in which solutions may differ at first order."""
        problem = self.problem
        n, k = len(problem.y), problem.k
        q = np.linalg.solve(k[:n, :n], problem.y)
        source = np.einsum("adc,ai,ci->d", problem.mu(self.epsilon)[:n, :, :n], q, q)
        direction = source - k[:, :n] @ np.linalg.solve(k[:n, :n], source[:n])
        ends = [quadratic.trained_outputs(problem, self.epsilon, a)[:, 0] for a in self.algorithms]
        found = [direction @ (end - ends[0]) / (direction @ direction) for end in ends]
        return {"coefficient": exact(np.array(found))}


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

    def theory(self) -> Prediction:
        l = self.eigenvalues
        Z = [pair_projectors(l[:, None], l, GradientDescent(self.eta(edge))) for edge in self.edges]
        Z_A, Z_B = (np.array([pair[i] for pair in Z]) for i in (0, 1))
        return {"Z_A": Z_A, "Z_B": Z_B, "symmetric Z_B": np.array([1 / (2 * l[:, None] * l)] * len(Z))}

    def measure(self, key) -> Measurement:
        """Residuals of two modes, step by step, times what the other has accumulated."""
        l = self.eigenvalues
        found = {"Z_A": [], "Z_B": [], "symmetric Z_B": []}
        for edge in self.edges:
            eta = self.eta(edge)
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

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        names = ("Z_A", "Z_B", "symmetric Z_B")
        scale = float(np.abs(predicted["symmetric Z_B"]).max())
        return [absolute_error(n, predicted[n] / scale, measured[n].value / scale, 1e-11) for n in names]


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


def _inverting_theory(setting: Tensors) -> Prediction:
    problem = setting.problem
    n = len(problem.y)
    l, V = np.linalg.eigh(problem.k[:n, :n])
    pairs = [np.asarray(inverting(l[:, None], l, problem.step(edge))) for edge in setting.edges]
    return {"X": np.array([np.einsum("ai,bj,ij,ci,dj->abcd", V, V, X, V, V, optimize=True) for X in pairs])}


def _inverting_measure(setting: Tensors, key) -> Measurement:
    problem = setting.problem
    return {"X": exact(np.array([_naive(problem, problem.step(edge))[2] for edge in setting.edges]))}


def _inverting_compare(setting: Tensors, predicted: Prediction, measured: Measurement) -> Checks:
    scale = float(np.abs(measured["X"].value).max())
    # The matrix of pairs has as many rows as there are pairs, and about the condition of the kernel.
    allowed = setting.train**2 * np.finfo(float).eps * setting.problem.condition
    return [absolute_error("X", predicted["X"] / scale, measured["X"].value / scale, allowed)]


def _exchanged(setting: Pairs, value: np.ndarray) -> np.ndarray:
    """The two slots of a projector exchanged."""
    return np.swapaxes(value, 1, 2)


def _next_order(setting: DirectSolvers, value: np.ndarray) -> float:
    """Of the series in epsilon, with a coefficient of order one, and ten of them to be safe."""
    return 10 * setting.epsilon


CLAIMS = (
    Claim(
        id="nk-eigenbasis",
        title="algorithm projectors are diagonal in the eigenbasis of the training kernel",
        statement="""Predictions with Z_A and Z_B as functions of two eigenvalues equal those with the literal
        tensors of four training points, so that none of these is ever needed.""",
        source=_SOURCE,
        quick=Tensors(6),
        full=Tensors(16),
        theory=_basis_theory,
        measure=_basis_measure,
        compare=compare_each(
            {"outputs": "outputs"}, absolute_error, lambda setting, _: setting.problem.rounding
        ),
        wrong={"outputs": scaled(1.0001)},
    ),
    Claim(
        id="nk-inverting-tensor",
        title="the inverting tensor in the eigenbasis",
        statement="1/(l1 + l2 - eta l1 l2) in the eigenbasis inverts the matrix k x 1 + 1 x k - eta k x k of "
        "pairs.",
        source=_SOURCE,
        quick=Tensors(6),
        full=Tensors(16),
        theory=_inverting_theory,
        measure=_inverting_measure,
        compare=_inverting_compare,
        wrong={"X": scaled(1.001)},
    ),
    Claim(
        id="nk-ZB-universal",
        title="all dependence on the algorithm sits in Z_A",
        statement="""The part of Z_B that a meta kernel sees, its symmetric part, is 1/(2 l1 l2) at every
        learning rate: residual times accumulated residual plus half a squared step telescopes.""",
        source=f"{_SOURCE} (whose Z_B differ between algorithms by an antisymmetric part only)",
        quick=Pairs(5),
        full=Pairs(25, edges=(0.02, 0.05, 0.37, 1.3, 1.9)),
        figure=Curves("eigenvalues", r"eigenvalue $\lambda_2$ of the other mode"),
        wrong={"Z_A": _exchanged, "symmetric Z_B": scaled(2.0)},
    ),
    Claim(
        id="nk-direct-not-unique",
        title="natural meanings of direct optimisation differ at first order",
        statement="""Z_A in units of 1/(l1 l2) is 0 in the row space and for full Gauss-Newton steps,
        (1-g)/(2-g) for steps of size g, 1/2 for Gauss-Newton flow and 1 for the shortest weights.""",
        source=f"{_SOURCE} (which gives the first)",
        quick=DirectSolvers((1.0, 0.5, 0.1)),
        full=DirectSolvers((1.0, 0.8, 0.5, 0.2, 0.1, 0.05, 0.0)),
        compare=compare_each({"coefficient": "coefficient of Z_A"}, absolute_error, _next_order),
        figure=Curves("names", "direct optimisation"),
        wrong={"coefficient": scaled(0.0)},
    ),
)
