"""Nearly-kernel methods: the trained quadratic model from a kernel and a meta kernel."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.orders import AtEpsilon, Curve, Orders, leading_power, off_by, order_claim
from finitewidth.course._lab.sources import ROBERTS
from finitewidth.course._lab.wrong import scaled
from finitewidth.nearly_kernel_methods.model_prediction import nearly_kernel_machine
from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, nearly_kernel

_SOURCE = f"{ROBERTS}, nearly-kernel methods"
_SMALL_STEP = 0.05


def _machine(problem: Problem, epsilon: float, algorithm: SpectralAlgorithm) -> NearlyKernel:
    return nearly_kernel(*problem.parts(epsilon), problem.y, algorithm)


def _descent_theory(setting: Orders, epsilon: float) -> dict[str, Array]:
    problem = setting.problem
    machine = lambda algorithm: _machine(problem, epsilon, algorithm)
    flow = machine(GradientFlow())
    return {
        "nearly kernel": machine(problem.descent(setting.edge)).prediction,
        "small steps": machine(problem.descent(_SMALL_STEP)).prediction,
        "flow formula": flow.prediction,
        "kernel alone": flow.linear,
    }


def _descent_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem = setting.problem
    run = lambda edge: quadratic.trained_outputs(problem, epsilon, problem.descent(edge))
    return {"outputs": run(setting.edge), "small": run(_SMALL_STEP)}


def _against(algorithm: SpectralAlgorithm) -> tuple[AtEpsilon, AtEpsilon]:
    """Theory and measurement of an algorithm without a step size, beside the kernel alone."""

    def predict(setting: Orders, epsilon: float) -> dict[str, Array]:
        machine = _machine(setting.problem, epsilon, algorithm)
        return {"nearly kernel": machine.prediction, "kernel alone": machine.linear}

    def measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
        return {"outputs": quadratic.trained_outputs(setting.problem, epsilon, algorithm)}

    return predict, measure


def _start_of(setting: Orders) -> np.ndarray:
    return quadratic.random_weights(setting.problem, setting.rng(1), 1)[0]


def _start_theory(setting: Orders, epsilon: float) -> dict[str, Array]:
    problem, start, flow = setting.problem, jnp.asarray(_start_of(setting)), GradientFlow()
    model, y, everywhere = problem.model(epsilon), problem.y, problem.everywhere
    begin = np.asarray(model(start, everywhere))
    dressed = nearly_kernel_machine(model, problem.train, y, everywhere, flow, weights=start)
    bare = nearly_kernel(*problem.parts(epsilon), y, flow, start=(begin[: len(y)], begin))
    return {
        "dressed features": dressed.prediction,
        "features of zero": bare.prediction,
    }


def _start_ignored(setting: Orders, value: np.ndarray) -> np.ndarray:
    """The end of training from zero weights."""
    flow = GradientFlow()
    machines = [_machine(setting.problem, float(epsilon), flow) for epsilon in setting.epsilons]
    return np.array([np.asarray(machine.prediction) for machine in machines])


def _start_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    return {
        "outputs": quadratic.trained_outputs(setting.problem, epsilon, GradientFlow(), _start_of(setting))
    }


@dataclass(frozen=True)
class Sweep(RandomProblem):
    """Problems with 3 to 12 training points and two to five times as many features."""

    problems: int
    epsilons: tuple[float, ...] = (0.01, 0.005, 0.0025)

    def draw(self) -> list[Problem]:
        """The problems; their sizes are the same for every seed."""
        sizes = np.linspace(3, 12, self.problems).astype(int)
        return [quadratic.draw(self.rng(i), n, 5, (2 + i % 4) * n) for i, n in enumerate(sizes.tolist())]

    def theory(self) -> Prediction:
        found: dict[str, np.ndarray] = {}
        for name, algorithm in _SWEPT.items():
            for i, problem in enumerate(self.draw()):
                machines = [_machine(problem, e, algorithm(problem)).prediction for e in self.epsilons]
                found[f"{name} {i}"] = np.array(machines)
        return found | {"order": np.array(2.0)}

    def measure(self, key) -> Measurement:
        found = {}
        for name, algorithm in _SWEPT.items():
            for i, problem in enumerate(self.draw()):
                ends = [quadratic.trained_outputs(problem, e, algorithm(problem)) for e in self.epsilons]
                found[f"{name} {i}"] = exact(np.array(ends))
        return found

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name in _SWEPT:
            powers = _sweep_powers(self, predicted, measured, name)
            yield absolute_error(f"power of epsilon, {name}", predicted["order"], powers, 0.02)


_ROW_SPACE, _SHORTEST = DirectOptimization(), DirectOptimization("minimum-norm")
_SWEPT = {
    "gradient descent": lambda problem: problem.descent(1.3),
    "gradient flow": lambda problem: GradientFlow(),
    "direct": lambda problem: _ROW_SPACE,
    "minimum norm": lambda problem: _SHORTEST,
}


def _sweep_powers(setting: Sweep, predicted: Prediction, measured: Measurement, name: str) -> np.ndarray:
    gaps = [
        np.linalg.norm(predicted[f"{name} {i}"] - measured[f"{name} {i}"].value, axis=(1, 2))
        for i in range(setting.problems)
    ]
    return np.array([leading_power(np.array(setting.epsilons), gap) for gap in gaps])


_FLOW, _DIRECT = _against(GradientFlow()), _against(DirectOptimization())


def _flow_at_any_step(setting: Orders, value: np.ndarray) -> np.ndarray:
    """The projectors of gradient flow for gradient descent at a finite step."""
    return np.array([_descent_theory(setting, float(e))["flow formula"] for e in setting.epsilons])


CLAIMS = (
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
        statement="""From zero weights and with eta below 2/lambda_max, the nearly-kernel formula misses the
        end of gradient descent by second order in epsilon, at large and at small steps; the formula of
        gradient flow misses descent at a large step by first order, as the kernel alone does.""",
        source=f"{_SOURCE} (from zero weights, for stable steps)",
        full=Orders(0.01, 5, train=12, test=10, features=40, edge=1.8),
        wrong={"nearly kernel": _flow_at_any_step, "small steps": off_by(1)},
    ),
    order_claim(
        *_FLOW,
        (Curve("nearly kernel", 2), Curve("kernel alone", 1)),
        id="nk-ode",
        title="gradient flow is predicted up to epsilon^2",
        statement="With Z_A = Z_B = 1/(l1 (l1 + l2)) the formula misses gradient flow by second order.",
        source=f"{_SOURCE}, the limit of small steps",
        wrong={"nearly kernel": off_by(1)},
    ),
    order_claim(
        *_DIRECT,
        (Curve("nearly kernel", 2), Curve("kernel alone", 1)),
        id="nk-direct",
        title="direct optimisation in the span of the features is predicted up to epsilon^2",
        statement="""With Z_A = 0 and Z_B = 1/(2 l1 l2) the formula misses by second order the weights in the
        span of the training features that reach the labels.""",
        source=f"{_SOURCE} (direct optimisation means weights in the span of the training features)",
        wrong={"nearly kernel": off_by(1)},
    ),
    Claim(
        id="nk-sweep",
        title="second order on problems of many sizes",
        statement="""What the formula leaves out is of second order in epsilon on every one of a set of random
        problems with 3 to 12 training points, for four algorithms.""",
        source=_SOURCE,
        quick=Sweep(3),
        full=Sweep(10),
        figure=Curves("problems", "problem"),
        wrong={"order": scaled(0.5)},
    ),
    order_claim(
        _start_theory,
        _start_measure,
        (Curve("dressed features", 2), Curve("features of zero", 1)),
        id="nk-nonzero-init",
        title="a start away from zero needs the features of the start",
        statement="""From weights W(0) the formula holds up to second order with phi^E(W(0)), its kernel and
        meta kernel, and labels y - z(0); with the features of zero it is off by first order. It cannot
        ignore the start.""",
        source=f"{_SOURCE} (which treats zero weights only)",
        wrong={"dressed features": (off_by(1), _start_ignored), "features of zero": _start_ignored},
    ),
)
