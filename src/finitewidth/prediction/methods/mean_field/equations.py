r"""The field that neurons make and feel: self-consistent equations at width n.

The trained weights of a network with ridge r obey $u=\sum_a\epsilon_a\nabla g_a$ with
$r\,\epsilon=y-z(\theta^*)$. Take one neuron out: the n - 1 others have the dual vector e, which knows
nothing of it; put back, it shifts e by $-G\,g$. So it sees $\epsilon=e-Gg$, and averages over networks
become averages E over one neuron's start and over e. With $R=r+\lambda_b$ (the output bias learns too),
$J=n\,E[\partial g/\partial e]$, and G the response of the n - 1 others,

$$R\,\bar e+(n-RG)\,E[g]=y,\qquad (R+J-\tfrac1n RGJ)\,G=1,\qquad
  \mathrm{Cov}(e)=G\,(C_b+n\,\mathrm{Cov}[g\,|\,e])\,G .$$

Kept: the whole motion of each neuron, its correlation with the field, the mean response. Dropped: e is taken
to be Gaussian, and G for its mean over networks. Both matter at order $n^{-2}$ only: mean and covariance are
exact to order 1/n.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.prediction.methods.mean_field.neurons import Field, GroupAverages, Neuron, Population, settle

_MOST_ITERATIONS = 60
# An iteration may still change the field by so much of itself, or of its sampling error.
_TOLERANCE, _SHARE_OF_ERROR = 1e-7, 0.05


class Kernels(NamedTuple):
    """Infinite-width kernels of all points, training points first, and the shares of the output bias."""

    nngp: Float[np.ndarray, "p p"]
    ntk: Float[np.ndarray, "p p"]
    C_b: float
    lambda_b: float


class Moments(NamedTuple):
    """Mean and covariance of the trained outputs at the test points, with standard errors."""

    mean: Float[np.ndarray, " test"]
    mean_error: Float[np.ndarray, " test"]
    covariance: Float[np.ndarray, "test test"]
    covariance_error: Float[np.ndarray, "test test"]


class NoSolutionError(ValueError):
    """The iteration for the mean field does not settle."""


def trained_moments(
    neuron: Neuron,
    start: Population,
    kernels: Kernels,
    y: Float[np.ndarray, " train"],
    ridge: float,
    width: int,
) -> Moments:
    """Solve the equations and read off the moments at the test points."""
    state = _State.at_infinite_width(kernels, y, ridge, width)
    groups, m, _ = start.preactivations.shape
    u = jnp.zeros((groups, m, neuron.inputs.shape[1] + 1))
    for _ in range(_MOST_ITERATIONS):
        u, found = settle(neuron, start, u, state.field)
        found = GroupAverages(*(np.asarray(part) for part in found))
        state, change = state.next(found)
        if not np.isfinite(change):
            break
        if max(change, found.unrest.mean()) < max(_TOLERANCE, _SHARE_OF_ERROR * state.sampling_error(found)):
            return state.moments(found)
    raise NoSolutionError(
        f"the mean-field equations have no solution within reach at width {width} and ridge {ridge:.3g}: "
        "neurons move too far; take a larger ridge, a larger width, or method=TrainedNetworks(k)."
    )


class _State(NamedTuple):
    """Where the iteration stands: mean and covariance of e (as noise, before the response), and G."""

    kernels: Kernels
    y: Float[np.ndarray, " train"]
    ridge: float
    n: int
    e: Float[np.ndarray, " train"]
    noise: Float[np.ndarray, "train train"]
    G: Float[np.ndarray, "train train"]

    @classmethod
    def at_infinite_width(cls, kernels: Kernels, y: np.ndarray, ridge: float, n: int) -> "_State":
        train = len(y)
        G = np.linalg.inv(kernels.ntk[:train, :train] + ridge * np.eye(train))
        return cls(kernels, y, ridge, n, G @ y, kernels.nngp[:train, :train], G)

    @property
    def field(self) -> Field:
        eigenvalues, vectors = np.linalg.eigh(self.noise)
        # The symmetric root changes continuously from one iteration to the next.
        root = (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T
        return Field(*(jnp.asarray(part) for part in (self.e, root @ self.G.T, self.G)))

    @property
    def by_neurons(self) -> Float[np.ndarray, "p train"]:
        """The NTK between all points and the training points, without the share of the output bias."""
        return self.kernels.ntk[:, : len(self.y)] - self.kernels.lambda_b

    def added(self, found: GroupAverages) -> Float[np.ndarray, " p"]:
        """E[g]: the linear answer is known exactly, the remainder is averaged."""
        return np.asarray(found.remainder).mean(axis=0) + self.by_neurons @ self.e / self.n

    def answer(self, found: GroupAverages) -> Float[np.ndarray, "p train"]:
        """J."""
        return self.n * np.asarray(found.answer).mean(axis=0) + self.by_neurons

    def sampling_error(self, found: GroupAverages) -> float:
        """Standard error of the mean field, relative to it."""
        shift = self.n * np.asarray(found.remainder)[:, : len(self.y)] @ self.G
        return _size(_error(shift)) / max(_size(self.e), np.finfo(float).tiny)

    def next(self, found: GroupAverages) -> tuple["_State", float]:
        """One iteration, and the relative change that it made."""
        n, G, train = self.n, self.G, len(self.y)
        R = self.ridge * np.eye(train) + self.kernels.lambda_b
        g, J = self.added(found)[:train], self.answer(found)[:train]
        response = np.linalg.inv(R + J - R @ G @ J / n)
        response = (response + response.T) / 2
        step = response @ (R @ self.e + n * g - R @ (G @ g) - self.y)
        spread = J @ G @ self.noise @ G @ J.T / n
        noise = self.kernels.nngp[:train, :train] - n * np.outer(g, g) - spread
        noise = noise + n * found.squares.mean(axis=0)[:train, :train]
        change = _size(step) / max(_size(self.e), np.finfo(float).tiny)
        return self._replace(e=self.e - step, G=response, noise=(noise + noise.T) / 2), change

    def moments(self, found: GroupAverages) -> Moments:
        n, G, train = self.n, self.G, len(self.y)
        g, J = self.added(found), self.answer(found)
        rates = np.full((len(g) - train, train), self.kernels.lambda_b)
        one_less = G @ J[:train] @ G / n
        mean = rates @ (self.e - G @ g[:train]) + n * g[train:]
        # What an added neuron, or a shift of the output bias, takes from the outputs through the others.
        by_neuron = rates @ G + (1 - 1 / n) * J[train:] @ (G + one_less)
        by_bias = rates @ (G - one_less) + J[train:] @ G
        delivery = np.concatenate([-by_neuron, np.eye(len(g) - train)], axis=1)
        bias = 1 - by_bias.sum(axis=1)
        start = self.kernels.nngp - self.kernels.C_b
        first, spread = delivery @ g, delivery @ J @ G
        covariance = (
            delivery @ (start + n * found.squares.mean(axis=0)) @ delivery.T
            + self.kernels.C_b * np.outer(bias, bias)
            - n * np.outer(first, first)
            - spread @ self.noise @ spread.T / n
        )
        square = n * np.einsum("ip,gpq,jq->gij", delivery, found.squares, delivery)
        # A group's share of the response enters on both sides.
        moved = n * np.einsum("ip,gpa->gia", delivery, found.answer) @ G
        reach = (start @ delivery.T)[:train] + self.kernels.C_b * bias
        square = square - moved @ reach - (moved @ reach).swapaxes(1, 2)
        return Moments(mean, _error(n * np.asarray(found.remainder) @ delivery.T), covariance, _error(square))


def _size(array: np.ndarray) -> float:
    return float(np.sqrt(np.sum(array**2)))


def _error(by_group: Float[np.ndarray, "group *rest"]) -> Float[np.ndarray, "*rest"]:
    """Standard error of the average over groups."""
    return by_group.std(axis=0, ddof=1) / np.sqrt(len(by_group))
