"""Does feature learning help, and how much of it is best?"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar

from finitewidth.dynamics.algorithms import DirectOptimization
from finitewidth.dynamics.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.dynamics.representation import Deformation, best_epsilon, deformation
from finitewidth.dynamics.tangent_model import TangentModel
from finitewidth.dynamics.weight_space import train_weights
from finitewidth.lab import quadratic
from finitewidth.lab.claim import Check, Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import absolute_error, relative_error
from finitewidth.lab.estimate import exact, share
from finitewidth.lab.quadratic import Problem
from finitewidth.lab.sources import ROBERTS
from finitewidth.report import style

_CHAPTER = "Representation learning"
_SOURCE = f"{ROBERTS}, representation learning"
_ROW_SPACE = DirectOptimization()


@dataclass(frozen=True)
class TestLosses:
    """Random problems whose test labels lie near the linear prediction, and small differences in epsilon."""

    problems: int
    step: float = 1e-3
    near: float = 0.05

    def problem(self, i: int) -> Problem:
        """Test labels beside what fitted weights of the linear model say."""
        drawn = quadratic.draw(20 + i)
        n = len(drawn.y)
        linear = drawn.phi[n:] @ np.linalg.lstsq(drawn.phi[:n], drawn.y, rcond=None)[0]
        return drawn._replace(y_test=linear + self.near * drawn.y_test)


def _loss(problem: Problem, epsilon: float) -> float:
    """Exact test loss of direct optimisation."""
    outputs = quadratic.trained_outputs(problem, epsilon, _ROW_SPACE)[len(problem.y) :]
    return 0.5 * float(np.sum((outputs - problem.y_test) ** 2))


def _test_series(problem: Problem) -> Deformation:
    n = len(problem.y)
    series = deformation(*problem.parts(), problem.y)
    return Deformation(*(z[n:] for z in series))


def _losses_theory(setting: TestLosses) -> Prediction:
    problems = [setting.problem(i) for i in range(setting.problems)]
    best = [best_epsilon(_test_series(p), p.y_test) for p in problems]
    return {"slope": np.array([b.slope for b in best]), "curvature": np.array([b.curvature for b in best])}


def _losses_measure(setting: TestLosses, key) -> Measurement:
    h, slopes, bends = setting.step, [], []
    for i in range(setting.problems):
        L = {s: _loss(setting.problem(i), s * h) for s in (-2, -1, 0, 1, 2)}
        slopes.append((8 * (L[1] - L[-1]) - (L[2] - L[-2])) / (12 * h))
        bends.append((16 * (L[1] + L[-1]) - (L[2] + L[-2]) - 30 * L[0]) / (12 * h**2))
    return {"slope": exact(np.array(slopes)), "curvature": exact(np.array(bends))}


def _slope_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict((relative_error("dL/d epsilon", predicted["slope"], measured["slope"].value, 1e-5),))


def _derivative_figure(name: str, title: str, label: str):
    def figure(setting: TestLosses, predicted: Prediction, measured: Measurement) -> Figure:
        picture, (axes,) = style.panels(title)
        reach = [float(predicted[name].min()), float(predicted[name].max())]
        style.theory_line(axes, reach, reach, style.GREY, "equal")
        zeros = np.zeros(setting.problems)
        style.measured_points(axes, predicted[name], measured[name].value, zeros, style.PALETTE[0])
        axes.set(xlabel=f"{label}, by formula", ylabel="by differences of trained models")
        style.legend(axes, "random problems", loc="best", error_bars=False)
        return picture

    return figure


def _bend_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    found = measured["curvature"].value
    return Verdict((relative_error("d^2L/d epsilon^2", predicted["curvature"], found, 1e-3),))


@dataclass(frozen=True)
class Scan:
    """A student with the teacher's meta features, and a test loss to be minimised over epsilon."""

    problems: int
    train: int = 10
    features: int = 30
    test: int = 40
    teacher: float = 0.03
    noise: float = 0.02
    points: int = 9

    def problem(self, i: int) -> Problem:
        return _teacher(40 + i, self, related=True)


