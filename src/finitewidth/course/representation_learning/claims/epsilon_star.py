"""Does feature learning help, and how much of it is best?"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.architecture.models.point_model import jacobian_at, outputs_at
from finitewidth.architecture.models.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.architecture.models.tangent_model import TangentModel
from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each, relative_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import ROBERTS
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.representation_learning.networks.teachers import Teacher, taught, test_loss
from finitewidth.nearly_kernel_methods.representation import Deformation, best_epsilon, deformation
from finitewidth.networks.training.weight_space import train_weights
from finitewidth.report import style
from finitewidth.report.style import Figure

_SOURCE = f"{ROBERTS}, representation learning"
_ROW_SPACE = DirectOptimization()


@dataclass(frozen=True)
class TestLosses(RandomProblem):
    """Random problems whose test labels lie near the linear prediction, and small differences in epsilon."""

    problems: int
    step: float = 1e-3
    near: float = 0.05

    def problem(self, i: int) -> Problem:
        """Test labels beside what fitted weights of the linear model say."""
        problem = quadratic.draw(self.rng(i))
        linear = problem.phi[problem.test] @ quadratic.fitted_weights(problem.phi, problem.y)
        return problem._replace(y_test=linear[:, None] + self.near * problem.y_test)

    def theory(self) -> Prediction:
        problems = [self.problem(i) for i in range(self.problems)]
        best = [best_epsilon(_test_series(p), p.y_test) for p in problems]
        return {
            "slope": np.array([b.slope for b in best]),
            "curvature": np.array([b.curvature for b in best]),
        }

    def measure(self, key) -> Measurement:
        problems = [self.problem(i) for i in range(self.problems)]
        found = [_derivatives(functools.partial(test_loss, problem), self.step) for problem in problems]
        slopes, bends = zip(*found, strict=True)
        return {"slope": exact(np.array(slopes)), "curvature": exact(np.array(bends))}


def _test_series(problem: Problem) -> Deformation:
    n = len(problem.y)
    series = deformation(*problem.parts(), problem.y)
    return Deformation(*(z[n:] for z in series))


def _derivatives(loss: Callable[[float], float], h: float) -> tuple[float, float]:
    """First and second derivative at zero, by differences that are exact to the fourth power of h."""
    L = {s: loss(s * h) for s in (-2, -1, 0, 1, 2)}
    slope = (8 * (L[1] - L[-1]) - (L[2] - L[-2])) / (12 * h)
    return slope, (16 * (L[1] + L[-1]) - (L[2] + L[-2]) - 30 * L[0]) / (12 * h**2)


@dataclass(frozen=True)
class Scan(Teacher):
    """A student with the teacher's meta features, and a test loss to be minimised over epsilon."""

    problems: int
    points: int = 9

    def problem(self, i: int) -> Problem:
        """A random problem with labels of a teacher."""
        return taught(self, i)

    def theory(self) -> Prediction:
        best = [best_epsilon(_test_series(p), p.y_test) for p in map(self.problem, range(self.problems))]
        return {
            "epsilon": np.array([b.epsilon for b in best]),
            "refined": np.array([b.refined for b in best]),
        }

    def measure(self, key) -> Measurement:
        losses = [functools.partial(test_loss, self.problem(i)) for i in range(self.problems)]
        minima: list[Any] = [minimize_scalar(loss, bracket=(0.0, 0.01), tol=1e-8) for loss in losses]
        return _scanned(losses, [minimum.x for minimum in minima], np.linspace(-0.5, 2.5, self.points))

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # In units of the series, epsilon* drops its first power of epsilon, and one more term the second.
        found, small = measured["epsilon"].value, self.teacher
        return [
            relative_error("epsilon* against the scan", predicted["epsilon"], found, small),
            relative_error("one more term", predicted["refined"], found, small**2),
        ]


def _scanned(
    losses: Sequence[Callable[[float], float]], best: Sequence[float], around: np.ndarray
) -> Measurement:
    """The best epsilon of every loss, and the loss at multiples of it."""
    grids = np.outer(best, around)
    curves = [[loss(epsilon) for epsilon in grid] for loss, grid in zip(losses, grids, strict=True)]
    return {"epsilon": exact(np.array(best)), "grid": exact(grids), "losses": exact(np.array(curves))}


