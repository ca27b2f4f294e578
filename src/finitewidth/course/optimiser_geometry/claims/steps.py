"""Steps of steepest descent under norms, Adam without memory, and orthogonalisation by products."""

from dataclasses import dataclass

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import optax

from finitewidth._base.linalg.dual_norms import NORMS
from finitewidth._base.linalg.polar import CUBIC, newton_schulz
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.optimiser_geometry.theory.steepest_descent import (
    newton_schulz_steps,
    newton_schulz_values,
    steepest_step,
)

# What a convex solver leaves of its optimality conditions.
_SOLVED = 1e-6
# Singular values stand still when they are this close to one.
_STILL, _MOST_STEPS = 1e-13, 200


@dataclass(frozen=True)
class Norms(RandomProblem):
    """A random gradient matrix, and the linear model with the square of a norm as its penalty."""

    shape: tuple[int, int]
    a: float = 0.7
    trials: int = 2000

    norms = NORMS

    @property
    def gradient(self) -> np.ndarray:
        return self.rng(0).normal(size=self.shape)

    def theory(self) -> Prediction:
        found = [steepest_step(self.gradient, norm, self.a) for norm in self.norms]
        return {
            "steps": np.stack([np.asarray(step.step) for step in found]),
            "values": np.array([float(step.value) for step in found]),
        }

    def measure(self, key) -> Measurement:
        solved = [_minimum(self.gradient, norm, self.a) for norm in self.norms]
        return {
            "steps": exact(np.stack([step for step, _ in solved])),
            "values": exact(np.array([value for _, value in solved])),
        }

    def objective(self, steps: np.ndarray, norm: str) -> np.ndarray:
        """<g, d> + |d|^2 / (2a) for arrays d along the first axis, by NumPy."""
        orders = {"l2": "fro", "spectral": 2}
        if norm in orders:
            sizes = np.linalg.norm(steps, orders[norm], axis=(1, 2))
        else:
            sizes = np.linalg.norm(steps.reshape(len(steps), -1), {"linf": np.inf, "l1": 1}[norm], axis=1)
        return np.tensordot(steps, self.gradient, 2) + sizes**2 / (2 * self.a)

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        steps, values = predicted["steps"], predicted["values"]
        found = np.array([self.objective(d[None], n)[0] for d, n in zip(steps, self.norms, strict=True)])
        rng = self.rng(1)
        lowest = []
        for step, norm in zip(steps, self.norms, strict=True):
            size = 10.0 ** rng.uniform(-6, 1, size=(self.trials, 1, 1))
            near = step + size * rng.normal(size=(self.trials, *self.shape))
            lowest.append(self.objective(near, norm).min())
        size = np.abs(measured["steps"].value).max()
        return [
            absolute_error("step against a convex solver", steps, measured["steps"], 1e3 * _SOLVED * size),
            relative_error("minimum against a convex solver", values, measured["values"], _SOLVED),
            relative_error("value at the step", values, found, 1e-12),
            upper_bound("no perturbation is lower", -values, -np.array(lowest)),
        ]


def _minimum(gradient: np.ndarray, norm: str, a: float) -> tuple[np.ndarray, float]:
    """The step and the minimum, by Clarabel."""
    d = cp.Variable(gradient.shape)
    flat = cp.vec(d, order="C")
    size = {
        "l2": lambda: cp.norm(flat, 2),
        "linf": lambda: cp.norm(flat, "inf"),
        "l1": lambda: cp.norm(flat, 1),
        "spectral": lambda: cp.sigma_max(d),
    }[norm]()
    model = cp.sum(cp.multiply(gradient, d)) + cp.square(size) / (2 * a)
    problem = cp.Problem(cp.Minimize(model))
    problem.solve(solver=cp.CLARABEL)
    return np.asarray(d.value), float(np.asarray(problem.value))


