r"""The posterior of finitely wide Bayesian networks: one random scale per hidden layer.

The weights that leave hidden layer l have the squared length $C_W Q_l$, with $Q_l\sim\chi^2_{n_l}/n_l$
independent of their directions. Given all scales, take the network for a Gaussian process with the kernel
recursion $K^{(l+1)}=C_b+Q_l\,C_W\langle\sigma\sigma\rangle_{K^{(l)}}$: with one output this is exact for
linear networks of any depth, with or without biases; otherwise it leaves out that the data turn the features.
The posterior is then a mixture over the scales with the weights

$$p(Q\,|\,y)\propto\prod_l p(Q_l)\;N(y;\,0,\,K_Q+s^2).$$

The last scale multiplies the kernel as a whole, so that one eigenbasis serves all its values; the other
scales of activations with $\sigma(2z)=2\sigma(z)$ do the same and are folded into it.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import gammaln, logsumexp

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.first_order.fluctuations import expandable
from finitewidth.statistics.wide.kernels import kernels

# Values of scales with a smaller share of the weight are left out.
_NEGLIGIBLE = 1e-12
# Each hidden layer but the last adds an axis to the lattice of scales, unless they fold into one.
_MOST_HIDDEN = 3
_Scales = tuple[int, ...]


class Mixture(NamedTuple):
    """Mean and covariance at the test points, and the log evidence of the labels."""

    mean: Float[np.ndarray, " test"]
    covariance: Float[np.ndarray, "test test"]
    log_evidence: float


def with_scales(problem: TrainingProblem, noise: float, infinite: TrainedDistribution) -> TrainedDistribution:
    """The posterior of infinite width with what the scales of finite layers add to it."""
    x = np.concatenate([problem.x_train, problem.x_test])
    found = scale_mixture(problem.net, x, np.asarray(problem.y, dtype=float), noise)
    as_array = lambda a: jnp.asarray(a, infinite.mean.dtype)
    correction = Correction(
        mean=as_array(found.mean)[:, None] - infinite.mean,
        mean_error=jnp.zeros_like(infinite.mean),
        covariance=as_array(found.covariance) - infinite.covariance,
        covariance_error=jnp.zeros_like(infinite.covariance),
    )
    return infinite.corrected(correction)


def scale_mixture(net: Layer, x: np.ndarray, y: Float[np.ndarray, "train out"], noise: float) -> Mixture:
    """The mixture over scales for points x, the first of which carry the labels y."""
    stack = _described(net, y, noise)
    if _folds(stack):
        kernel = np.asarray(kernels(stack, x).nngp, dtype=float)
        lattice = _Lattice.of(stack.hidden, len(y))
        parts = [_Conditional.of(kernel, stack, y, noise).mixed(lattice)]
    else:
        lattice = _Lattice.of(stack.hidden[-1:], len(y))
        parts = list(_over_inner_scales(stack, x, y, noise, lattice))
    return _together(parts)


def _described(net: Layer, y: np.ndarray, noise: float) -> MLP:
    """The network as dense layers; one sentence where the mixture is not known."""
    stack = expandable(net)
    if not stack.hidden:
        raise ValueError('the network has no hidden layer, so it has no width: leave out width="finite".')
    if y.shape[1] != 1:
        raise ValueError(
            f'width="finite" describes one output, and there are {y.shape[1]} columns of labels: the scales '
            "of several outputs are matrices; predict one column at a time, with a network of its own."
        )
    if not noise > 0:
        raise ValueError(f'width="finite" needs a positive noise variance, got noise={noise:g}.')
    if not _folds(stack) and len(stack.hidden) > _MOST_HIDDEN:
        raise ValueError(
            f'width="finite" takes at most {_MOST_HIDDEN} hidden layers of {stack.activation.name!r}, got '
            f"{len(stack.hidden)}; any number of linear or ReLU layers without hidden biases."
        )
    return stack


def _folds(stack: MLP) -> bool:
    """Whether all scales multiply the last kernel: a homogeneous activation, and no biases in between."""
    z = np.array([-1.3, -0.2, 0.7, 2.1])
    s = lambda values: np.asarray(stack.activation.function(jnp.asarray(values)))
    homogeneous = np.allclose(s(2 * z), 2 * s(z), rtol=1e-12, atol=0)
    return len(stack.hidden) == 1 or (homogeneous and not np.asarray(stack.C_b)[1:-1].any())


def log_density(log_scale: Float[np.ndarray, " k"], width: int | np.ndarray) -> Float[np.ndarray, " k"]:
    r"""Log density of $\log Q$ for $Q\sim\chi^2_n/n$."""
    half = width / 2
    return half * (np.log(half) + log_scale - np.exp(log_scale)) - gammaln(half)


class _Lattice(NamedTuple):
    """Equally spaced logarithms of a scale, as multiples of `step`, and their prior log weights."""

    logarithms: Float[np.ndarray, " k"]
    log_weights: Float[np.ndarray, " k"]

    @classmethod
    def of(cls, widths: tuple[int, ...], train: int) -> "_Lattice":
        """The product of the scales of layers with these widths."""
        step = 0.5 / np.sqrt((min(widths) + train) / 2)
        lowest, highest = -int((12 + 80 / min(widths)) / step), int(8 / step)
        steps = np.arange(lowest, highest + 1)
        logarithms = step * steps
        log_weights = log_density(logarithms, widths[0])
        for width in widths[1:]:
            # log p(t) = log sum_i p(t_i) p_l(t - t_i) step
            log_weights = np.array(
                [logsumexp(log_weights + log_density(t - logarithms, width)) for t in logarithms]
            ) + np.log(step)
        return cls(logarithms, log_weights + np.log(step))


class _Conditional(NamedTuple):
    r"""The process with the kernel $C_b+Q\,M$ in the basis where $M$ and $C_b+s^2$ are diagonal.

    `t` are the eigenvalues of M there, `Y` the labels; the kernel between test points and modes is
    `fixed + Q * scaled`, between test points `C_b + Q * own`.
    """

    t: Float[np.ndarray, " k"]
    Y: Float[np.ndarray, " k"]
    fixed: Float[np.ndarray, "test k"]
    scaled: Float[np.ndarray, "test k"]
    own: Float[np.ndarray, "test test"]
    C_b: float
    log_volume: float

    @classmethod
    def of(cls, kernel: np.ndarray, stack: MLP, y: np.ndarray, noise: float) -> "_Conditional":
        train, C_b = len(y), float(stack.C_b[-1])
        M = kernel - C_b
        root = cholesky(noise * np.eye(train) + C_b, lower=True)
        whiten = lambda right: solve_triangular(root, right, lower=True)
        t, U = eigh(whiten(whiten(M[:train, :train]).T))
        volume = 2 * np.log(np.diag(root)).sum() + train * np.log(2 * np.pi)
        biases = np.full((len(M) - train, train), C_b)
        on_modes = lambda across: whiten(across.T).T @ U
        return cls(
            np.maximum(t, 0), U.T @ whiten(y[:, 0]), on_modes(biases), on_modes(M[train:, :train]),
            M[train:, train:], C_b, volume,
        )  # fmt: skip

    def mixed(self, lattice: _Lattice) -> Mixture:
        """The mixture over the scale, with the evidence that it has altogether."""
        likely = lattice.log_weights.copy()
        for block in np.array_split(np.arange(len(likely)), 1 + len(likely) // 256):
            grown = 1 + np.exp(lattice.logarithms[block])[:, None] * self.t
            likely[block] -= 0.5 * np.sum(np.log(grown) + self.Y**2 / grown, axis=1)
        log_evidence = float(np.asarray(logsumexp(likely)))
        weight = np.exp(likely - log_evidence)
        kept = weight > _NEGLIGIBLE * weight.max()
        Q, weight = np.exp(lattice.logarithms[kept]), weight[kept] / weight[kept].sum()
        gain = 1 / (1 + Q[:, None] * self.t)
        means = (gain * self.Y) @ self.fixed.T + (Q[:, None] * gain * self.Y) @ self.scaled.T
        mean = weight @ means
        explained = [weight * Q**power @ gain for power in range(3)]
        cross = (self.fixed * explained[1]) @ self.scaled.T
        covariance = (
            self.C_b + (weight @ Q) * self.own
            - (self.fixed * explained[0]) @ self.fixed.T
            - cross - cross.T
            - (self.scaled * explained[2]) @ self.scaled.T
            + (weight[:, None] * (means - mean)).T @ (means - mean)
        )  # fmt: skip
        return Mixture(mean, covariance, log_evidence - 0.5 * self.log_volume)


def _over_inner_scales(
    stack: MLP, x: np.ndarray, y: np.ndarray, noise: float, lattice: _Lattice
) -> Iterator[Mixture]:
    """Mixtures over the last scale, for all values of the others that have weight.

    Starting from one, the values spread over their lattice as long as the evidence of a neighbour may count.
    """
    inner = np.array(stack.hidden[:-1])
    steps = 0.7 * np.sqrt(2 / (inner + len(y)))
    volume = np.log(steps).sum()

    def at(node: _Scales) -> Mixture:
        logarithms = steps * node
        C_W = jnp.asarray(stack.C_W).at[1:-1].multiply(jnp.exp(jnp.asarray(logarithms)))
        kernel = np.asarray(kernels(dataclasses.replace(stack, C_W=C_W), x).nngp, dtype=float)
        found = _Conditional.of(kernel, stack, y, noise).mixed(lattice)
        prior = float(log_density(logarithms, inner).sum())
        return found._replace(log_evidence=found.log_evidence + prior + volume)

    found: dict[_Scales, Mixture] = {}
    waiting: list[_Scales] = [(0,) * len(inner)]
    most = -np.inf
    while waiting:
        node = waiting.pop(0)
        if node in found:
            continue
        found[node] = at(node)
        most = max(most, found[node].log_evidence)
        if found[node].log_evidence > most + np.log(_NEGLIGIBLE):
            for axis, way in itertools.product(range(len(inner)), (1, -1)):
                waiting.append(tuple(n + way * (a == axis) for a, n in enumerate(node)))
    yield from found.values()


def _together(parts: list[Mixture]) -> Mixture:
    """One mixture of all, each with its evidence as weight."""
    logs = np.array([part.log_evidence for part in parts])
    log_evidence = float(np.asarray(logsumexp(logs)))
    weight = np.exp(logs - log_evidence)
    means = np.stack([part.mean for part in parts])
    mean = weight @ means
    covariance = sum(w * part.covariance for w, part in zip(weight, parts, strict=True))
    spread = (weight[:, None] * (means - mean)).T @ (means - mean)
    return Mixture(mean, covariance + spread, log_evidence)
