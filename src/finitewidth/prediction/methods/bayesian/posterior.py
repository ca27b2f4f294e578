r"""Bayesian inference with the prior of an infinitely wide network: the NNGP.

With observation noise $s^2$ and $C = K_{AA} + s^2$, the posterior mean is $K_{BA}C^{-1}y$, its covariance
$K_{BB}-K_{BA}C^{-1}K_{AB}$, and the log evidence $-\frac12 y^T C^{-1} y - \frac12\log\det C -
\frac N2\log 2\pi$ for every output.
"""

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from finitewidth._base.checks import is_number
from finitewidth._base.either import traced
from finitewidth._base.linalg.cholesky import SingularKernelError, factorise, suggested_ridge
from finitewidth._base.linalg.followed_cholesky import followed_cholesky
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import BayesianInference
from finitewidth.prediction.law.numerical_error import check_rounding, numerical_error
from finitewidth.prediction.methods.bayesian.scale_mixture import scale_mixture
from finitewidth.prediction.problem.data import as_targets, first_duplicate
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import kernels
from finitewidth.statistics.wide.rounding import Rounding, kernel_rounding


def posterior(problem: TrainingProblem, inference: BayesianInference) -> TrainedDistribution:
    """Posterior mean and covariance of the noise-free outputs at the test points."""
    if inference.noise == 0:
        problem.refuse_duplicates("nngp", "noise")
    held = problem.train.nngp, problem.test_train.nngp, problem.test.nngp
    rounding = None
    if not traced(problem):
        rounding = kernel_rounding(problem.net, problem.x_train, problem.x_test).nngp
    return condition(*held, problem.y, inference.noise, rounding)


def condition(
    train: Float[Array, "train train"],
    test_train: Float[Array, "test train"],
    test: Float[Array, "test test"],
    y: Float[Array, "train out"],
    noise: float | int,
    rounding: Rounding | None,
) -> TrainedDistribution:
    """The Gaussian process of these covariances, given the labels; `rounding` says how exact they are."""
    if traced(train, test_train, test, y):
        lower = followed_cholesky(train + noise * jnp.eye(len(train), dtype=train.dtype))
        half = jax.scipy.linalg.solve_triangular(lower, test_train.T, lower=True)
        learnt = half.T @ jax.scipy.linalg.solve_triangular(lower, jnp.hstack([y, test_train.T]), lower=True)
        return TrainedDistribution(learnt[:, : y.shape[1]], test - learnt[:, y.shape[1] :])
    factor = factorise(train, noise, "the training NNGP kernel", "noise")
    half = factor.half_solve(test_train.T)
    mean = half.T @ factor.half_solve(y)
    law = TrainedDistribution(jnp.asarray(mean), test - half.T @ half)
    if rounding is None:
        return law
    held, smoother = (train, test_train, test), factor.solve(test_train.T).T
    error = numerical_error(held, rounding, held, rounding, smoother, factor.solve, y, mean)
    check_rounding(error, float(noise), mean.dtype == np.float32, "noise")
    return dataclasses.replace(law, numerical_error=error)


def evidence(
    net: Layer,
    x: ArrayLike,
    y: ArrayLike,
    noise: float | int | Float[Array, ""] = 0.0,
    *,
    width: Literal["infinite", "finite"] = "infinite",
) -> Float[Array, ""]:
    """Log evidence of the data under a random network.

    At infinite width differentiable in the network's C_b and C_W and in the noise; compare networks by it.

    Parameters
    ----------
    net
        The prior.
    x, y
        Training inputs (points, features) and targets (points,) or (points, outputs).
    noise
        Variance of the observation noise.
    width
        "finite" averages over the scales of the network's layers, as `BayesianInference(noise, "finite")`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> x = jax.random.normal(jax.random.key(0), (20, 2))
    >>> y = jnp.sin(2 * x[:, 0])
    >>> deep = fw.evidence(fw.MLP((1,) * 6, "relu"), x, y, noise=0.01)
    >>> shallow = fw.evidence(fw.MLP((1,), "relu"), x, y, noise=0.01)
    >>> bool(shallow > deep)
    True
    """
    if not isinstance(noise, Tracer) and not (is_number(noise) and noise >= 0):
        raise ValueError(f"noise must be a variance, zero or more, got {noise!r}.")
    x = as_inputs("x", x, net)
    y = as_targets(y, len(x), x.dtype, "y")
    if BayesianInference(width=width).width == "finite":
        mixture = scale_mixture(net, np.asarray(x), np.asarray(y, dtype=float), float(noise))
        return jnp.asarray(mixture.log_evidence)
    K = kernels(net, x).nngp
    lower, _ = factor = jax.scipy.linalg.cho_factor(K + noise * jnp.eye(len(K), dtype=K.dtype), lower=True)
    points, outputs = y.shape
    fit = jnp.sum(y * jax.scipy.linalg.cho_solve(factor, y))
    volume = 2 * jnp.sum(jnp.log(jnp.diag(lower)))
    log_evidence = -0.5 * (fit + outputs * (volume + points * math.log(2 * math.pi)))
    if not isinstance(log_evidence, Tracer):
        _refuse_singular(x, K, noise, log_evidence)
    return log_evidence


def _refuse_singular(x: Array, K: Array, noise: float | int | Array, log_evidence: Array) -> None:
    pair = first_duplicate(x) if noise == 0 else None
    if pair is None and bool(jnp.isfinite(log_evidence)):
        return
    who = f": points {pair[0]} and {pair[1]} of x are equal" if pair else " to rounding"
    raise SingularKernelError(
        f"the NNGP kernel is singular{who}, so the evidence is not defined at noise={float(noise):.1g}; "
        f"pass a larger noise, say {suggested_ridge(K):.1g}."
    )
