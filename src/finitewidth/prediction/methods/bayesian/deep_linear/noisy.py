r"""Deep linear networks and labels with noise: one integral over the scale of the hidden layers.

Given $s=\prod_l\chi^2_{n_l}/n_l$ the labels are Gaussian, and in the basis of the singular vectors of the
inputs independent: mode i has variance $\tau d_i^2+\sigma^2$ with $\tau=S\,s/n_0$. Predictions are those of
ridge regression, averaged over the posterior of s. There may be more points than features.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth._base.checks import check_positive
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.methods.bayesian.deep_linear.design import Design, as_matrix, design
from finitewidth.prediction.methods.bayesian.deep_linear.scales import ScaleLattice, ScaleNodes
from finitewidth.statistics.exact.deep_linear import ChiSquareProduct, linear_network
from finitewidth.statistics.wide.inputs import ArrayLike


class NoisyLinearPosterior(eqx.Module):
    """The posterior of deep linear networks, of their outputs without the noise.

    Attributes
    ----------
    log_evidence
        Log density of the labels under the prior.
    prior_variance, noise
        S, and the variance of the noise.
    scales
        The posterior of s as nodes with weights.
    data
        Inputs and labels in the basis of the inputs.
    """

    log_evidence: float = eqx.field(static=True)
    prior_variance: float = eqx.field(static=True)
    noise: float | int = eqx.field(static=True)
    scales: ScaleNodes
    data: Design

    @property
    def weights(self) -> Float[np.ndarray, " features"]:
        """The posterior mean of theta."""
        return self.data.basis @ (self.scales.weights @ self._shrunk())

    def mean(self, x: ArrayLike) -> Float[np.ndarray, " test"]:
        """The posterior mean of the outputs at inputs (test, features)."""
        moved, _ = self.data.on_modes(as_matrix("x", x))
        return moved @ self.weights + self.data.offset

    def covariance(self, x: ArrayLike) -> Float[np.ndarray, "test test"]:
        """The posterior covariance of the outputs."""
        moved, along = self.data.on_modes(as_matrix("x", x))
        tau, weights = self._tau()[:, None], self.scales.weights
        learnt = weights @ (tau * (tau * self.data.d**2) / (tau * self.data.d**2 + self.noise))
        spread = (weights[:, None] * (self._shrunk() - weights @ self._shrunk())).T @ self._shrunk()
        own = float(weights @ tau[:, 0]) * moved @ moved.T
        constant = self.noise / (self.data.points + 1) if self.data.constant else 0.0
        return own - (along * learnt) @ along.T + along @ spread @ along.T + constant

    def std(self, x: ArrayLike) -> Float[np.ndarray, " test"]:
        """The posterior standard deviation of each output."""
        return np.sqrt(np.maximum(np.diag(self.covariance(x)), 0.0))

    def _tau(self) -> Float[np.ndarray, " nodes"]:
        return self.prior_variance / self.data.features * self.scales.s

    def _shrunk(self) -> Float[np.ndarray, "nodes rank"]:
        """The mean of theta along the modes, at every node."""
        tau, d = self._tau()[:, None], self.data.d
        return tau * d * self.data.labels / (tau * d**2 + self.noise)


def noisy_posterior(
    net: Layer, x: ArrayLike, y: ArrayLike, noise: float | int, *, constant: bool = False
) -> NoisyLinearPosterior:
    """Condition a deep linear network on labels with Gaussian noise.

    Parameters
    ----------
    net
        Linear layers without biases and with one output; the product of its C_W is the prior variance S.
    x, y
        Inputs (points, features), any number of points, and labels (points,).
    noise
        Variance of the noise, positive; `interpolate` is for labels without noise.
    constant
        Whether the labels have a constant of their own, free of any prior.
    """
    check_positive("noise", noise)
    net = linear_network(net)
    S, data = float(np.prod(np.asarray(net.C_W))), design(x, y, constant=constant)
    return with_noise(S, ScaleLattice(ChiSquareProduct(net.hidden), data.points), data, float(noise))


def with_noise(S: float, lattice: ScaleLattice, data: Design, noise: float | int) -> NoisyLinearPosterior:
    """The posterior under a prior variance S and a noise."""
    scales = lattice.nodes(lambda log_s: log_likelihood(S / data.features * np.exp(log_s), data, noise))
    return NoisyLinearPosterior(scales.log_total, S, noise, scales, data)


def log_likelihood(
    tau: Float[np.ndarray, " nodes"], data: Design, noise: float
) -> Float[np.ndarray, " nodes"]:
    """Log density of the labels given the variance tau of every weight."""
    grown = tau[:, None] * data.d**2 + noise
    beyond = data.points - len(data.d)
    fit = np.sum(data.labels**2 / grown, axis=1) + data.rest / noise
    volume = np.sum(np.log(grown), axis=1) + beyond * np.log(noise) + data.points * np.log(2 * np.pi)
    return -0.5 * (fit + volume)
