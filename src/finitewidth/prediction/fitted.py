"""Laws that have seen their training data and predict anywhere: factorised once, asked many times."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.architecture import MLP
from finitewidth.arrays import AnyArray
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.dynamics.cholesky import Cholesky, factorise, symmetric_product
from finitewidth.dynamics.kernel_descent import SpectralFilter, training_filter
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.leave_one_out import LeftOut, posterior_left_out, trained_left_out
from finitewidth.statistics.kernels import kernels


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
        ridge: float | int,
    ) -> "TrainedNetworks":
        """Compute the training kernels and factorise them."""
        kernel = kernels(net, x)
        training = training_filter(kernel.ntk, algorithm, ridge)
        return cls(x, y, np.asarray(kernel.nngp), training, np.asarray(training.solve(y)))

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
        cls, net: MLP, x: Float[AnyArray, "train d"], y: Float[AnyArray, "train out"], noise: float | int
    ) -> "Posterior":
        """Compute the training kernel and factorise it."""
        if not noise >= 0:
            raise ValueError(f"noise must be a variance, zero or more, got {noise}.")
        factor = factorise(kernels(net, x).nngp, noise, "the training NNGP kernel")
        return cls(x, y, noise, factor, factor.solve(y))

    def mean(self, net: MLP, x: Float[AnyArray, "test d"]) -> Float[np.ndarray, "test out"]:
        return np.asarray(kernels(net, x, self.x).nngp) @ self.coefficients

    def distribution(self, net: MLP, x: Float[AnyArray, "test d"]) -> TrainedDistribution:
        reach, own = kernels(net, x, self.x).nngp, kernels(net, x).nngp
        half = self.factor.half_solve(reach.T)
        return TrainedDistribution(reach @ self.coefficients, own - jnp.asarray(half.T @ half))

    def left_out(self) -> LeftOut:
        return posterior_left_out(self.factor, self.noise, self.y)
