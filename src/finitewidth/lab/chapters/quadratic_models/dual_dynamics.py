"""Quadratic models: exact identities, and the dynamics of outputs and kernel in sample space."""

import jax.numpy as jnp
import numpy as np

from finitewidth.dynamics.algorithms import DirectOptimization, GradientDescent, GradientFlow
from finitewidth.lab.framework import ROBERTS
from finitewidth.lab.instruments import quadratic
from finitewidth.lab.instruments.quadratic import Problem
from finitewidth.lab.shapes.orders import Curve, Orders, off_by, order_claim
from finitewidth.models.meta_kernel import DenseMetaKernel
from finitewidth.nearly_kernel_methods.dual import dual_descent, kernel_step, output_step
from finitewidth.nearly_kernel_methods.representation import trained_kernel

_SOURCE = f"{ROBERTS}, quadratic models"


def _moves(setting: Orders) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the size of fitted ones, and a change of them."""
    W, dW = quadratic.random_weights(setting.problem, setting.rng(1), 2)
    return W, dW


def _polynomial(problem: Problem, epsilon: float, w: np.ndarray) -> np.ndarray:
    """Outputs of the model, written out."""
    return problem.phi @ w[0] + epsilon / 2 * np.einsum("j,njk,k->n", w[0], problem.psi, w[0])


def _update_theory(setting: Orders) -> dict[str, np.ndarray]:
    problem, (W, dW) = setting.problem, _moves(setting)
    found = {"two terms": [], "without the second": [], "features": []}
    for epsilon in setting.epsilons:
        features = problem.model(epsilon).effective_features(jnp.asarray(W), problem.everywhere)[0]
        linear = _polynomial(problem, epsilon, W) + np.asarray(features) @ dW[0]
        bend = epsilon / 2 * np.einsum("j,njk,k->n", dW[0], problem.psi, dW[0])
        found["two terms"].append(linear + bend)
        found["without the second"].append(linear)
        found["features"].append(np.asarray(features) + epsilon * problem.psi @ dW[0])
    return {name: np.array(values) for name, values in found.items()}


def _update_measure(setting: Orders, key) -> dict[str, np.ndarray]:
    problem, (W, dW) = setting.problem, _moves(setting)
    moved = W + dW
    return {
        "outputs": np.array([_polynomial(problem, e, moved) for e in setting.epsilons]),
        "slopes": np.array([problem.phi + e * problem.psi @ moved[0] for e in setting.epsilons]),
    }


def _step_theory(setting: Orders) -> dict[str, np.ndarray]:
    """One step from random weights, with the dressed and with the bare meta kernel."""
    problem, (W, _) = setting.problem, _moves(setting)
    eta, n = problem.step(setting.edge), len(problem.y)
    names = ("dressed outputs", "bare outputs", "dressed kernel", "bare kernel")
    found = {name: [] for name in names}
    A, D = problem.train, problem.everywhere
    for epsilon in setting.epsilons:
        model = problem.model(epsilon)
        z = np.asarray(model(jnp.asarray(W), D))
        e = z[:n] - problem.y
        k = np.asarray(model.effective_kernel(jnp.asarray(W), D, A))
        pushed = np.asarray(model.effective_features(jnp.asarray(W), A))[0].T @ e[:, 0]
        bent = epsilon * problem.psi @ pushed
        for kind, w in (("dressed", jnp.asarray(W[0])), ("bare", None)):
            mu, mu_back = model.meta_kernel(D, A, A, weights=w), model.meta_kernel(A, D, A, weights=w)
            last = eta**2 * bent @ bent[:n].T if kind == "dressed" else 0.0
            found[f"{kind} outputs"].append(z + output_step(k, mu, e, eta))
            found[f"{kind} kernel"].append(k + kernel_step(mu, mu_back, e, eta) + last)
    return {name: np.array(values) for name, values in found.items()}


def _step_measure(setting: Orders, key) -> dict[str, np.ndarray]:
    problem, (W, _) = setting.problem, _moves(setting)
    eta, n = problem.step(setting.edge), len(problem.y)
    outputs, kernels = [], []
    for epsilon in setting.epsilons:
        after, _ = quadratic.step_weights(problem, epsilon, W, eta)
        outputs.append(_polynomial(problem, epsilon, after)[:, None])
        features = problem.phi + epsilon * problem.psi @ after[0]
        kernels.append((features @ features[:n].T)[None])
    return {"outputs": np.array(outputs), "kernel": np.array(kernels)}


def _trajectory_theory(setting: Orders) -> dict[str, np.ndarray]:
    problem = setting.problem
    descent = GradientDescent(problem.step(setting.edge), _STEPS)
    runs = [dual_descent(*problem.parts(e), problem.y, descent).test for e in setting.epsilons]
    fixed = dual_descent(*problem.parts(0.0), problem.y, descent).test
    return {"dual dynamics": np.array(runs), "fixed kernel": np.array([fixed] * len(runs))}


_STEPS = 400


def _trajectory_measure(setting: Orders, key) -> dict[str, np.ndarray]:
    problem = setting.problem
    eta = problem.step(setting.edge)
    runs = []
    for epsilon in setting.epsilons:
        W, path = np.zeros((1, setting.features)), []
        for _ in range(_STEPS + 1):
            path.append(_polynomial(problem, epsilon, W)[:, None])
            W, _ = quadratic.step_weights(problem, epsilon, W, eta)
        runs.append(path)
    return {"outputs": np.array(runs)}


_ROW_SPACE, _SHORTEST = DirectOptimization(), DirectOptimization("minimum-norm")
_ALGORITHMS = {
    "gradient descent": lambda problem, edge: problem.descent(edge),
    "gradient flow": lambda problem, edge: GradientFlow(),
    "direct optimisation": lambda problem, edge: _ROW_SPACE,
    "minimum norm": lambda problem, edge: _SHORTEST,
}


def _kernel_theory(setting: Orders) -> dict[str, np.ndarray]:
    problem = setting.problem
    n = len(problem.y)
    q = np.linalg.solve(problem.k[:n, :n], problem.y)
    mus = [DenseMetaKernel(problem.mu(e)[:, :, :n]) for e in setting.epsilons]
    kernel = np.array([trained_kernel(problem.k, mu, mu, q).effective[0] for mu in mus])
    fixed = np.array([problem.k] * len(mus))
    return {f"k^E after {name}": kernel for name in _ALGORITHMS} | {"k itself": fixed}


def _kernel_measure(setting: Orders, key) -> dict[str, np.ndarray]:
    problem, found = setting.problem, {}
    for name, algorithm in _ALGORITHMS.items():
        kernels = []
        for epsilon in setting.epsilons:
            W = quadratic.trained_weights(problem, epsilon, algorithm(problem, setting.edge))
            features = problem.phi + epsilon * problem.psi @ np.asarray(W)[0]
            kernels.append(features @ features.T)
        found[name] = np.array(kernels)
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
