"""Parameters of quadratic models to first order: stationary points, moving features, drift."""

import functools
import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import root

from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.shapes.orders import Curve, Orders, off_by, order_claim
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.quadratic_models.theory.parameter_expansion import (
    feature_change,
    perpendicular_drift,
    stationary_point,
)

_SOURCE = orf_543("11/2")
# Times of the flow in units of the slowest mode; e^-32 of it is left at the last.
_TIMES = (0.3, 1.0, 3.0, 32.0)


def _crowded(setting: Orders) -> Problem:
    """More points than parameters: no parameters reach all labels."""
    return quadratic.draw(setting.rng(2), setting.train + setting.features, 1, setting.features)


def _train(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(problem.y)
    return problem.phi[:n], problem.psi[:n], problem.y[:, 0]


def _span(phi: np.ndarray) -> np.ndarray:
    """The projector on the span of the features."""
    rows = np.linalg.svd(phi, full_matrices=False)[2]
    return rows.T @ rows


def _start(setting: Orders) -> np.ndarray:
    return quadratic.random_weights(setting.problem, setting.rng(3), 1)[0, 0]


def _stationary_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    found = {}
    for name, problem in (("interpolating", setting.problem), ("with residuals", _crowded(setting))):
        first, change = stationary_point(*_train(problem))
        found[name] = first + epsilon * change
    return found


def _stationary_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    phi, psi, y = _train(setting.problem)

    def errors(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = phi.T @ c
        return phi @ w + epsilon / 2 * (psi @ w) @ w - y, (phi + epsilon * psi @ w) @ phi.T

    inside = root(errors, np.linalg.solve(phi @ phi.T, y), jac=True, tol=1e-14).x @ phi
    phi, psi, y = _train(_crowded(setting))

    def gradient(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        features = phi + epsilon * psi @ w
        r = phi @ w + epsilon / 2 * (psi @ w) @ w - y
        return features.T @ r, features.T @ features + epsilon * np.einsum("a,aij->ij", r, psi)

    crowded = root(gradient, np.linalg.lstsq(phi, y, rcond=None)[0], jac=True, tol=1e-14).x
    return {"interpolating": inside, "with residuals": crowded}


def _without_the_residual(setting: Orders, value: np.ndarray) -> np.ndarray:
    """Only the bend of the outputs, as if every label were reached."""
    phi, psi, y = _train(_crowded(setting))
    first = np.linalg.lstsq(phi, y, rcond=None)[0]
    change = np.linalg.lstsq(phi, -(psi @ first) @ first / 2, rcond=None)[0]
    return first + setting.epsilons[:, None] * change


def _unit_of_time(setting: Orders) -> float:
    return 1 / float(np.linalg.eigvalsh(setting.problem.k[: setting.train, : setting.train])[0])


@functools.lru_cache(maxsize=8)
def _flow(setting: Orders, epsilon: float) -> np.ndarray:
    """Parameters of the quadratic model along real gradient flow, (times, features)."""
    (phi, psi, y), w = _train(setting.problem), _start(setting)

    def rates(t: float, w: np.ndarray) -> np.ndarray:
        bent = epsilon * psi @ w
        return -(phi @ w + bent @ w / 2 - y) @ (phi + bent)

    times = np.array(_TIMES) * _unit_of_time(setting)
    return solve_ivp(rates, (0.0, times[-1]), w, "DOP853", times, rtol=1e-12, atol=1e-13).y.T


def _features_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    phi, _, y = _train(setting.problem)
    change = functools.partial(feature_change, phi, y, setting.problem.psi, _start(setting))
    times = np.array(_TIMES[:-1]) * _unit_of_time(setting)
    return {
        "features on the way": epsilon * np.array([change(t) for t in times]),
        "features at the end": epsilon * change(math.inf),
    }


def _features_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    moved = epsilon * np.einsum("aij,tj->tai", setting.problem.psi, _flow(setting, epsilon) - _start(setting))
    return {"on the way": moved[:-1], "at the end": moved[-1]}


def _reversed(setting: Orders, value: np.ndarray) -> np.ndarray:
    """Away from the solution of the linear problem."""
    return -value


def _drift_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    return {"drift": epsilon * perpendicular_drift(*_train(setting.problem), _start(setting))}


def _drift_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    move = _flow(setting, epsilon)[-1] - _start(setting)
    return {"outside": move - _span(setting.problem.phi[: setting.train]) @ move}


def _printed_drift(setting: Orders, value: np.ndarray) -> np.ndarray:
    """(1 - e^-tA)(start - end) in place of the linear model's parameters."""
    (phi, psi, y), start = _train(setting.problem), _start(setting)
    _, sizes, v = np.linalg.svd(phi, full_matrices=False)
    l, along = sizes**2, v @ -np.linalg.lstsq(phi, y - phi @ start, rcond=None)[0]
    # The integral of (1 - e^-lt) e^-kt is 1/k - 1/(l + k).
    pairs = (1 / l - 1 / (l[:, None] + l)) * along[:, None] * along
    pull = np.einsum("aij,ja->i", psi, v.T @ (pairs @ (v @ phi.T)))
    return -setting.epsilons[:, None] * (pull - _span(phi) @ pull)


CLAIMS = (
    order_claim(
        _stationary_theory,
        _stationary_measure,
        (Curve("interpolating", 2, "interpolating"), Curve("with residuals", 2, "with residuals")),
        id="quadratic-first-order-minimiser",
        title="the minimiser of a quadratic model to first order, with and without residuals",
        statement="""A stationary point theta^F + eps theta^I of the loss has A theta^I = -1/2 sum_a phi_a
        (theta^F psi_a theta^F) - sum_a psi_a theta^F r_a with the residuals r of the linear model. If the
        linear model interpolates, this is a linear fit to labels changed by -eps/2 theta^F psi_a theta^F, and
        only the part in the span of the features is determined.""",
        source=f"{_SOURCE} (with the term of the residuals)",
        wrong={"interpolating": off_by(1), "with residuals": _without_the_residual},
    ),
    order_claim(
        _features_theory,
        _features_measure,
        (
            Curve("features on the way", 2, "on the way"),
            Curve("features at the end", 2, "at the end"),
        ),
        id="effective-features-flow",
        title="effective features move towards the solution of the linear problem",
        statement="""Under gradient flow the effective features phi + eps psi theta of a quadratic model
        move by eps psi (1 - e^(-tA)) (theta_* - theta_0), up to second order in eps, where theta_* is
        where the linear model ends; the linear model interpolates here, so that this holds at the end,
        too.""",
        source=f"{_SOURCE} (with the sign reversed)",
        wrong={"features on the way": _reversed, "features at the end": (_reversed, off_by(1))},
    ),
    order_claim(
        _drift_theory,
        _drift_measure,
        (Curve("drift", 2, "outside"),),
        id="quadratic-perpendicular-drift",
        title="parameters drift out of the span of the features, by an amount that remembers the path",
        statement="""To first order in eps gradient flow on a quadratic model moves parameters out of the
        span of the features by -sum_a P psi_a times the integral of theta^F(t) r_a(t), where theta^F is
        the flow of the linear model, which interpolates. The integral has a closed form in the eigenpairs
        of A.""",
        source=f"{_SOURCE} (with the parameters themselves, not their change, in the integral)",
        wrong={"drift": (_printed_drift, off_by(1))},
    ),
)