def _teacher(seed: int, setting: "Scan | Useful", related: bool) -> Problem:
    """Labels of a quadratic teacher of random weights; its meta features, or unrelated ones."""
    drawn = quadratic.draw(seed, setting.train, setting.test, setting.features)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=setting.features)
    z = drawn.phi @ w + setting.teacher / 2 * np.einsum("j,njk,k->n", w, drawn.psi, w)
    z = (z + setting.noise * rng.normal(size=len(z)))[:, None]
    drawn = drawn._replace(y=z[: setting.train], y_test=z[setting.train :])
    if related:
        return drawn
    other = quadratic.draw(seed + 10_000, setting.train, setting.test, setting.features)
    return drawn._replace(psi=other.psi)


def _scan_theory(setting: Scan) -> Prediction:
    best = [best_epsilon(_test_series(p), p.y_test) for p in map(setting.problem, range(setting.problems))]
    return {"epsilon": np.array([b.epsilon for b in best]), "refined": np.array([b.refined for b in best])}


def _scan_measure(setting: Scan, key) -> Measurement:
    minima, grids, curves = [], [], []
    for i in range(setting.problems):
        problem = setting.problem(i)
        found: Any = minimize_scalar(lambda e, p=problem: _loss(p, float(e)), bracket=(0.0, 0.01), tol=1e-8)
        minima.append(found.x)
        grid = found.x * np.linspace(-0.5, 2.5, setting.points)
        grids.append(grid)
        curves.append([_loss(problem, float(e)) for e in grid])
    return {
        "epsilon": exact(np.array(minima)),
        "grid": exact(np.array(grids)),
        "losses": exact(np.array(curves)),
    }


def _scan_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    found = measured["epsilon"].value
    return Verdict(
        (
            relative_error("epsilon* against the scan", predicted["epsilon"], found, 0.25),
            relative_error("one more term", predicted["refined"], found, 0.1),
        )
    )


