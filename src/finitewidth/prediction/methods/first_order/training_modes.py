"""The training kernel in its eigenbasis, with everything that the corrections to training are made of."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

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

    t: Float[np.ndarray, " k"]
    U: Float[np.ndarray, "train k"]
    Y: Float[np.ndarray, "k out"]
    K: Float[np.ndarray, "p p"]
    Theta: Float[np.ndarray, "p p"]
    algorithm: SpectralAlgorithm
    ridge: float = 0.0

    @classmethod
    def of(
        cls,
        K: Float[np.ndarray, "p p"],
        Theta: Float[np.ndarray, "p p"],
        y: Float[np.ndarray, "train out"],
        algorithm: SpectralAlgorithm,
        ridge: float = 0.0,
    ) -> "TrainingModes":
        """Diagonalise the training block and make the algorithm's open choices."""
        train = len(y)
        t, U = np.linalg.eigh(Theta[:train, :train])
        t = np.maximum(t, 0.0) + ridge
        return cls(t, U, U.T @ y, K, Theta, algorithm.resolved(float(t[-1])), ridge)

    @property
    def train(self) -> int:
        """Number of training points."""
        return len(self.t)

    @property
    def Kt(self) -> Float[np.ndarray, "k k"]:
        """Covariance of the initial outputs in the eigenbasis."""
        return self.U.T @ self.K[: self.train, : self.train] @ self.U

    @property
    def Theta_modes(self) -> Float[np.ndarray, "p k"]:
        """Kernel between every point and every mode."""
        return self.Theta[:, : self.train] @ self.U

    @property
    def gain(self) -> Float[np.ndarray, " k"]:
        """What training learns of every mode, per unit of kernel: 1/t at its end."""
        return np.asarray(self.algorithm.gain(self.t))

    @property
    def unlearnt(self) -> Float[np.ndarray, "test p"]:
        """What training leaves of a function of all points, at the test points."""
        bar = np.eye(len(self.K))[self.train :]
        bar[:, : self.train] -= (self.Theta_modes[self.train :] * self.gain) @ self.U.T
        return bar

    def weights(self) -> SourceWeights:
        """Weights of all sources, in all modes."""
        return source_weights(self.t, self.algorithm, self.ridge)

    def smoother(self, weights: SourceWeights) -> Float[np.ndarray, "p train"]:
        """M: what the labels add to the outputs, at every point."""
        return (self.Theta_modes * weights.h[0]) @ self.U.T

    def delivered(self, sources: Float[np.ndarray, "start p *rest"]) -> Float[np.ndarray, "p *rest"]:
        """What sources at every point and start make of the trained outputs.

        A source on the training set is unlearnt by the rest of training, and that reaches every point.
        """
        on_modes = np.einsum("sa...,aq->sq...", sources[:, : self.train], self.U)
        if self.algorithm.converged:
            unlearnt = np.einsum("pq,q,q...->p...", self.Theta_modes, 1 / self.t, on_modes[0])
            return sources[0] - unlearnt
        diagonal = np.stack([on_modes[1 + q, q] for q in range(self.train)])
        rate = self.algorithm.clock().rate
        return sources[0] - rate * np.einsum("pq,q...->p...", self.Theta_modes, diagonal)
