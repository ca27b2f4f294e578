"""Laws that have seen their training data and predict anywhere: factorised once, asked many times."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth._base.linalg.cholesky import Cholesky, factorise, symmetric_product
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.algorithms.kernel_descent import Filter, training_filter
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.infinite_width.ridge import choose_noise, choose_ridge
from finitewidth.prediction.problem.leave_one_out import LeftOut, posterior_left_out, trained_left_out
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.kernels import kernels

Strength = float | int | Literal["auto"]


@dataclass(frozen=True)
class FittedLaw(ABC):
    """Mean and covariance of networks of one kind, given their training data."""

    problem: TrainingProblem
    coefficients: Float[np.ndarray, "train out"]
    governed_by: ClassVar[Literal["ntk", "nngp"]]

    def mean(self, x: Float[AnyArray, "test ..."]) -> Float[np.ndarray, "test out"]:
        """Mean outputs at new inputs; cheap."""
        reach = kernels(self.problem.net, x, self.problem.x_train)
        return np.asarray(getattr(reach, self.governed_by)) @ self.coefficients

    @abstractmethod
    def distribution(self, x: Float[AnyArray, "test ..."]) -> TrainedDistribution:
        """Mean and covariance at new inputs."""

    @abstractmethod
    def left_out(self) -> LeftOut:
        """Predictions at each training point from all the others."""


@dataclass(frozen=True)
class TrainedLaw(FittedLaw):
    """Networks trained by gradient descent on every layer: the law governed by the NTK."""

    ridge: float | int
    training: Filter
    governed_by = "ntk"

    @classmethod
    def of(
        cls,
        net: Layer,
        x: Float[AnyArray, "train ..."],
        y: Float[AnyArray, "train out"],
        algorithm: SpectralAlgorithm,
        ridge: Strength,
        index: Int[np.ndarray, " train"] | None = None,
    ) -> "TrainedLaw":
        """Compute the training kernels and factorise them.

        ridge="auto" takes the one that predicts left-out training points best, of the classes `index` if
        given; before the end of training, which has the same effect, none.
        """
        problem = TrainingProblem.on_training_points(net, x, y)
        if ridge == "auto":
            ridge = choose_ridge(problem, algorithm, index).ridge if algorithm.converged else 0.0
        training = training_filter(problem.train.ntk, algorithm, ridge)
        return cls(problem, np.asarray(training.solve(y)), ridge, training)

    def distribution(self, x: Float[AnyArray, "test ..."]) -> TrainedDistribution:
        problem = self.problem.at(jnp.asarray(x))
        reach = problem.test_train
        smoother = np.asarray(self.training.solve(reach.ntk.T)).T
        spread = symmetric_product(smoother, np.asarray(problem.train.nngp), reach.nngp)
        return TrainedDistribution(reach.ntk @ self.coefficients, problem.test.nngp + spread)

    def left_out(self) -> LeftOut:
        if not isinstance(self.training, Cholesky):
            raise ValueError("points can be left out without retraining only at the end of training.")
        return trained_left_out(self.training, self.problem.train.nngp, self.problem.y)


@dataclass(frozen=True)
class Posterior(FittedLaw):
    """Random networks conditioned on the labels: the law governed by the NNGP kernel."""

    noise: float | int
    factor: Cholesky
    governed_by = "nngp"

    @classmethod
    def of(
        cls,
        net: Layer,
        x: Float[AnyArray, "train ..."],
        y: Float[AnyArray, "train out"],
        noise: Strength,
        index: Int[np.ndarray, " train"] | None = None,
    ) -> "Posterior":
        """Compute the training kernel and factorise it; noise="auto" is chosen like a ridge."""
        problem = TrainingProblem.on_training_points(net, x, y)
        kernel = problem.train.nngp
        if noise == "auto":
            noise = choose_noise(kernel, y, index)
        factor = factorise(kernel, noise, "the training NNGP kernel")
        return cls(problem, factor.solve(y), noise, factor)

    def distribution(self, x: Float[AnyArray, "test ..."]) -> TrainedDistribution:
        problem = self.problem.at(jnp.asarray(x))
        reach = problem.test_train.nngp
        half = self.factor.half_solve(reach.T)
        return TrainedDistribution(reach @ self.coefficients, problem.test.nngp - jnp.asarray(half.T @ half))

    def left_out(self) -> LeftOut:
        return posterior_left_out(self.factor, self.noise, self.problem.y)
