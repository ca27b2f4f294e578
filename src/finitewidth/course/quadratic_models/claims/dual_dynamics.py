"""Quadratic models: exact identities, and the dynamics of outputs and kernel in sample space."""

import jax.numpy as jnp
import numpy as np

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.architecture.models.meta_kernel import DenseMetaKernel
from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.shapes.orders import Curve, Orders, off_by, order_claim
from finitewidth.course._lab.sources import ROBERTS
from finitewidth.course.quadratic_models.theory.dual import dual_descent, kernel_step, output_step
from finitewidth.nearly_kernel_methods.representation import trained_kernel

_SOURCE = f"{ROBERTS}, quadratic models"


def _moves(setting: Orders) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the size of fitted ones, and a change of them."""
    W, dW = quadratic.random_weights(setting.problem, setting.rng(1), 2)
    return W, dW


def _polynomial(problem: Problem, epsilon: float, w: np.ndarray) -> np.ndarray:
    """Outputs of the model, written out."""
    return problem.phi @ w[0] + epsilon / 2 * np.einsum("j,njk,k->n", w[0], problem.psi, w[0])


def _update_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem, (W, dW) = setting.problem, _moves(setting)
    features = np.asarray(problem.model(epsilon).effective_features(jnp.asarray(W), problem.everywhere)[0])
    linear = _polynomial(problem, epsilon, W) + features @ dW[0]
    bend = epsilon / 2 * np.einsum("j,njk,k->n", dW[0], problem.psi, dW[0])
    moved = features + epsilon * problem.psi @ dW[0]
    return {"two terms": linear + bend, "without the second": linear, "features": moved}


def _update_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem, moved = setting.problem, np.add(*_moves(setting))
    slopes = problem.phi + epsilon * problem.psi @ moved[0]
    return {"outputs": _polynomial(problem, epsilon, moved), "slopes": slopes}


def _step_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    """One step from random weights, with the dressed and with the bare meta kernel."""
    problem, W = setting.problem, jnp.asarray(_moves(setting)[0])
    eta, n, model = problem.step(setting.edge), len(problem.y), problem.model(epsilon)
    A, D, found = problem.train, problem.everywhere, {}
    z = np.asarray(model(W, D))
    e = z[:n] - problem.y
    k = np.asarray(model.effective_kernel(W, D, A))
    bent = epsilon * problem.psi @ (np.asarray(model.effective_features(W, A))[0].T @ e[:, 0])
    for kind, w, last in (("dressed", W[0], eta**2 * bent @ bent[:n].T), ("bare", None, 0.0)):
        mu, mu_back = model.meta_kernel(D, A, A, weights=w), model.meta_kernel(A, D, A, weights=w)
        found[f"{kind} outputs"] = z + output_step(k, mu, e, eta)
        found[f"{kind} kernel"] = k + kernel_step(mu, mu_back, e, eta) + last
    return found


def _step_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem, (W, _) = setting.problem, _moves(setting)
    after, _ = quadratic.step_weights(problem, epsilon, W, problem.step(setting.edge))
    features = problem.phi + epsilon * problem.psi @ after[0]
    kernel = (features @ features[: len(problem.y)].T)[None]
    return {"outputs": _polynomial(problem, epsilon, after)[:, None], "kernel": kernel}


_STEPS = 400


def _trajectory_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem = setting.problem
    descent = GradientDescent(problem.step(setting.edge), _STEPS)
    run = lambda e: dual_descent(*problem.parts(e), problem.y, descent).test
    return {"dual dynamics": run(epsilon), "fixed kernel": run(0.0)}


def _trajectory_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem = setting.problem
    eta, W, path = problem.step(setting.edge), np.zeros((1, setting.features)), []
    for _ in range(_STEPS + 1):
        path.append(_polynomial(problem, epsilon, W)[:, None])
        W, _ = quadratic.step_weights(problem, epsilon, W, eta)
    return {"outputs": np.array(path)}


_ROW_SPACE, _SHORTEST = DirectOptimization(), DirectOptimization("minimum-norm")
_ALGORITHMS = {
    "gradient descent": lambda problem, edge: problem.descent(edge),
    "gradient flow": lambda problem, edge: GradientFlow(),
    "direct optimisation": lambda problem, edge: _ROW_SPACE,
    "minimum norm": lambda problem, edge: _SHORTEST,
}


def _kernel_theory(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem = setting.problem
    n = len(problem.y)
    q = np.linalg.solve(problem.k[:n, :n], problem.y)
    mu = DenseMetaKernel(problem.mu(epsilon)[:, :, :n])
    kernel = np.asarray(trained_kernel(problem.k, mu, mu, q).effective[0])
    return {f"k^E after {name}": kernel for name in _ALGORITHMS} | {"k itself": problem.k}


def _kernel_measure(setting: Orders, epsilon: float) -> dict[str, np.ndarray]:
    problem, found = setting.problem, {}
    for name, algorithm in _ALGORITHMS.items():
        W = quadratic.trained_weights(problem, epsilon, algorithm(problem, setting.edge))
        features = problem.phi + epsilon * problem.psi @ np.asarray(W)[0]
        found[name] = features @ features.T
    return found


CLAIMS = (
    order_claim(
        _update_theory,
        _update_measure,
        (Curve("two terms", None), Curve("without the second", 1), Curve("features", None, "slopes")),
        id="quad-feature-update",
        title="a change of the weights changes outputs in two terms and features in one, without remainder",
        statement="""z(W + dW) = z + phi^E dW + eps/2 dW psi dW and phi^E(W + dW) = phi^E + eps psi dW
        hold exactly, for symmetric psi: the features of a quadratic model evolve like the outputs of a
        linear one.""",
        source=f"{_SOURCE} (the update of the features in full)",
        wrong={"two terms": off_by(1), "features": off_by(2)},
    ),
    order_claim(
        _step_theory,
        _step_measure,
        (Curve("dressed outputs", None), Curve("bare outputs", 2)),
        id="dual-z-update",
        title="one step of the outputs in sample space",
        statement="""One step of gradient descent changes the outputs by -eta k^E e + eta^2/2 mu^E e e,
        exactly; with the bare mu in place of the dressed mu^E what is dropped is of second order in
        epsilon.""",
        source=f"{_SOURCE}, dual sample space (the dots are the dressing of mu)",
        wrong={"dressed outputs": off_by(2), "bare outputs": off_by(1)},
    ),
    order_claim(
        _step_theory,
        _step_measure,
        (Curve("dressed kernel", None, "kernel"), Curve("bare kernel", 2, "kernel")),
        id="dual-kE-update",
        title="one step of the effective kernel in sample space",
        statement="""One step changes the effective kernel by -eta (mu^E_12 e + mu^E_21 e) + eta^2 eps^2
        (psi_1 g)(psi_2 g) with g the gradient, exactly; with the bare mu and without the last term what is
        dropped is of second order in epsilon.""",
        source=f"{_SOURCE}, dual sample space",
        wrong={"bare kernel": off_by(1)},
    ),
    order_claim(
        _trajectory_theory,
        _trajectory_measure,
        (Curve("dual dynamics", 2), Curve("fixed kernel", 1)),
        id="dual-trajectory",
        title="outputs and kernel without weights follow gradient descent up to epsilon^2 at all times",
        statement="""Iterating both truncated steps from zero follows gradient descent on the weights with an
        error of second order in epsilon over all steps together; a fixed kernel is off by first order.""",
        source=f"{_SOURCE}, coupled difference equations",
        quick=Orders(0.01, 3, edge=1.0),
        full=Orders(0.02, 5, edge=1.0),
        wrong={"dual dynamics": off_by(1)},
    ),
    order_claim(
        _kernel_theory,
        _kernel_measure,
        (
            *(Curve(f"k^E after {name}", 2, name) for name in _ALGORITHMS),
            Curve("k itself", 1, "gradient descent"),
        ),
        id="kE-trained",
        title="the trained kernel is the same for every algorithm that starts at zero",
        statement="""At the end of training k^E_12 = k_12 + (mu_12 + mu_21) k^(-1) y up to second order in
        epsilon, for gradient descent, gradient flow, direct optimisation and the shortest weights alike.""",
        source=f"{_SOURCE}, representation learning (with the label that the formula drops)",
        wrong={"k^E after minimum norm": off_by(1)},
    ),
)
