"""Laws that have seen their training data and predict anywhere: factorised once, asked many times."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from finitewidth.architecture import MLP
from finitewidth.arrays import AnyArray
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.dynamics.kernel_descent import SpectralFilter, training_filter
from finitewidth.linalg.cholesky import Cholesky, factorise, symmetric_product
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.held_out import choose_noise, choose_ridge
from finitewidth.prediction.infinite_width import TrainingProblem
from finitewidth.prediction.leave_one_out import LeftOut, posterior_left_out, trained_left_out
from finitewidth.statistics.kernels import kernels

Strength = float | int | Literal["auto"]


class FittedLaw(ABC):
    """Mean and covariance of networks of one kind, given their training data."""

    @abstractmethod
    def mean(self, net: MLP, x: Float[AnyArray, "test d"]) -> Float[np.ndarray, "test out"]:
        """Mean outputs at new inputs; cheap."""

    @abstractmethod
    def distribution(self, net: MLP, x: Float[AnyArray, "test d"]) -> TrainedDistribution:
        """Mean and covariance at new inputs."""

    @abstractmethod
    def left_out(self) -> LeftOut:
        """Predictions at each training point from all the others."""


@dataclass(frozen=True)
class TrainedNetworks(FittedLaw):
    """Networks trained by gradient descent on every layer: the law governed by the NTK."""

    x: Float[AnyArray, "train d"]
    y: Float[AnyArray, "train out"]
    ridge: float | int
    nngp: Float[np.ndarray, "train train"]
    training: Cholesky | SpectralFilter
    coefficients: Float[np.ndarray, "train out"]

    @classmethod
    def of(
        cls,
        net: MLP,
        x: Float[AnyArray, "train d"],
        y: Float[AnyArray, "train out"],
        algorithm: SpectralAlgorithm,
        ridge: Strength,
        index: Int[np.ndarray, " train"] | None = None,
    ) -> "TrainedNetworks":
        """Compute the training kernels and factorise them.

        ridge="auto" takes the one that predicts left-out training points best, of the classes `index` if
        given; before the end of training, which has the same effect, none.
        """
        kernel = kernels(net, x)
        if ridge == "auto" and algorithm.converged:
            problem = TrainingProblem(net, jnp.asarray(x), jnp.asarray(y), jnp.asarray(x), *(kernel,) * 3)
            ridge = choose_ridge(problem, algorithm, index).ridge
        elif ridge == "auto":
            ridge = 0.0
        training = training_filter(kernel.ntk, algorithm, ridge)
        return cls(x, y, ridge, np.asarray(kernel.nngp), training, np.asarray(training.solve(y)))

    def mean(self, net: MLP, x: Float[AnyArray, "test d"]) -> Float[np.ndarray, "test out"]:
        return np.asarray(kernels(net, x, self.x).ntk) @ self.coefficients

    def distribution(self, net: MLP, x: Float[AnyArray, "test d"]) -> TrainedDistribution:
        reach, own = kernels(net, x, self.x), kernels(net, x)
        smoother = np.asarray(self.training.solve(reach.ntk.T)).T
        spread = symmetric_product(smoother, self.nngp, reach.nngp)
        return TrainedDistribution(reach.ntk @ self.coefficients, own.nngp + spread)

    def left_out(self) -> LeftOut:
        if not isinstance(self.training, Cholesky):
            raise ValueError("points can be left out without retraining only at the end of training.")
        return trained_left_out(self.training, self.nngp, self.y)


@dataclass(frozen=True)
class Posterior(FittedLaw):
    """Random networks conditioned on the labels: the law governed by the NNGP kernel."""

    x: Float[AnyArray, "train d"]
    y: Float[AnyArray, "train out"]
    noise: float | int
    factor: Cholesky
    coefficients: Float[np.ndarray, "train out"]

    @classmethod
    def of(
        cls,
        net: MLP,
        x: Float[AnyArray, "train d"],
        y: Float[AnyArray, "train out"],
        noise: Strength,
        index: Int[np.ndarray, " train"] | None = None,
    ) -> "Posterior":
        """Compute the training kernel and factorise it; noise="auto" is chosen like a ridge."""
        kernel = kernels(net, x).nngp
        if noise == "auto":
            noise = choose_noise(kernel, y, index)
        factor = factorise(kernel, noise, "the training NNGP kernel")
        return cls(x, y, noise, factor, factor.solve(y))

    def mean(self, net: MLP, x: Float[AnyArray, "test d"]) -> Float[np.ndarray, "test out"]:
        return np.asarray(kernels(net, x, self.x).nngp) @ self.coefficients

    def distribution(self, net: MLP, x: Float[AnyArray, "test d"]) -> TrainedDistribution:
        reach, own = kernels(net, x, self.x).nngp, kernels(net, x).nngp
        half = self.factor.half_solve(reach.T)
        return TrainedDistribution(reach @ self.coefficients, own - jnp.asarray(half.T @ half))

    def left_out(self) -> LeftOut:
        return posterior_left_out(self.factor, self.noise, self.y)