def _scan_figure(setting, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The best amount of feature learning")
    for i, color in zip(range(len(predicted["epsilon"])), style.PALETTE, strict=False):
        grid, losses = measured["grid"].value[i], measured["losses"].value[i]
        start = np.interp(0.0, np.sort(grid), losses[np.argsort(grid)])
        axes.axvline(predicted["epsilon"][i], color=color, lw=1.6, label=r"$\epsilon^*$" if i == 0 else None)
        dotted = "one more term" if i == 0 else None
        axes.axvline(predicted["refined"][i], color=color, lw=1.2, ls=":", label=dotted)
        axes.plot(grid, losses / start, color=color, lw=0.8, alpha=0.6)
        style.measured_points(axes, grid, losses / start, np.zeros(len(grid)), color)
    axes.set(xlabel=r"$\epsilon$", ylabel="test loss, 1 at zero")
    style.legend(axes, "trained models", "formula", loc="best", error_bars=False)
    return figure


@dataclass(frozen=True)
class Diabetes:
    """A hidden layer of random neurons on the diabetes data, its weights held by a penalty."""

    seeds: tuple[int, ...]
    train: int = 100
    neurons: int = 64
    gain: float = 0.5
    ridge: float = 0.3
    points: int = 7

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Inputs and labels for training and for the test."""
        from finitewidth.data import built_in  # brings scikit-learn with it

        data = built_in("diabetes")
        order = np.random.default_rng(0).permutation(len(data.x))
        x, y = data.x[order], data.y[order]
        return x[: self.train], y[: self.train], x[self.train :], y[self.train :]

    def layer(self, seed: int) -> RandomNeurons:
        return RandomNeurons.draw(jax.random.key(seed), 10, self.neurons, "tanh", self.gain)


def _diabetes_theory(setting: Diabetes) -> Prediction:
    x, y, x_test, y_test = setting.data
    found = []
    for seed in setting.seeds:
        layer = setting.layer(seed)
        A, B = layer.at(x), layer.at(x_test)
        k = layer.kernel(A, A)
        mu, mu_test = NeuronMetaKernel(layer, (A, A, A)), NeuronMetaKernel(layer, (B, A, A))
        ridge = setting.ridge * float(np.mean(np.diag(k)))
        series = deformation(k, layer.kernel(B, A), mu, mu_test, None, y, ridge=ridge)
        found.append(best_epsilon(series, y_test))
    return {"epsilon": np.array([b.epsilon for b in found]), "refined": np.array([b.refined for b in found])}


def _hidden_layer(params, x):
    """The layer written out; a penalty on the weights is a private input of every training point."""
    a, w, private = params
    inputs, own = x[:, : -len(private)], x[:, -len(private) :]
    inputs = jnp.column_stack([inputs, jnp.ones(len(inputs))]) / jnp.sqrt(inputs.shape[1] + 1)
    return (jnp.tanh(inputs @ w.T) @ a / jnp.sqrt(len(a)) + own @ private)[:, None]


def _diabetes_measure(setting: Diabetes, key) -> Measurement:
    x, y, x_test, y_test = setting.data
    minima, grids, curves = [], [], []
    for seed in setting.seeds:
        layer = setting.layer(seed)
        params = (jnp.asarray(layer.a), jnp.asarray(layer.w), jnp.zeros(len(x)))
        inputs = jnp.asarray(np.column_stack([x, np.eye(len(x))]))
        private = params[2]
        slopes = jax.jacobian(lambda p, i=inputs, own=private: _hidden_layer((*p, own), i)[:, 0])(params[:2])
        diagonal = sum(jnp.mean(jnp.sum(J.reshape(len(x), -1) ** 2, axis=1)) for J in slopes)
        scale = np.sqrt(setting.ridge * float(diagonal))
        train = np.column_stack([x, scale * np.eye(len(x))])
        test = np.column_stack([x_test, np.zeros((len(x_test), len(x)))])

        def loss(epsilon: float, params=params, train=train, test=test) -> float:
            centred = lambda p, points: _hidden_layer(p, points) - _hidden_layer(params, points)
            model = TangentModel(centred, params, order=2, epsilon=float(epsilon))
            end = train_weights(model.at(train), y, _ROW_SPACE, model.zeros())
            return 0.5 * float(jnp.sum((model(end.weights, test) - y_test) ** 2))

        found: Any = minimize_scalar(loss, bracket=(0.0, 0.05), tol=1e-6)
        minima.append(found.x)
        grid = found.x * np.linspace(-0.5, 2.5, setting.points)
        grids.append(grid)
        curves.append([loss(e) for e in grid])
    return {
        "epsilon": exact(np.array(minima)),
        "grid": exact(np.array(grids)),
        "losses": exact(np.array(curves)),
    }


@dataclass(frozen=True)
class Useful:
    """Many teachers, and students with the teacher's meta features or with unrelated ones."""

    draws: int
    train: int = 10
    features: int = 30
    test: int = 40
    teacher: float = 0.05
    noise: float = 0.02


def _useful_theory(setting: Useful) -> Prediction:
    """Unrelated meta features are as likely to help as their negatives; useful ones should nearly always."""
    return {"unrelated": np.array(0.5), "useful": np.array(1.0)}


def _useful_measure(setting: Useful, key) -> Measurement:
    fractions, slopes = {}, {}
    for name in ("useful", "unrelated"):
        found = []
        for i in range(setting.draws):
            problem = _teacher(1000 + i, setting, related=name == "useful")
            found.append((_loss(problem, 1e-5) - _loss(problem, -1e-5)) / 2e-5)
        slopes[name] = np.array(found)
        fractions[name] = np.mean(slopes[name] < 0)
    spread = {f"{name} slopes": exact(values) for name, values in slopes.items()}
    return {name: exact(value) for name, value in fractions.items()} | spread


def _useful_compare(setting: Useful, predicted: Prediction, measured: Measurement) -> Verdict:
    def check(name: str, probability: float, tolerance: float) -> Check:
        helped = share(round(float(measured[name].value) * setting.draws), setting.draws, probability)
        return absolute_error(f"share of draws helped, {name}", predicted[name], helped, tolerance)

    # "Most" is at least 85 per cent; unrelated meta features are a fair coin.
    return Verdict((check("useful", 0.85, 0.15), check("unrelated", 0.5, 0.0)))


def _useful_figure(setting: Useful, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Meta features help when they are the right ones")
    for name, color in zip(("useful", "unrelated"), style.PALETTE, strict=False):
        slopes = np.sort(measured[f"{name} slopes"].value)
        share = f"{name}: {float(measured[name].value):.0%} below zero"
        axes.plot(slopes, np.linspace(0, 1, len(slopes)), color=color, lw=1.7, label=share)
    axes.axvline(0.0, color=style.GREY, lw=1.0)
    axes.set(xlabel=r"slope of the test loss in $\epsilon$ at zero", ylabel="share of draws below")
    axes.legend()
    return figure


CLAIMS = (
    Claim(
        "gen-derivative",
        "learned features help to first order if they point along the test residual",
        _CHAPTER,
        "The derivative of the test loss in epsilon at zero is the sum of (z^F - y) z^I over the test set.",
        f"{_SOURCE}, generalisation (without the extra epsilon; the residual is that of the test set)",
        TestLosses(4),
        TestLosses(12),
        _losses_theory,
        _losses_measure,
        _slope_compare,
        _derivative_figure("slope", "Does feature learning help?", "slope of the test loss"),
    ),
    Claim(
        "eps-star-curvature",
        "the second derivative of the test loss decides how much helps",
        _CHAPTER,
        "The second derivative of the test loss at zero is the sum of (z^I)^2 + 2 (z^F - y) z^II, the "
        "denominator of epsilon*; without the factor 2 it is not.",
        f"{_SOURCE}, how much (with the factor 2)",
        TestLosses(4),
        TestLosses(12),
        _losses_theory,
        _losses_measure,
        _bend_compare,
        _derivative_figure("curvature", "How much feature learning helps", "curvature of the test loss"),
    ),
    Claim(
        "eps-star",
        "epsilon* is the minimum of the test loss over epsilon",
        _CHAPTER,
        "On a teacher's data epsilon* is the minimum of the scanned test loss up to a relative error of "
        "the order of the change it makes, and the root with one more term, 3 eps^2 z^I z^II, is closer.",
        f"{_SOURCE}, how much",
        Scan(1),
        Scan(5),
        _scan_theory,
        _scan_measure,
        _scan_compare,
        _scan_figure,
    ),
    Claim(
        "eps-star-diabetes",
        "epsilon* on the diabetes data",
        _CHAPTER,
        "For a hidden layer of random neurons whose weights are held by a penalty, epsilon* is the "
        "minimum of the test loss over epsilon of models trained on the diabetes data.",
        f"{_SOURCE}, how much",
        Diabetes((2,)),
        Diabetes((1, 2, 5)),
        _diabetes_theory,
        _diabetes_measure,
        _scan_compare,
        _scan_figure,
    ),
    Claim(
        "useful-meta-features",
        "the right meta features help, unrelated ones do not on average",
        _CHAPTER,
        "With the teacher's meta features the test loss falls with epsilon in most draws; with unrelated "
        "ones in half of them, because the sign of psi is arbitrary.",
        f"{_SOURCE} as regularisation",
        Useful(60),
        Useful(400),
        _useful_theory,
        _useful_measure,
        _useful_compare,
        _useful_figure,
    ),
)
