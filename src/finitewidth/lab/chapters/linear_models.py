"""Linear models: kernel regression, and what gradient descent does on the way to it."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import DirectOptimization, GradientDescent
from finitewidth.dynamics.kernel_descent import Spectrum, smoother
from finitewidth.lab.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import absolute_error, relative_error
from finitewidth.lab.estimate import exact
from finitewidth.report import style

_CHAPTER = "Linear models and kernel methods"
_ROUNDING = 1e-10


@dataclass(frozen=True)
class LinearProblem:
    """Gaussian features, more of them than training points; learning rates as multiples of 1/lambda_max."""

    train: int
    features: int
    seed: int = 0
    test: int = 5
    steps: int = 300
    edges: tuple[float, ...] = (0.73, 1.3, 1.95)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Training and test features, labels, and weights to start from."""
        rng = np.random.default_rng(self.seed)
        phi, phi_test = (
            rng.normal(size=(n, self.features)) / np.sqrt(self.features) for n in (self.train, self.test)
        )
        return phi, phi_test, rng.normal(size=self.train), rng.normal(size=self.features)

    def eta(self, edge: float) -> float:
        phi = self.data[0]
        return float(edge / np.linalg.eigvalsh(phi @ phi.T)[-1])

    @property
    def times(self) -> np.ndarray:
        return np.unique(np.geomspace(1, self.steps, 12).round().astype(int))


def _descend(phi: np.ndarray, y: np.ndarray, w: np.ndarray, eta: float, steps: int) -> np.ndarray:
    """Weights before every step and after the last."""
    path = [w]
    for _ in range(steps):
        path.append(path[-1] - eta * phi.T @ (phi @ path[-1] - y))
    return np.array(path)


def _map(setting: LinearProblem, algorithm) -> np.ndarray:
    phi, phi_test, _, _ = setting.data
    return np.asarray(smoother(jnp.asarray(phi @ phi.T), jnp.asarray(phi_test @ phi.T), algorithm))


def _forms_theory(setting: LinearProblem) -> Prediction:
    return {"prediction": _map(setting, DirectOptimization()) @ setting.data[2]}


def _forms_measure(setting: LinearProblem, key) -> Measurement:
    phi, phi_test, y, _ = setting.data
    return {"prediction": exact(phi_test @ np.linalg.lstsq(phi, y, rcond=None)[0])}


def _forms_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        (absolute_error("prediction", predicted["prediction"], measured["prediction"].value, _ROUNDING),)
    )


def _forms_figure(setting, predicted: Prediction, measured: Measurement) -> Figure:
    return _agreement(
        "Weights and kernels give one prediction",
        predicted["prediction"],
        measured["prediction"].value,
        "by the kernel",
        "by fitted weights",
    )


def _agreement(title: str, predicted: np.ndarray, measured: np.ndarray, x: str, y: str) -> Figure:
    figure, (axes,) = style.panels(title)
    reach = [min(predicted.min(), measured.min()), max(predicted.max(), measured.max())]
    style.theory_line(axes, reach, reach, style.GREY, "equal")
    style.measured_points(
        axes, predicted.ravel(), measured.ravel(), np.zeros(predicted.size), style.PALETTE[0]
    )
    axes.set(xlabel=x, ylabel=y)
    axes.legend()
    return figure


def _residual_theory(setting: LinearProblem) -> Prediction:
    phi, _, y, w = setting.data
    spectrum = Spectrum.of(jnp.asarray(phi @ phi.T))
    e = phi @ w - y
    algorithms = [
        [GradientDescent(setting.eta(edge), int(t)) for t in setting.times] for edge in setting.edges
    ]
    return {
        "residual": np.array([[np.asarray(spectrum.residual_map(a) @ e) for a in row] for row in algorithms])
    }


def _residual_measure(setting: LinearProblem, key) -> Measurement:
    phi, _, y, w = setting.data
    paths = [_descend(phi, y, w, setting.eta(edge), setting.steps)[setting.times] for edge in setting.edges]
    return {"residual": exact(np.array(paths) @ phi.T - y)}


def _residual_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict((absolute_error("residual", predicted["residual"], measured["residual"].value, 1e-12),))


