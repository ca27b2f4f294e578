"""Representation learning: the trained weights and kernel, and the best amount of it."""

import numpy as np
from jaxtyping import Array

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.architecture.models.meta_kernel import DenseMetaKernel
from finitewidth.course._instruments import quadratic
from finitewidth.course._lab.shapes.orders import AtEpsilon, Curve, Orders, off_by, order_claim
from finitewidth.course._lab.sources import ROBERTS
from finitewidth.nearly_kernel_methods.representation import Deformation, deformation, trained_kernel

_SOURCE = f"{ROBERTS}, representation learning"
_FULL_STEP = DirectOptimization("gauss-newton")
_FLOW = DirectOptimization("gauss-newton", 0.0)
_ROW_SPACE = DirectOptimization()


def _series(setting: Orders, algorithm: DirectOptimization) -> Deformation:
    return deformation(*setting.problem.parts(), setting.problem.y, algorithm)


def _split_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem = setting.problem
    n = len(problem.y)
    phi, psi, k = problem.phi[:n], problem.psi[:n], problem.k[:n, :n]
    W_F = phi.T @ np.linalg.solve(k, problem.y[:, 0])
    m = np.einsum("j,ajk,k->a", W_F, psi, W_F)
    W_I = -phi.T @ np.linalg.solve(k, m) / 2
    return {"both parts": W_F + epsilon * W_I, "linear weights": W_F}


def _split_measure(setting: Orders, epsilon: float) -> dict[str, Array]:
    return {"outputs": quadratic.trained_weights(setting.problem, epsilon, _ROW_SPACE)[0]}


def _outputs_of(algorithms: dict[str, DirectOptimization]) -> AtEpsilon:
    def measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
        run = lambda algorithm: quadratic.trained_outputs(setting.problem, epsilon, algorithm)
        return {name: run(algorithm) for name, algorithm in algorithms.items()}

    return measure


def _second_theory(setting: Orders, epsilon: float) -> dict[str, Array]:
    series = _series(setting, _ROW_SPACE)
    return {"three terms": series.at(epsilon), "two terms": series.z_F + epsilon * series.z_I}


def _newton_theory(setting: Orders, epsilon: float) -> dict[str, Array]:
    own, other = _series(setting, _FULL_STEP), _series(setting, _ROW_SPACE)
    return {"its own second order": own.at(epsilon), "that of the row space": other.at(epsilon)}


def _sharp_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    """Kernel predictions with the trained kernel, inverted on the training points, or not."""
    problem = setting.problem
    n, y = len(problem.y), problem.y
    q = np.linalg.solve(problem.k[:n, :n], y)
    mu = DenseMetaKernel(problem.mu(epsilon)[:, :, :n])
    sharp = np.asarray(trained_kernel(problem.k, mu, mu, q).sharp[0])
    own, fixed = sharp[:, :n] @ np.linalg.solve(sharp[:n, :n], y), sharp[:, :n] @ q
    return {"k# for Gauss-Newton flow": own, "k# for the row space": own, "k# with the inverse of k": fixed}


def _one_sided_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem = setting.problem
    n = len(problem.y)
    w = np.asarray(quadratic.trained_weights(problem, epsilon, _ROW_SPACE))[0]
    average = problem.phi + epsilon / 2 * problem.psi @ w
    kernel = average @ problem.phi[:n].T
    return {"one-sided kernel": kernel @ np.linalg.solve(kernel[:n], problem.y)}


# What is left at third order has to stay above rounding.
_LARGER, _LARGER_FULL = Orders(0.05, 3), Orders(0.1, 4, train=12, test=10, features=40)

CLAIMS = (
    order_claim(
        _split_theory,
        _split_measure,
        (Curve("both parts", 2), Curve("linear weights", 1)),
        id="nk-weight-split",
        title="trained weights are those of the linear model plus a part of first order",
        statement="""Direct optimisation in the row space ends at W^F + eps W^I with W^I = -1/2 Phi^T k^(-1) m
        and m_a = W^F psi_a W^F, up to second order: what representation learning takes back from the linear
        fit.""",
        source=f"{_SOURCE} as regularisation",
        wrong={"both parts": off_by(1)},
    ),
    order_claim(
        _second_theory,
        _outputs_of({"outputs": _ROW_SPACE}),
        (Curve("three terms", 3), Curve("two terms", 2)),
        id="nk-zII-direct",
        title="the second order of direct optimisation",
        statement="""With r = k^(-1) m and n_d = mu_d q r the outputs of direct optimisation are z^F + eps
        P[m]/2 - eps^2 P[n]/2 up to third order.""",
        source=f"{_SOURCE} (which asks for this term)",
        quick=_LARGER,
        full=_LARGER_FULL,
        wrong={"three terms": off_by(2)},
    ),
    order_claim(
        _newton_theory,
        _outputs_of({"outputs": _FULL_STEP}),
        (Curve("its own second order", 3), Curve("that of the row space", 2)),
        id="nk-zII-gauss-newton",
        title="Gauss-Newton has a second order of its own",
        statement="""Full Gauss-Newton steps share the first order of direct optimisation in the row space,
        and differ from it at second order by a term that leaves the span of the features.""",
        source=f"{_SOURCE}, order epsilon squared",
        quick=_LARGER,
        full=_LARGER_FULL,
        wrong={"its own second order": off_by(2)},
    ),
    order_claim(
        _sharp_theory,
        _outputs_of({"flow": _FLOW, "row space": _ROW_SPACE}),
        (
            Curve("k# for Gauss-Newton flow", 2, "flow"),
            Curve("k# for the row space", 1, "row space"),
            Curve("k# with the inverse of k", 1, "row space"),
        ),
        id="nk-trained-kernel",
        title="kernel regression with the trained kernel is Gauss-Newton flow, not direct optimisation",
        statement="""With k# = (k + k^E)/2, inverted on the training points, k# k#^(-1) y equals up to second
        order the end of Gauss-Newton flow (Z_A = Z_B); it misses direct optimisation in the row space by
        first order.""",
        source=f"{_SOURCE} (which states it for direct optimisation)",
        wrong={"k# for Gauss-Newton flow": off_by(1)},
    ),
    order_claim(
        _one_sided_theory,
        _outputs_of({"outputs": _ROW_SPACE}),
        (Curve("one-sided kernel", None),),
        id="nk-one-sided-kernel",
        title="direct optimisation is a kernel prediction with a one-sided trained kernel",
        statement="""With (phi_d + phi^E_d(W*))/2 on one side and phi_a on the other, kernel regression equals
        direct optimisation in the row space to all orders in epsilon.""",
        source=f"{_SOURCE} (in place of the symmetric trained kernel)",
        wrong={"one-sided kernel": off_by(2)},
    ),
)