def _without_the_dual_norm(setting: Norms, value: np.ndarray) -> np.ndarray:
    """-a s, as sign descent and Muon step."""
    duals = np.array([float(steepest_step(setting.gradient, n, setting.a).dual_norm) for n in setting.norms])
    return value / duals[:, None, None]


@dataclass(frozen=True)
class AdamSteps(RandomProblem):
    """A few gradients in a row, given to Adam with and without memory."""

    entries: int
    rate: float = 0.01

    @property
    def gradients(self) -> np.ndarray:
        """Two gradients without zeros."""
        return self.rng(0).normal(size=(2, self.entries))

    def theory(self) -> Prediction:
        first, second = self.gradients
        b1, b2 = 0.9, 0.999
        # Averages of two gradients, divided by the sum of their factors.
        mean = (b1 * first + second) / (1 + b1)
        square = (b2 * first**2 + second**2) / (1 + b2)
        return {
            "no memory": -self.rate * np.sign([first, second]),
            "first step": -self.rate * np.sign(first),
            "constant gradient": -self.rate * np.sign([first, first]),
            "second step": -self.rate * mean / np.sqrt(square),
        }

    def measure(self, key) -> Measurement:
        first, second = self.gradients
        without = optax.adam(self.rate, b1=0.0, b2=0.0, eps=0.0)
        usual = optax.adam(self.rate, eps=0.0)
        steps = _steps(usual, (first, second))
        return {
            "no memory": exact(_steps(without, (first, second))),
            "first step": exact(steps[0]),
            "constant gradient": exact(_steps(usual, (first, first))),
            "second step": exact(steps[1]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "no memory": "betas 0: every step is the sign",
            "first step": "usual betas: the first step is the sign",
            "constant gradient": "usual betas: steps along a constant gradient",
            "second step": "usual betas: the second step along two gradients",
        }
        # A few roundings of averages and their corrections.
        return [relative_error(text, predicted[name], measured[name], 1e-12) for name, text in texts.items()]


def _steps(optimiser: optax.GradientTransformation, gradients: tuple[np.ndarray, ...]) -> np.ndarray:
    memory, found = optimiser.init(jnp.zeros(len(gradients[0]))), []
    for gradient in gradients:
        step, memory = optimiser.update(jnp.asarray(gradient), memory)
        found.append(np.asarray(step))
    return np.array(found)


def _sign_at_step_two(setting: AdamSteps, value: np.ndarray) -> np.ndarray:
    """As if Adam with its usual memory were sign descent."""
    return -setting.rate * np.sign(setting.gradients[1])


@dataclass(frozen=True)
class Orthogonalised(RandomProblem):
    """A matrix of Frobenius norm one with random singular vectors, and `smallest` among its values."""

    shape: tuple[int, int]
    smallest: float = 0.01
    steps: int = 5

    @property
    def factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """U, singular values of Frobenius norm one, and V^T."""
        rng, k = self.rng(0), min(self.shape)
        u, v = (np.linalg.qr(rng.normal(size=(n, k)))[0] for n in self.shape)
        rest = rng.uniform(0.1, 1, size=k - 1)
        s = np.append(rest * np.sqrt((1 - self.smallest**2) / np.sum(rest**2)), self.smallest)
        return u, s, v.T

    def theory(self) -> Prediction:
        u, s, v = self.factors
        return {
            "polar": u @ v,
            "muon": np.sort(newton_schulz_values(s, self.steps)),
            "lowest": np.array(0.68),
            "highest": np.array(1.14),
            "steps": np.array(self.cubic_steps(s)),
            "most steps": np.array(newton_schulz_steps(self.smallest)),
        }

    def cubic_steps(self, values: np.ndarray) -> int:
        """Steps until all singular values are one, each followed for itself."""
        steps = 0
        while np.abs(values - 1).max() >= _STILL and steps < _MOST_STEPS:
            values, steps = newton_schulz_values(values, 1, CUBIC), steps + 1
        return steps

    def measure(self, key) -> Measurement:
        u, s, v = self.factors
        matrix = (u * s) @ v
        # The number of steps is the measurement's own: until the singular values stand still.
        cubic, steps = matrix, 0
        while np.abs(np.linalg.svd(cubic, compute_uv=False) - 1).max() >= _STILL and steps < _MOST_STEPS:
            steps += 1
            cubic = np.asarray(newton_schulz(matrix, steps, CUBIC))
        muon = np.linalg.svd(np.asarray(newton_schulz(matrix, self.steps)), compute_uv=False)
        return {
            "polar": exact(cubic),
            "muon": exact(np.sort(muon)),
            "steps": exact(float(steps)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        muon, steps = measured["muon"], measured["steps"]
        return [
            absolute_error("cubic iteration against U V^T", predicted["polar"], measured["polar"], 1e-12),
            # A step more or less where rounding decides.
            absolute_error("steps of the cubic until nothing changes", predicted["steps"], steps, 1.0),
            upper_bound("the same against the bound", predicted["most steps"], steps),
            absolute_error("singular values after Muon's quintic", predicted["muon"], muon, 1e-10),
            upper_bound("the largest of them", predicted["highest"], muon.value.max()),
            upper_bound("one over the smallest", 1 / predicted["lowest"], 1 / muon.value.min()),
        ]


def _all_one(setting: Orthogonalised, value: np.ndarray) -> np.ndarray:
    """As if the quintic converged to U V^T."""
    return np.ones_like(value)


_SOURCE = f"{IEMS_402}, optimisers"

CLAIMS = (
    Claim(
        id="steepest-descent-norms",
        title="a norm decides the step: gradient, sign, one entry, or orthogonal factor",
        statement="""The minimum of <g, d> + |d|^2/(2a) is -(a/2)|g|_*^2, reached at d = -a |g|_* s with the
        dual norm |g|_* and s where <g, s> is largest among arrays of norm one: g/|g| for l2, sign(g) for
        l-infinity, the largest entry alone for l1, U V^T for the spectral norm. Generic gradients have one
        minimiser.""",
        source=f"{_SOURCE} (norms squared, with 1/(2a); the factor |g|_* is what sign descent and Muon drop)",
        quick=Norms((4, 3)),
        full=Norms((12, 8), trials=20_000),
        wrong={"steps": _without_the_dual_norm, "values": scaled(2.0)},
    ),
    Claim(
        id="adam-is-sign-descent",
        title="Adam without memory is sign descent",
        statement="""With both betas and epsilon zero, and no gradient entry zero, every step of Adam is
        minus the rate times the sign of the gradient. With its usual betas and epsilon zero so are the
        first step and every step along a constant gradient, but not the second step along two different
        gradients.""",
        source=f"{_SOURCE} (the l-infinity norm gives Adam only without its memory)",
        quick=AdamSteps(200),
        full=AdamSteps(100_000),
        wrong={"second step": _sign_at_step_two, "no memory": scaled(0.5)},
    ),
    Claim(
        id="newton-schulz",
        title="the cubic iteration converges to the polar factor, Muon's quintic stays in a band",
        statement="""X <- 1.5 X - 0.5 X X^T X, from G/|G|_F, converges to U V^T within log(1/s)/log(1.5) + 8
        steps, with the smallest singular value s of the start. Five steps of the quintic (3.4445, -4.7750,
        2.0315) apply its polynomial to every singular value, and take those from 0.01 to 1 into the band
        from 0.68 to 1.14.""",
        source=f"{_SOURCE} (Muon)",
        quick=Orthogonalised((16, 24)),
        full=Orthogonalised((64, 128)),
        figure=Curves(lambda setting: min(setting.shape), "singular value, in order"),
        bounds={"lowest": "below", "highest": "above", "most steps": "above"},
        wrong={"muon": _all_one, "steps": scaled(0.5), "most steps": scaled(0.5), "highest": scaled(0.8)},
    ),
)