def _residual_figure(setting: LinearProblem, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("One matrix carries the residual from step to step")
    for i, (edge, color) in enumerate(zip(setting.edges, style.PALETTE, strict=False)):
        label = rf"$\eta = {edge}/\lambda_{{max}}$"
        size = lambda r: np.linalg.norm(r, axis=1)
        style.theory_line(axes, setting.times, size(predicted["residual"][i]), color, label)
        zeros = np.zeros(len(setting.times))
        style.measured_points(axes, setting.times, size(measured["residual"].value[i]), zeros, color)
    axes.set(xscale="log", yscale="log", xlabel="step", ylabel="length of the residual", ylim=(1e-16, None))
    style.legend(axes, "gradient descent", loc="best", error_bars=False)
    return figure


def _any_time_theory(setting: LinearProblem) -> Prediction:
    phi, phi_test, y, w = setting.data
    e = phi @ w - y
    rows = [
        [phi_test @ w - _map(setting, GradientDescent(setting.eta(edge), int(t))) @ e for t in setting.times]
        for edge in setting.edges
    ]
    return {"outputs": np.array(rows), "end": phi_test @ w - _map(setting, DirectOptimization()) @ e}


def _any_time_measure(setting: LinearProblem, key) -> Measurement:
    phi, phi_test, y, w = setting.data
    paths = [_descend(phi, y, w, setting.eta(edge), setting.steps)[setting.times] for edge in setting.edges]
    end = _descend(phi, y, w, setting.eta(1.3), 20_000)[-1]
    return {"outputs": exact(np.array(paths) @ phi_test.T), "end": exact(phi_test @ end)}


def _any_time_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        tuple(
            absolute_error(name, predicted[name], measured[name].value, 1e-11) for name in ("outputs", "end")
        )
    )


def _any_time_figure(setting: LinearProblem, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Test outputs at every step, from a start away from zero")
    for b, color in zip(range(min(4, setting.test)), style.PALETTE, strict=False):
        style.theory_line(axes, setting.times, predicted["outputs"][1, :, b], color, f"test point {b}")
        zeros = np.zeros(len(setting.times))
        style.measured_points(axes, setting.times, measured["outputs"].value[1, :, b], zeros, color)
        axes.axhline(predicted["end"][b], color=color, lw=0.8, ls=":")
    axes.set(xscale="log", xlabel="step", ylabel="output")
    style.legend(axes, "gradient descent", loc="best", error_bars=False)
    return figure


def _eta_theory(setting: LinearProblem) -> Prediction:
    phi, phi_test, _, w = setting.data
    gap = phi_test @ w - _map(setting, DirectOptimization()) @ (phi @ w)
    return {"gap": np.tile(gap, (len(setting.edges), 1))}


def _eta_measure(setting: LinearProblem, key) -> Measurement:
    phi, phi_test, y, w = setting.data
    direct = phi_test @ np.linalg.lstsq(phi, y, rcond=None)[0]
    ends = [_descend(phi, y, w, setting.eta(edge), 20_000)[-1] for edge in setting.edges]
    return {"gap": exact(np.array([phi_test @ end - direct for end in ends]))}


def _eta_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        (absolute_error("gap to direct optimisation", predicted["gap"], measured["gap"].value, 1e-11),)
    )