def _scan_figure(setting, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The best amount of feature learning")
    for i, color in zip(range(len(predicted["epsilon"])), style.PALETTE, strict=False):
        grid, losses = measured["grid"].value[i], measured["losses"].value[i]
        start = np.interp(0.0, np.sort(grid), losses[np.argsort(grid)])
        axes.axvline(predicted["epsilon"][i], color=color, lw=1.6, label=r"$\epsilon^*$" if i == 0 else None)
        if "refined" in predicted:
            dotted = "one more term" if i == 0 else None
            axes.axvline(predicted["refined"][i], color=color, lw=1.2, ls=":", label=dotted)
        axes.plot(grid, losses / start, color=color, lw=0.8, alpha=0.6)
        style.measured_points(axes, grid, losses / start, np.zeros(len(grid)), color)
    axes.set(xlabel=r"$\epsilon$", ylabel="test loss, 1 at zero")
    color = style.PALETTE[0] if len(predicted["epsilon"]) == 1 else style.GREY
    style.legend(
        axes, "trained models", "formula", loc="best", error_bars=False, color=color, point_color=color
    )
    return figure


@dataclass(frozen=True)
class Diabetes(RandomProblem):
    """Hidden layers of random neurons on parts of the diabetes data, their weights held by a penalty."""

    networks: int
    train: int = 100
    neurons: int = 64
    gain: float = 0.5
    ridge: float = 0.3
    points: int = 7
    step: float = 0.05

    def data(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Inputs and labels for training and for the test of network i."""
        from finitewidth.tables.sets import built_in

        data = built_in("diabetes")
        order = self.rng(i).permutation(len(data.x))
        x, y = data.x[order], data.y[order]
        return x[: self.train], y[: self.train], x[self.train :], y[self.train :]

    def layer(self, i: int) -> RandomNeurons:
        """The neurons of network i."""
        return RandomNeurons.draw(
            jax.random.fold_in(jax.random.key(self.seed), i), 10, self.neurons, "tanh", self.gain
        )

    def theory(self) -> Prediction:
        best = []
        for i in range(self.networks):
            (x, y, x_test, y_test), layer = self.data(i), self.layer(i)
            A, B = layer.at(x), layer.at(x_test)
            k = layer.kernel(A, A)
            mu, mu_test = NeuronMetaKernel(layer, (A, A, A)), NeuronMetaKernel(layer, (B, A, A))
            ridge = self.ridge * float(np.mean(np.diag(k)))
            series = deformation(k, layer.kernel(B, A), mu, mu_test, None, y, ridge=ridge)
            best.append(best_epsilon(series, y_test).epsilon)
        return {"epsilon": np.array(best)}

    def measure(self, key) -> Measurement:
        """Newton's step from zero to the minimum of the test loss, and the loss on the way and beyond."""
        losses = [_diabetes_loss(self, i) for i in range(self.networks)]
        derivatives = [_derivatives(loss, self.step) for loss in losses]
        newton = [-slope / curvature for slope, curvature in derivatives]
        return _scanned(losses, newton, np.linspace(-0.5, 2.0, self.points))


def _hidden_layer(params, x):
    """The layer written out; a penalty on the weights is a private input of every training point."""
    a, w, private = params
    inputs, own = x[:, : -len(private)], x[:, -len(private) :]
    inputs = jnp.column_stack([inputs, jnp.ones(len(inputs))]) / jnp.sqrt(inputs.shape[1] + 1)
    return (jnp.tanh(inputs @ w.T) @ a / jnp.sqrt(len(a)) + own @ private)[:, None]


def _diabetes_loss(setting: Diabetes, i: int) -> Callable[[float], float]:
    """Test loss of network i by its nonlinearity; all networks share their compiled programs."""
    (x, y, x_test, y_test), layer = setting.data(i), setting.layer(i)
    params = (jnp.asarray(layer.a), jnp.asarray(layer.w), jnp.zeros(len(x)))
    private = np.zeros((len(x) + len(x_test), len(x)))
    train, test = np.split(np.column_stack([np.concatenate([x, x_test]), private]), [len(x)])
    at_zero = TangentModel(_hidden_layer, params, order=2, epsilon=0.0)
    squares = np.sum(jacobian_at(at_zero.at(train), at_zero.zeros()) ** 2, axis=1)
    train[:, x.shape[1] :] = np.sqrt(setting.ridge * squares.mean()) * np.eye(len(x))
    start, start_test = (np.asarray(outputs_at(at_zero.at(p), at_zero.zeros())) for p in (train, test))

    def loss(epsilon: float) -> float:
        model = TangentModel(_hidden_layer, params, order=2, epsilon=float(epsilon))
        end = train_weights(model.at(train), y + start, _ROW_SPACE, model.zeros())
        z = np.asarray(outputs_at(model.at(test), end.weights)) - start_test
        return 0.5 * float(np.sum((z - y_test) ** 2))

    return loss


def _without_the_factor_two(setting: TestLosses, value: np.ndarray) -> np.ndarray:
    """The denominator of epsilon* as it is printed."""
    problems = [setting.problem(i) for i in range(setting.problems)]
    series = [(p, _test_series(p)) for p in problems]
    return np.array([float(np.sum(s.z_I**2 + (s.z_F - p.y_test) * s.z_II)) for p, s in series])


# Differences are good to six digits; a curvature that nearly cancels may cost three of them.
_DIFFERENCES = 1e-3


CLAIMS = (
    Claim(
        id="gen-derivative",
        title="learned features help to first order if they point along the test residual",
        statement="""The derivative of the test loss in epsilon at zero is the sum of (z^F - y) z^I over the
        test set.""",
        source=f"{_SOURCE}, generalisation (without the extra epsilon; the residual is that of the test set)",
        quick=TestLosses(4),
        full=TestLosses(12),
        compare=compare_each({"slope": "dL/d epsilon"}, relative_error, 1e-5),
        context=("curvature",),
        wrong={"slope": scaled(1.01)},
    ),
    Claim(
        id="eps-star-curvature",
        title="the second derivative of the test loss decides how much helps",
        statement="""The second derivative of the test loss at zero is the sum of (z^I)^2 + 2 (z^F - y) z^II,
        the denominator of epsilon*; without the factor 2 it is not.""",
        source=f"{_SOURCE}, how much (with the factor 2)",
        quick=TestLosses(4),
        full=TestLosses(12),
        compare=compare_each({"curvature": "d^2L/d epsilon^2"}, relative_error, 1e-3),
        context=("slope",),
        wrong={"curvature": _without_the_factor_two},
    ),
    Claim(
        id="eps-star",
        title="epsilon* is the minimum of the test loss over epsilon",
        statement="""On the data of a teacher with meta features of size tau, whose weights lie in the span of
        the training features, epsilon* is the minimum of the scanned test loss up to a relative error of
        order tau, and the root with one more term, 3 eps^2 z^I z^II, up to tau^2.""",
        source=f"{_SOURCE}, how much",
        quick=Scan(1, teacher=0.2, noise=0.3),
        full=Scan(5, teacher=0.2, noise=0.3),
        figure=_scan_figure,
        wrong={"epsilon": scaled(1.5), "refined": scaled(1.3)},
    ),
    Claim(
        id="eps-star-diabetes",
        title="epsilon* on the diabetes data",
        statement="""For a hidden layer of random neurons on the diabetes data, its weights held by a penalty,
        epsilon* is Newton's step from zero to the minimum of the test loss over epsilon of trained models.
        The minimum itself may be far away, because labels that no model explains leave a residual.""",
        source=f"{_SOURCE}, how much",
        quick=Diabetes(1),
        full=Diabetes(3),
        compare=compare_each({"epsilon": "epsilon* against Newton's step"}, relative_error, _DIFFERENCES),
        figure=_scan_figure,
        wrong={"epsilon": (scaled(-1.0), scaled(1.01))},
    ),
)
