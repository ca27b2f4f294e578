"""The training kernel in its eigenbasis, with everything that the corrections to training are made of."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import added, einsum, holds_tracer, known, library
from finitewidth._base.linalg.separated_modes import separated_modes
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.methods.first_order.source_weights import SourceWeights, source_weights


class TrainingModes(NamedTuple):
    r"""$\Theta_{train}+r=U\,\mathrm{diag}(t)\,U^T$; all points are listed with the training points first.

    Attributes
    ----------
    t, U
        Eigenvalues, the ridge r included, and eigenvectors in columns.
    Y
        $U^Ty$.
    K, Theta
        Kernels of all points.
    algorithm
        With its choices made.
    ridge
        Strength r of the penalty on the distance from the start.
    """

    t: Float[AnyArray, " k"]
    U: Float[AnyArray, "train k"]
    Y: Float[AnyArray, "k out"]
    K: Float[AnyArray, "p p"]
    Theta: Float[AnyArray, "p p"]
    algorithm: SpectralAlgorithm
    ridge: float | Array = 0.0

    @classmethod
    def of(
        cls,
        K: Float[AnyArray, "p p"],
        Theta: Float[AnyArray, "p p"],
        y: Float[AnyArray, "train out"],
        algorithm: SpectralAlgorithm,
        ridge: float | Array = 0.0,
    ) -> "TrainingModes":
        """Diagonalise the training block and make the algorithm's open choices."""
        train = len(y)
        if holds_tracer(Theta, algorithm, ridge, y, K):
            t, U = separated_modes(jnp.asarray(Theta)[:train, :train])
            t = t + ridge
            return cls(t, U, U.T @ y, jnp.asarray(K), jnp.asarray(Theta), algorithm.resolved(t[-1]), ridge)
        t, U = np.linalg.eigh(Theta[:train, :train])
        t = np.maximum(t, 0.0) + ridge
        return cls(t, U, U.T @ y, K, Theta, algorithm.resolved(float(t[-1])), ridge)

    @property
    def train(self) -> int:
        """Number of training points."""
        return len(self.t)

    @property
    def Kt(self) -> Float[AnyArray, "k k"]:
        """Covariance of the initial outputs in the eigenbasis."""
        return self.U.T @ self.K[: self.train, : self.train] @ self.U

    @property
    def Theta_modes(self) -> Float[AnyArray, "p k"]:
        """Kernel between every point and every mode."""
        return self.Theta[:, : self.train] @ self.U

    @property
    def gain(self) -> Float[AnyArray, " k"]:
        """What training learns of every mode, per unit of kernel: 1/t at its end."""
        return known(self.algorithm.gain(self.t))

    @property
    def unlearnt(self) -> Float[AnyArray, "test p"]:
        """What training leaves of a function of all points, at the test points."""
        bar = np.eye(len(self.K))[self.train :]
        return added(bar, np.s_[:, : self.train], -((self.Theta_modes[self.train :] * self.gain) @ self.U.T))

    def weights(self) -> SourceWeights:
        """Weights of all sources, in all modes."""
        return source_weights(self.t, self.algorithm, self.ridge)

    def smoother(self, weights: SourceWeights) -> Float[AnyArray, "p train"]:
        """M: what the labels add to the outputs, at every point."""
        return (self.Theta_modes * weights.h[0]) @ self.U.T

    def delivered(self, sources: Float[AnyArray, "start p *rest"]) -> Float[AnyArray, "p *rest"]:
        """What sources at every point and start make of the trained outputs.

        A source on the training set is unlearnt by the rest of training, and that reaches every point.
        """
        on_modes = einsum("sa...,aq->sq...", sources[:, : self.train], self.U)
        if self.algorithm.converged:
            unlearnt = einsum("pq,q,q...->p...", self.Theta_modes, 1 / self.t, on_modes[0])
            return sources[0] - unlearnt
        diagonal = library(on_modes).stack([on_modes[1 + q, q] for q in range(self.train)])
        rate = self.algorithm.clock().rate
        return sources[0] - rate * einsum("pq,q...->p...", self.Theta_modes, diagonal)