def _eta_figure(setting: LinearProblem, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The start is remembered, the learning rate is not")
    for b, color in zip(range(min(5, setting.test)), style.PALETTE, strict=False):
        style.theory_line(axes, setting.edges, predicted["gap"][:, b], color, f"test point {b}")
        zeros = np.zeros(len(setting.edges))
        style.measured_points(axes, setting.edges, measured["gap"].value[:, b], zeros, color)
    axes.set(xlabel=r"learning rate in units of $1/\lambda_{max}$", ylabel="distance to direct optimisation")
    style.legend_beside(axes, "gradient descent")
    return figure


_EDGES = (1.95, 2.05)


def _edge_theory(setting: LinearProblem) -> Prediction:
    """The fastest mode alone: its factor per step, after the slower ones have gone."""
    return {"factor": np.array([edge - 1 for edge in _EDGES])}


def _edge_measure(setting: LinearProblem, key) -> Measurement:
    phi, _, y, w = setting.data
    sizes = []
    for edge in _EDGES:
        path = _descend(phi, y, w, setting.eta(edge), setting.steps)
        sizes.append(np.linalg.norm(path @ phi.T - y, axis=1))
    # The projection on the fastest mode decays or grows by its factor from the first step on.
    top = np.linalg.eigh(phi @ phi.T)[1][:, -1]
    factors = []
    for edge in _EDGES:
        path = _descend(phi, y, w, setting.eta(edge), 100)
        along = np.abs((path @ phi.T - y) @ top)
        factors.append((along[-1] / along[0]) ** (1 / 100))
    return {"sizes": exact(np.array(sizes)), "factor": exact(np.array(factors))}


def _edge_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict((relative_error("factor per step", predicted["factor"], measured["factor"].value, 1e-9),))


def _edge_figure(setting: LinearProblem, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Two over the largest eigenvalue is the edge")
    for i, (edge, color) in enumerate(zip(_EDGES, style.PALETTE, strict=False)):
        sizes = measured["sizes"].value[i]
        steps = np.arange(len(sizes))
        line = sizes[-1] * predicted["factor"][i] ** (steps - steps[-1])
        start = len(steps) // 3 if edge < 2 else 0
        if edge > 2:
            style.theory_line(axes, steps[start:], line[start:], color, rf"$\eta = {edge}/\lambda_{{max}}$")
        else:
            axes.plot([], [], color=color, label=rf"$\eta = {edge}/\lambda_{{max}}$")
        every = slice(0, None, max(1, len(steps) // 25))
        style.measured_points(axes, steps[every], sizes[every], np.zeros(len(steps[every])), color)
    axes.set(yscale="log", xlabel="step", ylabel="length of the residual")
    style.legend(axes, "gradient descent", "growth of the fastest mode", loc="best", error_bars=False)
    return figure


def _norm_theory(setting: LinearProblem) -> Prediction:
    phi, _, y, w = setting.data
    inverse = np.linalg.inv(phi @ phi.T)
    return {
        "from zero": phi.T @ inverse @ y,
        "from a start": phi.T @ inverse @ y + w - phi.T @ inverse @ (phi @ w),
    }


def _norm_measure(setting: LinearProblem, key) -> Measurement:
    phi, _, y, w = setting.data
    eta = setting.eta(1.3)
    starts = {"from zero": 0 * w, "from a start": w}
    return {name: exact(_descend(phi, y, start, eta, 20_000)[-1]) for name, start in starts.items()}


def _norm_compare(setting, predicted: Prediction, measured: Measurement) -> Verdict:
    names = ("from zero", "from a start")
    return Verdict(
        tuple(absolute_error(f"weights {n}", predicted[n], measured[n].value, _ROUNDING) for n in names)
    )


def _norm_figure(setting: LinearProblem, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Gradient descent from zero takes the shortest weights")
    for name, color in zip(("from zero", "from a start"), style.PALETTE, strict=False):
        order = np.arange(len(predicted[name]))
        length = np.linalg.norm(predicted[name])
        style.theory_line(axes, order, predicted[name], color, f"{name}: length {length:.2f}")
        style.measured_points(axes, order, measured[name].value, np.zeros(len(order)), color)
    axes.set(xlabel="weight", ylabel="value at the end of training")
    style.legend(axes, "gradient descent", loc="best", error_bars=False)
    return figure


_SOURCE = "lecture notes on quadratic models"
_QUICK, _FULL = (
    LinearProblem(train=6, features=14),
    LinearProblem(train=40, features=120, test=20, steps=3000),
)

CLAIMS = (
    Claim(
        "lin-two-forms",
        "fitted weights and kernel regression predict the same",
        _CHAPTER,
        "The least-squares prediction W* phi of a linear model with more features than points equals k_BA"
        " k^(-1) y, the contraction of the kernel with the inverse of its training block.",
        f"{_SOURCE} (the index of the inverse is the one that is summed)",
        _QUICK,
        _FULL,
        _forms_theory,
        _forms_measure,
        _forms_compare,
        _forms_figure,
    ),
    Claim(
        "lin-residual-propagator",
        "gradient descent multiplies the residual by one matrix at every step",
        _CHAPTER,
        "On a linear model the training residual after t steps is (1 - eta k)^t times the first one.",
        f"{_SOURCE} (the free indices are the last and the first)",
        _QUICK,
        _FULL,
        _residual_theory,
        _residual_measure,
        _residual_compare,
        _residual_figure,
    ),
    Claim(
        "lin-test-solution-any-t",
        "test outputs in closed form at every step and from any start",
        _CHAPTER,
        "z(t) = z(0) - k_BA k^(-1) (1 - U(t)) (z_A(0) - y) at every test point, with U(t) = (1 - eta k)^t.",
        f"{_SOURCE} (with the inverse where its last line drops it)",
        _QUICK,
        LinearProblem(train=20, features=60, test=20, steps=3000),
        _any_time_theory,
        _any_time_measure,
        _any_time_compare,
        _any_time_figure,
    ),
    Claim(
        "lin-eta-independence",
        "where a linear model ends depends on its start but on no learning rate",
        _CHAPTER,
        "The distance of gradient descent from direct optimisation at the end is z(0) - k_BA k^(-1) "
        "z_A(0), whatever the learning rate.",
        f"{_SOURCE} (which says that different learning rates predict differently; they do not)",
        _QUICK,
        LinearProblem(train=20, features=60, test=20, edges=(0.5, 0.73, 1.0, 1.3, 1.6, 1.95)),
        _eta_theory,
        _eta_measure,
        _eta_compare,
        _eta_figure,
    ),
    Claim(
        "lin-stability-edge",
        "gradient descent converges below 2/lambda_max and runs away above",
        _CHAPTER,
        "The fastest mode is multiplied by 1 - eta lambda_max per step: it dies out at 1.95 and grows at "
        "2.05 over lambda_max.",
        f"{_SOURCE} (which leaves the condition out)",
        _QUICK,
        LinearProblem(train=20, features=60),
        _edge_theory,
        _edge_measure,
        _edge_compare,
        _edge_figure,
    ),
    Claim(
        "gd-min-norm",
        "gradient descent from zero ends at the shortest weights",
        _CHAPTER,
        "With fewer labels than weights gradient descent ends at A^T (A A^T)^(-1) y plus the part of the "
        "start that the features do not see; only a start in their span, such as zero, leads to the "
        "shortest weights.",
        "lecture notes on optimisation (with the condition on the start)",
        _QUICK,
        LinearProblem(train=20, features=60),
        _norm_theory,
        _norm_measure,
        _norm_compare,
        _norm_figure,
    ),
)
