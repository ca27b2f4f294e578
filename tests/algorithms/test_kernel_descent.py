import math

import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth._base.linalg.cholesky import SingularKernelError
from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.algorithms.kernel_descent import Spectrum, smoother
from tolerances import assert_close


@pytest.fixture
def features(rng):
    """Features of six training and three test points of a linear model with 14 parameters."""
    return rng.normal(size=(6, 14)) / 3, rng.normal(size=(3, 14)) / 3


def descend(train, y, w, eta, steps, ridge=0.0):
    """Gradient descent on 1/2 |train w - y|^2 + ridge/2 |w - w(0)|^2."""
    start = w
    for _ in range(steps):
        w = w - eta * (train.T @ (train @ w - y) + ridge * (w - start))
    return w


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(("edge", "steps"), [(0.4, 0), (0.4, 1), (0.9, 25), (1.9, 300), (1.2, 20_000)])
def test_closed_form_is_gradient_descent_on_the_parameters(rng, features, edge, steps, ridge):
    train, test = features
    y, w = rng.normal(size=(6, 2)), rng.normal(size=(14, 2))
    kernel = jnp.asarray(train @ train.T)
    eta = edge / (largest_eigenvalue(kernel) + ridge)
    trained = descend(train, y, w, eta, steps, ridge)
    M = smoother(kernel, jnp.asarray(test @ train.T), GradientDescent(eta, steps), ridge)
    assert_close(test @ w + M @ (y - train @ w), test @ trained)
    U = Spectrum.of(kernel).residual_map(GradientDescent(eta, steps), ridge)
    assert_close(y + U @ (train @ w - y), train @ trained)


def test_flow_solves_its_differential_equation(rng, features):
    train, test = features
    kernel, reach = jnp.asarray(train @ train.T), jnp.asarray(test @ train.T)
    h, t = 1e-4, 0.7
    slope = (smoother(kernel, reach, GradientFlow(t + h)) - smoother(kernel, reach, GradientFlow(t - h))) / (
        2 * h
    )
    assert_close(slope, reach @ Spectrum.of(kernel).residual_map(GradientFlow(t)), 1e-7)


@pytest.mark.parametrize(
    "algorithm", [GradientDescent(), GradientFlow(), DirectOptimization(), GradientFlow(1e8)]
)
def test_the_end_of_training_is_kernel_regression(features, algorithm):
    train, test = features
    kernel, reach = train @ train.T, test @ train.T
    M = smoother(jnp.asarray(kernel), jnp.asarray(reach), algorithm)
    assert_close(M, reach @ np.linalg.inv(kernel), 1e-11)


def test_the_end_does_not_depend_on_the_step(features):
    kernel, reach = (jnp.asarray(f @ features[0].T) for f in features)
    top = largest_eigenvalue(kernel)
    ends = [smoother(kernel, reach, GradientDescent(edge / top, 10**7)) for edge in (0.3, 1.3, 1.99)]
    assert_close(ends[1], ends[0], 1e-11)
    assert_close(ends[2], ends[0], 1e-11)


@pytest.mark.parametrize("steps", [math.inf, 10])
def test_a_step_above_the_limit_is_refused_with_the_ridge_counted(features, steps):
    kernel, reach = (jnp.asarray(f @ features[0].T) for f in features)
    limit = 2 / (largest_eigenvalue(kernel) + 0.5)
    smoother(kernel, reach, GradientDescent(0.999 * limit, steps), ridge=0.5)
    with pytest.raises(ValueError, match=f"2/lambda_max={limit:.4g}"):
        smoother(kernel, reach, GradientDescent(1.001 * limit, steps), ridge=0.5)


def test_more_points_than_features_have_no_end_but_any_time(rng):
    train = rng.normal(size=(9, 4))
    kernel = jnp.asarray(train @ train.T)
    with pytest.raises(SingularKernelError, match="the training NTK is singular"):
        smoother(kernel, kernel, GradientFlow())
    fitted = smoother(kernel, kernel, GradientFlow(1e3))
    assert_close(fitted, train @ np.linalg.pinv(train), 1e-10)


def test_negative_ridge_is_refused(features):
    kernel = jnp.asarray(features[0] @ features[0].T)
    with pytest.raises(ValueError, match="ridge must be zero or more, and finite, got -1"):
        smoother(kernel, kernel, GradientFlow(), -1.0)


def test_lanczos_finds_the_top_of_a_large_kernel(rng):
    x = rng.normal(size=(400, 30))
    kernel = x @ x.T
    assert_close(largest_eigenvalue(jnp.asarray(kernel)), np.linalg.eigvalsh(kernel)[-1])
