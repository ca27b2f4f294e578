"""Nearly-kernel methods: the trained quadratic model from a kernel and a meta kernel."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import (
    DirectOptimization,
    GradientDescent,
    GradientFlow,
    SpectralAlgorithm,
)
from finitewidth.dynamics.machine import nearly_kernel_machine
from finitewidth.dynamics.nearly_kernel import NearlyKernel, nearly_kernel
from finitewidth.dynamics.projectors import direct_coefficient, inverting, pair_projectors
from finitewidth.lab import quadratic
from finitewidth.lab.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import absolute_error
from finitewidth.lab.estimate import exact
from finitewidth.lab.orders import Curve, Orders, fitted_power, order_claim
from finitewidth.lab.quadratic import Problem
from finitewidth.report import style

_CHAPTER = "Nearly-kernel methods"
_SOURCE = "lectures on the principles of deep learning theory, nearly-kernel methods"
_SMALL_STEP = 0.05


def _problem(setting: Orders) -> Problem:
    return quadratic.draw(setting.seed, setting.train, setting.test, setting.features)


def _machine(problem: Problem, epsilon: float, algorithm: SpectralAlgorithm) -> NearlyKernel:
    return nearly_kernel(*problem.parts(epsilon), problem.y, algorithm)


def _descent_theory(setting: Orders) -> dict[str, np.ndarray]:
    problem = _problem(setting)
    algorithms = {
        "nearly kernel": problem.descent(setting.edge),
        "small steps": problem.descent(_SMALL_STEP),
        "flow formula": GradientFlow(),
    }
    found = {
        name: np.array([_machine(problem, e, algorithm).prediction for e in setting.epsilons])
        for name, algorithm in algorithms.items()
    }
    linear = np.array([_machine(problem, e, GradientFlow()).linear for e in setting.epsilons])
    return found | {"kernel alone": linear}


def _descent_measure(setting: Orders, key) -> dict[str, np.ndarray]:
    problem = _problem(setting)
    run = lambda edge: np.array(
        [quadratic.trained_outputs(problem, e, problem.descent(edge)) for e in setting.epsilons]
    )
    return {"outputs": run(setting.edge), "small": run(_SMALL_STEP)}


def _against(algorithm: SpectralAlgorithm):
    """Theory and measurement of an algorithm without a step size, beside the kernel alone."""

    def predict(setting: Orders) -> dict[str, np.ndarray]:
        machines = [_machine(_problem(setting), e, algorithm) for e in setting.epsilons]
        return {
            "nearly kernel": np.array([m.prediction for m in machines]),
            "kernel alone": np.array([m.linear for m in machines]),
        }

    def measure(setting: Orders, key) -> dict[str, np.ndarray]:
        problem = _problem(setting)
        ends = [quadratic.trained_outputs(problem, e, algorithm) for e in setting.epsilons]
        return {"outputs": np.array(ends)}

    return predict, measure


def _start_of(setting: Orders) -> np.ndarray:
    return 0.7 * np.random.default_rng(setting.seed + 2).normal(size=(1, setting.features))


def _start_theory(setting: Orders) -> dict[str, np.ndarray]:
    problem, start = _problem(setting), _start_of(setting)
    names = ("dressed features", "features of zero", "the start ignored")
    found = {name: [] for name in names}
    for epsilon in setting.epsilons:
        model = problem.model(epsilon)
        begin = np.asarray(model(jnp.asarray(start), problem.everywhere))
        dressed = nearly_kernel_machine(
            model, problem.train, problem.y, problem.everywhere, GradientFlow(), weights=jnp.asarray(start)
        )
        bare = nearly_kernel(
            *problem.parts(epsilon), problem.y, GradientFlow(), start=(begin[: len(problem.y)], begin)
        )
        machines = (dressed, bare, _machine(problem, epsilon, GradientFlow()))
        for name, machine in zip(names, machines, strict=True):
            found[name].append(np.asarray(machine.prediction))
    return {name: np.array(values) for name, values in found.items()}


def _start_measure(setting: Orders, key) -> dict[str, np.ndarray]:
    problem, start = _problem(setting), _start_of(setting)
    ends = [quadratic.trained_outputs(problem, e, GradientFlow(), start) for e in setting.epsilons]
    return {"outputs": np.array(ends)}


@dataclass(frozen=True)
class Sweep:
    """Problems of many sizes, each with its own fitted power."""

    problems: int
    epsilons: tuple[float, ...] = (0.004, 0.002, 0.001)

    def draw(self) -> list[Problem]:
        rng = np.random.default_rng(7)
        sizes = rng.integers(3, 13, size=self.problems)
        features = [int(rng.integers(2 * n, 5 * n + 1)) for n in sizes]
        pairs = zip(sizes, features, strict=True)
        return [quadratic.draw(100 + i, int(n), 5, F) for i, (n, F) in enumerate(pairs)]


_SWEPT = {
    "gradient descent": lambda problem: problem.descent(1.3),
    "gradient flow": lambda problem: GradientFlow(),
    "direct": lambda problem: DirectOptimization(),
    "minimum norm": lambda problem: DirectOptimization("minimum-norm"),
}


def _sweep_theory(setting: Sweep) -> Prediction:
    found: dict[str, np.ndarray] = {}
    for name, algorithm in _SWEPT.items():
        for i, problem in enumerate(setting.draw()):
            machines = [_machine(problem, e, algorithm(problem)).prediction for e in setting.epsilons]
            found[f"{name} {i}"] = np.array(machines)
    return found | {"order": np.array(2.0)}


def _sweep_measure(setting: Sweep, key) -> Measurement:
    found = {}
    for name, algorithm in _SWEPT.items():
        for i, problem in enumerate(setting.draw()):
            ends = [quadratic.trained_outputs(problem, e, algorithm(problem)) for e in setting.epsilons]
            found[f"{name} {i}"] = exact(np.array(ends))
    return found


def _sweep_powers(setting: Sweep, predicted: Prediction, measured: Measurement, name: str) -> np.ndarray:
    gaps = [
        np.abs(predicted[f"{name} {i}"] - measured[f"{name} {i}"].value).max(axis=(1, 2))
        for i in range(setting.problems)
    ]
    return np.array([fitted_power(np.array(setting.epsilons), gap) for gap in gaps])


def _sweep_compare(setting: Sweep, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        tuple(
            absolute_error(
                f"power of epsilon, {name}",
                predicted["order"],
                _sweep_powers(setting, predicted, measured, name),
                0.15,
            )
            for name in _SWEPT
        )
    )


def _sweep_figure(setting: Sweep, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The power of what is left out, problem by problem")
    which = np.arange(setting.problems)
    style.theory_line(axes, [0, setting.problems - 1], [2, 2], style.GREY, "second order")
    for name, color in zip(_SWEPT, style.PALETTE, strict=False):
        powers = _sweep_powers(setting, predicted, measured, name)
        style.measured_points(axes, which, powers, np.zeros(len(which)), color, name)
    axes.set(xlabel="problem", ylabel=r"fitted power of $\epsilon$", ylim=(1.8, 2.2))
    style.whole_ticks(axes.xaxis)
    axes.legend(ncols=2)
    return figure


@dataclass(frozen=True)
class DirectSolvers:
    """Gauss-Newton with ever smaller steps, and the shortest solution, at one small epsilon."""

    steps: tuple[float, ...]
    epsilon: float = 1e-4
    seed: int = 0

    @property
    def algorithms(self) -> list[DirectOptimization]:
        damped = [DirectOptimization("gauss-newton", step) for step in self.steps]
        return [DirectOptimization(), *damped, DirectOptimization("minimum-norm")]

    @property
    def names(self) -> list[str]:
        return ["row space", *(f"Gauss-Newton {step:g}" for step in self.steps), "minimum norm"]


def _direct_theory(setting: DirectSolvers) -> Prediction:
    return {"coefficient": np.array([direct_coefficient(a) for a in setting.algorithms])}


def _direct_measure(setting: DirectSolvers, key) -> Measurement:
    """Test outputs along the one direction in which solutions may differ at first order."""
    problem = quadratic.draw(setting.seed)
    n, k = len(problem.y), problem.k
    q = np.linalg.solve(k[:n, :n], problem.y)
    source = np.einsum("adc,ai,ci->d", problem.mu(setting.epsilon)[:n, :, :n], q, q)
    direction = source - k[:, :n] @ np.linalg.solve(k[:n, :n], source[:n])
    ends = [quadratic.trained_outputs(problem, setting.epsilon, a)[:, 0] for a in setting.algorithms]
    found = [direction @ (end - ends[0]) / (direction @ direction) for end in ends]
    return {"coefficient": exact(np.array(found))}


def _direct_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        (absolute_error("coefficient of Z_A", predicted["coefficient"], measured["coefficient"].value, 2e-3),)
    )


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
class Pairs:
    """Two modes that decay together, at a few learning rates."""

    modes: int
    edges: tuple[float, ...] = (0.05, 0.37, 1.3, 1.9)
    seed: int = 0

    @property
    def eigenvalues(self) -> np.ndarray:
        return np.geomspace(0.2, 3.0, self.modes)

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
class Tensors:
    """A training set small enough for tensors of four points."""

    train: int
    edges: tuple[float, ...] = (0.37, 1.3, 1.9)
    epsilon: float = 0.1
    seed: int = 3


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


def _tensor_problem(setting: Tensors) -> Problem:
    return quadratic.draw(setting.seed, setting.train, 5, 3 * setting.train)


def _basis_theory(setting: Tensors) -> Prediction:
    problem = _tensor_problem(setting)
    algorithms = [GradientFlow(), *(problem.descent(edge) for edge in setting.edges)]
    return {"outputs": np.array([_machine(problem, setting.epsilon, a).prediction[:, 0] for a in algorithms])}


def _basis_measure(setting: Tensors, key) -> Measurement:
    problem = _tensor_problem(setting)
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


def _basis_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict((absolute_error("outputs", predicted["outputs"], measured["outputs"].value, 1e-12),))


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
    problem = _tensor_problem(setting)
    n = len(problem.y)
    l, V = np.linalg.eigh(problem.k[:n, :n])
    pairs = [np.asarray(inverting(l[:, None], l, problem.step(edge))) for edge in setting.edges]
    return {"X": np.array([np.einsum("ai,bj,ij,ci,dj->abcd", V, V, X, V, V, optimize=True) for X in pairs])}


def _inverting_measure(setting: Tensors, key) -> Measurement:
    problem = _tensor_problem(setting)
    return {"X": exact(np.array([_naive(problem, problem.step(edge))[2] for edge in setting.edges]))}


def _inverting_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    scale = float(np.abs(measured["X"].value).max())
    return Verdict((absolute_error("X", predicted["X"] / scale, measured["X"].value / scale, 1e-12),))


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


_QUICK, _FULL = Orders(0.008, 3), Orders(0.032, 6, train=12, test=10, features=40)
_FLOW, _DIRECT = _against(GradientFlow()), _against(DirectOptimization())

CLAIMS = (
    Claim(
        "nk-eigenbasis",
        "algorithm projectors are diagonal in the eigenbasis of the training kernel",
        _CHAPTER,
        "Predictions with Z_A and Z_B as functions of two eigenvalues equal those with the literal tensors of "
        "four training points, so that none of these is ever needed.",
        _SOURCE,
        Tensors(6),
        Tensors(16),
        _basis_theory,
        _basis_measure,
        _basis_compare,
        _basis_figure,
    ),
    order_claim(
        _descent_theory,
        _descent_measure,
        (
            Curve("nearly kernel", 2),
            Curve("small steps", 2, "small"),
            Curve("flow formula", 1),
            Curve("kernel alone", 1),
        ),
        id="nk-gd-finite-eta",
        title="gradient descent at any stable step is predicted up to epsilon^2, and the step matters",
        chapter=_CHAPTER,
        statement=(
            "From zero weights and with eta below 2/lambda_max, the nearly-kernel formula misses the end of gradient "
            "descent by second order in epsilon, at large and at small steps; the formula of gradient flow misses "
            "descent at a large step by first order, as the kernel alone does."
        ),
        source=f"{_SOURCE} (from zero weights, for stable steps)",
        heading="Gradient descent at 1.3 and at 0.05 over the largest eigenvalue",
        quick=_QUICK,
        full=_FULL,
    ),
    order_claim(
        *_FLOW,
        (Curve("nearly kernel", 2), Curve("kernel alone", 1)),
        id="nk-ode",
        title="gradient flow is predicted up to epsilon^2",
        chapter=_CHAPTER,
        statement="With Z_A = Z_B = 1/(l1 (l1 + l2)) the formula misses the end of gradient flow by second order.",
        source=f"{_SOURCE}, the limit of small steps",
        heading="Gradient flow, integrated to the end",
        quick=_QUICK,
        full=_FULL,
    ),
    order_claim(
        *_DIRECT,
        (Curve("nearly kernel", 2), Curve("kernel alone", 1)),
        id="nk-direct",
        title="direct optimisation in the span of the features is predicted up to epsilon^2",
        chapter=_CHAPTER,
        statement=(
            "With Z_A = 0 and Z_B = 1/(2 l1 l2) the formula misses by second order the weights in the span of the "
            "training features that reach the labels."
        ),
        source=f"{_SOURCE} (direct optimisation means weights in the span of the training features)",
        heading="Newton's method in the span of the features",
        quick=_QUICK,
        full=_FULL,
    ),
    Claim(
        "nk-sweep",
        "second order on problems of many sizes",
        _CHAPTER,
        "What the formula leaves out is of second order in epsilon on every one of a set of random problems with 3 "
        "to 12 training points, for four algorithms.",
        _SOURCE,
        Sweep(3),
        Sweep(10),
        _sweep_theory,
        _sweep_measure,
        _sweep_compare,
        _sweep_figure,
    ),
    Claim(
        "nk-direct-not-unique",
        "natural meanings of direct optimisation differ at first order",
        _CHAPTER,
        "Z_A in units of 1/(l1 l2) is 0 in the row space and for full Gauss-Newton steps, (1-g)/(2-g) for steps of "
        "size g, 1/2 for Gauss-Newton flow and 1 for the shortest weights.",
        f"{_SOURCE} (which gives the first)",
        DirectSolvers((1.0, 0.5, 0.1)),
        DirectSolvers((1.0, 0.8, 0.5, 0.2, 0.1, 0.05, 0.0)),
        _direct_theory,
        _direct_measure,
        _direct_compare,
        _direct_figure,
    ),
    Claim(
        "nk-ZB-universal",
        "all dependence on the algorithm sits in Z_A",
        _CHAPTER,
        "The part of Z_B that a meta kernel sees, its symmetric part, is 1/(2 l1 l2) at every learning rate: residual "
        "times accumulated residual plus half a squared step telescopes.",
        f"{_SOURCE} (whose Z_B differ between algorithms by an antisymmetric part only)",
        Pairs(5),
        Pairs(25, edges=(0.02, 0.05, 0.37, 1.3, 1.9)),
        _pairs_theory,
        _pairs_measure,
        _pairs_compare,
        _pairs_figure,
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
    ),
    order_claim(
        _start_theory,
        _start_measure,
        (Curve("dressed features", 2), Curve("features of zero", 1), Curve("the start ignored", 0)),
        id="nk-nonzero-init",
        title="a start away from zero needs the features of the start",
        chapter=_CHAPTER,
        statement=(
            "From weights W(0) the formula holds up to second order with phi^E(W(0)), its kernel and meta kernel, and "
            "labels y - z(0); with the features of zero it is off by first order, ignoring the start by order one."
        ),
        source=f"{_SOURCE} (which treats zero weights only)",
        heading="Gradient flow from weights of order one",
        quick=_QUICK,
        full=_FULL,
        tolerance=0.2,
    ),
)
