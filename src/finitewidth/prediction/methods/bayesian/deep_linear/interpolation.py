r"""Deep linear networks that fit the labels exactly: their evidence and their posterior.

Given $s=\prod_{l=1}^L\chi^2_{n_l}/n_l$ of the hidden layers the weights of $f(x)=\theta\cdot x$ are Gaussian
with variance $S\,s/n_0$ each. Conditioning on $X\theta=y$ leaves the interpolant $\theta_*$ of least length,
Gaussian directions across the data, and for s the law of the prior times
$s^{-P/2}e^{-c/s}$, $c=n_0|\theta_*|^2/2S$. With $F_k=E[s^{k-P/2}e^{-c/s}]$

$$p(y)=\det(XX^T)^{-1/2}\,\Big(\frac{2\pi S}{n_0}\Big)^{-P/2}F_0,\qquad
E[s^k\,|\,y]=\frac{F_k}{F_0}.$$

A test point is one more label: the density of its output is a ratio of two such integrals.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import ndtr

from finitewidth._base.checks import check_key, check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.methods.bayesian.deep_linear.design import Design, as_matrix, design
from finitewidth.prediction.methods.bayesian.deep_linear.scales import ScaleLattice, ScaleNodes
from finitewidth.statistics.exact.deep_linear import ChiSquareProduct, linear_network
from finitewidth.statistics.wide.inputs import ArrayLike


class LinearInterpolation(eqx.Module):
    """The posterior of deep linear networks that interpolate their labels.

    Attributes
    ----------
    log_evidence
        Log density of the labels under the prior.
    weights
        The interpolant of least length, the posterior mean of theta.
    prior_variance
        S, the product of C_W over all layers.
    hidden
        The prior of s, the product of the hidden layers.
    data
        Inputs and labels in the basis of the inputs.
    """

    log_evidence: float = eqx.field(static=True)
    weights: Float[np.ndarray, " features"]
    prior_variance: float = eqx.field(static=True)
    hidden: ChiSquareProduct
    data: Design

    @property
    def c(self) -> float:
        r"""$n_0|\theta_*|^2/2S$."""
        return float(self.data.features * self.weights @ self.weights / (2 * self.prior_variance))

    def scale_moment(self, power: float | int) -> float:
        """The posterior mean of s^power."""
        return float(np.exp(self._log_F(power) - self._log_F(0.0)))

    @property
    def perpendicular_square(self) -> float:
        """The posterior mean of the squared length of theta across the data."""
        across = self.data.features - self.data.points
        return across * self.prior_variance / self.data.features * self.scale_moment(1)

    @property
    def excess_kurtosis(self) -> float:
        """Excess kurtosis of every prediction away from the data; zero for Gaussian ones."""
        logs = [self._log_F(power) for power in (0.0, 1.0, 2.0)]
        return 3 * float(np.expm1(logs[2] + logs[0] - 2 * logs[1]))

    def mean(self, x: ArrayLike) -> Float[np.ndarray, " test"]:
        """The posterior mean of the outputs at inputs (test, features)."""
        moved, _ = self.data.on_modes(self._inputs(x))
        return moved @ self.weights + self.data.offset

    def covariance(self, x: ArrayLike) -> Float[np.ndarray, "test test"]:
        """The posterior covariance of the outputs."""
        across = self._across(x)
        return self.prior_variance / self.data.features * self.scale_moment(1) * across @ across.T

    def std(self, x: ArrayLike) -> Float[np.ndarray, " test"]:
        """The posterior standard deviation of each output."""
        return np.sqrt(self._unit_variance(x) * self.scale_moment(1))

    def log_density(self, x: ArrayLike, outputs: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
        """Log density of an output at each input; infinite where the data fix the output."""
        unit, distance = self._unit_variance(x), np.asarray(outputs, float) - self.mean(x)
        power, log_F = -(self.data.points + 1) / 2, self._log_F(0.0)
        found = np.full(len(unit), np.inf)
        for i in np.flatnonzero(unit):
            c = self.c + float(distance[i] ** 2 / (2 * unit[i]))
            found[i] = self.hidden.log_average(power, c) - log_F - 0.5 * np.log(2 * np.pi * unit[i])
        return np.where((unit == 0) & (distance != 0), -np.inf, found)

    def interval(
        self, x: ArrayLike, probability: float | int = 0.95
    ) -> tuple[Float[np.ndarray, " test"], Float[np.ndarray, " test"]]:
        """The ends of the central interval that holds each output with this probability."""
        if not 0 < probability < 1:
            raise ValueError(f"probability must lie between 0 and 1, got {probability!r}.")
        mean, unit = self.mean(x), self._unit_variance(x)
        half = np.sqrt(unit) * self._scales().two_sided(probability)
        return mean - half, mean + half

    def cdf(self, x: ArrayLike, outputs: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
        """The probability that each output is at most this large."""
        distance = np.asarray(outputs, float) - self.mean(x)
        nodes = self._scales()
        spread = np.sqrt(np.maximum(self._unit_variance(x), np.finfo(float).tiny)[:, None] * nodes.s)
        return ndtr(distance[:, None] / spread) @ nodes.weights

    def sample(self, key: PRNGKeyArray, x: ArrayLike, draws: int) -> Float[Array, "draws test"]:
        """Outputs of networks drawn from the posterior, together at all inputs."""
        check_key(key)
        check_whole("draws", draws)
        scale_key, direction_key = jax.random.split(key)
        s = self._scales().sample(scale_key, draws)
        across = self._across(x)
        theta = jax.random.normal(direction_key, (draws, self.data.features))
        spread = jnp.sqrt(self.prior_variance / self.data.features * s)
        return jnp.asarray(self.mean(x)) + spread[:, None] * (theta @ across.T)

    def _inputs(self, x: ArrayLike) -> np.ndarray:
        x = as_matrix("x", x)
        if x.shape[1] != self.data.features:
            raise ValueError(
                f"x has {x.shape[1]} features; the networks were fitted to {self.data.features}."
            )
        return x

    def _across(self, x: ArrayLike) -> Float[np.ndarray, "test features"]:
        """Inputs without their parts along the data."""
        moved, along = self.data.on_modes(self._inputs(x))
        return moved - along @ self.data.basis.T

    def _unit_variance(self, x: ArrayLike) -> Float[np.ndarray, " test"]:
        """The variance of the outputs at s = 1, zero where the data fix them up to rounding."""
        across, whole = (np.sum(part**2, axis=1) for part in (self._across(x), self._inputs(x)))
        across = np.where(across <= 1e-24 * whole, 0.0, across)
        return self.prior_variance / self.data.features * across

    def _log_F(self, k: float | int) -> float:
        return self.hidden.log_average(k - self.data.points / 2, self.c)

    def _scales(self) -> ScaleNodes:
        """The posterior of s as nodes with weights."""
        half, c = self.data.points / 2, self.c
        lattice = ScaleLattice(self.hidden, self.data.points, around=self.scale_moment(1))
        return lattice.nodes(lambda log_s: -half * log_s - c * np.exp(-log_s))


def interpolate(net: Layer, x: ArrayLike, y: ArrayLike, *, constant: bool = False) -> LinearInterpolation:
    """Condition a deep linear network on labels without noise.

    Parameters
    ----------
    net
        Linear layers without biases and with one output; the product of its C_W is the prior variance S.
    x, y
        Inputs (points, features), at most as many points as features, and labels (points,).
    constant
        Whether the labels have a constant of their own, free of any prior. It takes one point.

    Examples
    --------
    >>> import numpy as np, finitewidth as fw
    >>> from finitewidth.prediction import interpolate
    >>> x, y = np.eye(4)[:2], np.array([0.6, -1.2])
    >>> law = interpolate(fw.MLP((3, 5), "linear", 0.0, 1.21), x, y)
    >>> law.mean(x), law.std(np.eye(4)).round(3)
    (array([ 0.6, -1.2]), array([0.   , 0.   , 0.869, 0.869]))
    """
    net = linear_network(net)
    data = design(x, y, constant=constant)
    _refuse_dependent(data)
    S, hidden = float(np.prod(np.asarray(net.C_W))), ChiSquareProduct(net.hidden)
    if not data.labels.any() and data.points >= min(net.hidden, default=np.inf):
        raise ValueError(
            f"y = 0 at {data.points} points, and a hidden layer has {min(net.hidden)} neurons: networks with "
            "vanishing weights make the evidence infinite; use fewer points or wider layers."
        )
    return conditioned(S, hidden, data)


def conditioned(S: float, hidden: ChiSquareProduct, data: Design) -> LinearInterpolation:
    """The posterior under a prior variance S, for labels that can be fitted."""
    weights = data.interpolant
    n_0, P = data.features, data.points
    c = float(n_0 * weights @ weights / (2 * S))
    volume = 2 * np.log(data.d).sum() + P * np.log(2 * np.pi * S / n_0)
    log_evidence = hidden.log_average(-P / 2, c) - float(volume) / 2
    return LinearInterpolation(float(log_evidence), weights, S, hidden, data)


def _refuse_dependent(data: Design) -> None:
    less = " besides the constant" if data.constant else ""
    if data.points > data.features:
        raise ValueError(
            f"x has {data.points} points{less} and {data.features} features: without noise they fit "
            "at most as many labels as features; use noisy_posterior."
        )
    if len(data.d) < data.points:
        raise ValueError(
            f"the {data.points} rows of x{less} have rank {len(data.d)}: some inputs are combinations of "
            "others, so that labels cannot be free; drop rows, or use noisy_posterior."
        )
