import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.selection.certificates import (
    ConvergenceCertificate,
    LazyTraining,
    convergence_certificate,
    steps_to_loss,
)
from tolerances import assert_close

NET = fw.MLP((1, 1), "relu", 0.1, 2.0)


def test_contraction_is_what_descent_does_to_the_worst_mode():
    certificate = ConvergenceCertificate(0.5, 4.0, 0.0)
    eigenvalues = np.array([0.5, 1.0, 4.0])
    for eta in (0.2, certificate.best_step, 0.49):
        measured = np.abs(1 - eta * eigenvalues).max()
        assert_close(certificate.contraction(eta), measured)
    assert_close(certificate.contraction(certificate.best_step), 7 / 9)
    assert certificate.largest_step == 0.5
    assert certificate.condition_number == 8


def test_guaranteed_steps_are_enough_and_one_less_is_not_for_the_worst_start(rng):
    root = rng.normal(size=(5, 8))
    kernel = root @ root.T
    certificate = convergence_certificate(kernel)
    eta = 0.9 * certificate.best_step
    steps = certificate.steps(2.0, 1e-3, eta)
    residual = 2 * np.linalg.eigh(kernel)[1][:, 0]
    losses = []
    for _ in range(int(steps)):
        residual = residual - eta * kernel @ residual
        losses.append(0.5 * residual @ residual)
    assert losses[-1] <= 1e-3 < losses[-2]
    other = rng.normal(size=5)
    other *= 2 / np.linalg.norm(other)
    for _ in range(int(steps)):
        other = other - eta * kernel @ other
    assert 0.5 * other @ other <= 1e-3
    assert certificate.steps(1.0, 2.0) == 0


def test_positive_definite_only_beyond_rounding(rng):
    x = rng.normal(size=(6, 4))
    assert convergence_certificate(fw.kernels(NET, x).ntk).positive_definite
    x[5] = x[0]
    singular = convergence_certificate(fw.kernels(NET, x).ntk)
    assert not singular.positive_definite
    assert math.isinf(singular.condition_number)
    assert math.isinf(singular.steps(1.0, 0.1))


def test_positive_definite_only_beyond_the_accuracy_of_a_series(rng):
    """Without biases an odd activation cannot tell opposite points apart."""
    x = rng.normal(size=(6, 4))
    net = fw.MLP((1, 1), "tanh", C_b=0.0, C_W=1.0, lambda_b=0.0)
    assert convergence_certificate(fw.kernels(net, x).ntk, accuracy=1e-8).positive_definite
    x[5] = -x[0]
    assert not convergence_certificate(fw.kernels(net, x).ntk, accuracy=1e-8).positive_definite


@pytest.mark.parametrize("edge", [0.5, 1.0, 1.9])
def test_exact_steps_to_a_loss(rng, edge):
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    problem = fw.TrainingProblem.of(NET, x, y, x[:1])
    certificate = convergence_certificate(problem.train.ntk)
    algorithm = fw.GradientDescent(edge / certificate.largest)
    target = 0.02
    steps = steps_to_loss(problem, target, algorithm)
    losses = fw.loss_curves(problem, algorithm, [steps - 1, steps]).train
    assert losses[1] <= target < losses[0]
    start = fw.loss_curves(problem, algorithm, [0]).train[0]
    assert steps <= certificate.steps(start, target, algorithm.eta)
    assert steps_to_loss(problem, 2 * start, algorithm) == 0
    assert math.isinf(steps_to_loss(problem, 1e-12, algorithm, most=4))


def test_lazy_training_theorem_on_a_real_network(rng):
    """tanh, output weights +-1 kept fixed, unit inputs; gradient flow by small steps."""
    m, n = 4, 400
    x = rng.normal(size=(m, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = jnp.asarray(rng.normal(size=m))
    v = jnp.asarray(rng.choice([-1.0, 1.0], size=n))
    start = jnp.asarray(rng.normal(size=(n, 5)))

    def outputs(w):
        return jnp.tanh(x @ w.T) @ v / math.sqrt(n)

    def kernel(w):
        J = jax.jacobian(outputs)(w).reshape(m, -1)
        return J @ J.T

    loss = jax.jit(jax.value_and_grad(lambda w: jnp.sum((outputs(w) - y) ** 2) / (2 * m)))
    K = np.asarray(kernel(start))
    theorem = LazyTraining(m, float(np.linalg.eigvalsh(K)[0]), float(loss(start)[0]))
    w, step, losses, times = start, 0.2, [], []
    for i in range(1500):
        w = w - step * loss(w)[1]
        if i % 100 == 99:
            losses.append(float(loss(w)[0]))
            times.append(step * (i + 1))
    moved = float(jnp.linalg.norm(w - start, axis=1).max())
    change = np.linalg.norm(np.asarray(kernel(w)) - K, 2)
    assert 0 < moved <= theorem.movement(n)
    assert 0 < change <= theorem.kernel_change(moved)
    assert (np.array(losses) <= theorem.loss(np.array(times))).all()
    assert_close(theorem.movement(theorem.width), theorem.allowed_movement)
    assert_close(theorem.kernel_change(theorem.allowed_movement), theorem.smallest / 2)
