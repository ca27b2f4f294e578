r"""Weights with which the tensors of a slightly moving kernel enter the trained network.

To first order, training sums products of residual modes over nested times: a mode with eigenvalue t of the
frozen kernel leaves $x = 1-\eta t$ of its residual at every step. Each weight is a *chain*, the sum over all
ways to spend the steps on a sequence of nodes,

$$[u_0,\dots,u_n]_T=\sum_{j_0+\dots+j_n=T-n}u_0^{j_0}\cdots u_n^{j_n},$$

where a node is a product of factors x (gradient descent), and the integral of exponentials over ordered
times in its place (gradient flow, where a node is a sum of eigenvalues).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.dynamics.algorithms import GradientDescent, GradientFlow, SpectralAlgorithm

# The modes that decay together while the chain rests on a node: none, one, two or three.
Node = tuple[np.ndarray, ...]

_TAYLOR_TERMS = 20
_SMALL_STEP = 1 / 8


class ProjectorWeights(NamedTuple):
    r"""Weights of all sources, in the eigenbasis of the training kernel.

    The first axis is the start of the chain: entry 0 ends with the source itself, entry $1+q$ lets the
    source decay in mode q afterwards (only before the end of training, where the two are proportional).
    """

    h: Float[np.ndarray, "start k"]
    hh: Float[np.ndarray, "start k k"]
    a2: Float[np.ndarray, "start k k"]
    b2: Float[np.ndarray, "start k k"]
    a3: Float[np.ndarray, "start k k k"]
    b3: Float[np.ndarray, "start k k k"]
    c3: Float[np.ndarray, "start k k k"]
    d3: Float[np.ndarray, "start k k k"]


class Clock(ABC):
    """How residuals decay: in steps, or continuously."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """What a source adds to the outputs per step, or per unit of time."""

    @property
    @abstractmethod
    def residual_step(self) -> float:
        """The step that separates a mode's value before and after; zero for a flow."""

    @property
    @abstractmethod
    def end(self) -> float:
        """The last step, or time."""

    @abstractmethod
    def chain(self, nodes: Sequence[Node]) -> np.ndarray:
        """The chain over these nodes, elementwise in the arrays that the nodes hold."""

    def factor(self, t: np.ndarray) -> np.ndarray:
        """x: what one step leaves of a residual."""
        return 1 - self.residual_step * t


@dataclass(frozen=True)
class Steps(Clock):
    """A number of steps of gradient descent."""

    eta: float
    steps: int

    @property
    def rate(self) -> float:
        return self.eta

    @property
    def residual_step(self) -> float:
        return self.eta

    @property
    def end(self) -> float:
        return float(self.steps)

    def chain(self, nodes: Sequence[Node]) -> np.ndarray:
        """An entry of a power of a bidiagonal matrix, by repeated squaring.

        Quotients of differences of the nodes would be as exact on paper and useless where two nodes
        nearly coincide.
        """
        shape = np.broadcast_shapes(*(t.shape for node in nodes for t in node))
        sizes, signs = zip(*(self._log_and_sign(node, shape) for node in nodes), strict=True)
        last = len(nodes) - 1
        pairs = [(i, j) for i in range(last + 1) for j in range(i, last + 1)]
        entry = {(i, j): np.full(shape, float(i == j)) for i, j in pairs}
        unit = [sign * np.exp(size) for sign, size in zip(signs, sizes, strict=True)]
        done = 0
        for bit in bin(self.steps)[2:]:
            if done:
                entry = {
                    (i, j): sum((entry[i, k] * entry[k, j] for k in range(i, j + 1)), start=np.zeros(shape))
                    for i, j in pairs
                }
                done *= 2
                self._exact_diagonal(entry, sizes, signs, done)
            if bit == "1":
                entry = {
                    (i, j): entry[i, j] * unit[j] + (entry[i, j - 1] if j > i else 0.0) for i, j in pairs
                }
                done += 1
                self._exact_diagonal(entry, sizes, signs, done)
        return entry[0, last]

    def _log_and_sign(self, node: Node, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Logarithm of the size, and sign, of the node's product of factors x."""
        size, sign = np.zeros(shape), np.ones(shape)
        for t in node:
            x = self.factor(t)
            slow = np.minimum(self.eta * t, 0.5)
            with np.errstate(divide="ignore"):
                size = size + np.where(self.eta * t < 0.5, np.log1p(-slow), np.log(np.abs(x)))
            sign = sign * np.sign(x)
        return size, sign

    @staticmethod
    def _exact_diagonal(
        entry: dict, sizes: Sequence[np.ndarray], signs: Sequence[np.ndarray], steps: int
    ) -> None:
        for i, (size, sign) in enumerate(zip(sizes, signs, strict=True)):
            entry[i, i] = (sign if steps % 2 else np.abs(sign)) * np.exp(steps * size)


@dataclass(frozen=True)
class Flow(Clock):
    """Gradient flow for a time."""

    time: float

    @property
    def rate(self) -> float:
        return 1.0

    @property
    def residual_step(self) -> float:
        return 0.0

    @property
    def end(self) -> float:
        return self.time

    def chain(self, nodes: Sequence[Node]) -> np.ndarray:
        """An entry of the exponential of a bidiagonal matrix, by scaling and squaring."""
        shape = np.broadcast_shapes(*(t.shape for node in nodes for t in node))
        rates = [np.broadcast_to(sum(node, start=np.zeros(())), shape) for node in nodes]
        last = len(nodes) - 1
        largest = np.max([r.max(initial=0.0) for r in rates])
        squarings = max(0, math.ceil(math.log2(max(largest * self.time / _SMALL_STEP, 1.0))))
        h = self.time / 2**squarings
        pairs = [(i, j) for i in range(last + 1) for j in range(i, last + 1)]
        # In units of h per step off the diagonal, and shifted so that every entry is positive.
        shift = [h * (largest - r) for r in rates]
        term = {(i, j): np.full(shape, float(i == j)) for i, j in pairs}
        entry = dict(term)
        for n in range(1, _TAYLOR_TERMS):
            term = {
                (i, j): (term[i, j] * shift[j] + (term[i, j - 1] if j > i else 0.0)) / n for i, j in pairs
            }
            entry = {key: entry[key] + term[key] for key in pairs}
        entry = {key: value * math.exp(-h * largest) for key, value in entry.items()}
        for level in range(1, squarings + 1):
            entry = {
                (i, j): sum((entry[i, k] * entry[k, j] for k in range(i, j + 1)), start=np.zeros(shape))
                for i, j in pairs
            }
            for i, r in enumerate(rates):
                entry[i, i] = np.exp(-r * h * 2**level)
        return entry[0, last] * h**last


def clock(algorithm: SpectralAlgorithm) -> Clock:
    """The clock of an algorithm that stops, its choices made."""
    if isinstance(algorithm, GradientFlow):
        return Flow(float(algorithm.time))
    if isinstance(algorithm, GradientDescent):
        if algorithm.eta == "auto":
            raise ValueError('eta is still "auto": call resolved(largest eigenvalue) first.')
        return Steps(float(algorithm.eta), int(algorithm.steps))
    raise ValueError(f"{type(algorithm).__name__} has no trajectory: use GradientDescent or GradientFlow.")


def projector_weights(t: Float[np.ndarray, " k"], algorithm: SpectralAlgorithm) -> ProjectorWeights:
    """All weights for eigenvalues t of the training kernel; the algorithm's choices must be made."""
    t = np.asarray(t, dtype=float)
    if algorithm.converged:
        eta = float(algorithm.eta) if isinstance(algorithm, GradientDescent) else 0.0
        return _at_the_end(t, eta)
    ticking = clock(algorithm)
    starts = [_chains(t, ticking, ())] + [_chains(t, ticking, (q,)) for q in t]
    return ProjectorWeights(*(np.stack(parts) for parts in zip(*starts, strict=True)))


def first_weights(t: Float[np.ndarray, " k"], algorithm: SpectralAlgorithm) -> Float[np.ndarray, "start k"]:
    """Only the weights `h` of one mode, which many points allow too."""
    if algorithm.converged:
        return 1 / t[None]
    ticking = clock(algorithm)
    return ticking.rate * np.stack(
        [ticking.chain([(), (t,)]), *(ticking.chain([(), (np.array([q]),), (t,)]) for q in t)]
    )


def _at_the_end(t: Float[np.ndarray, " k"], eta: float) -> ProjectorWeights:
    k, l, m = t[:, None, None], t[:, None], t
    x_k, x_l = 1 - eta * k, 1 - eta * l
    L2 = k + l - eta * k * l
    L3 = L2 + m * (1 - eta * k) * (1 - eta * l)
    weights = (
        1 / t,
        1 / (t[:, None] * t),
        (eta / (2 * L2))[..., 0],
        (x_k / (k * L2))[..., 0],
        -(eta**2) / (6 * L3),
        -eta / 2 * x_k * x_l / (L2 * L3),
        -eta / 2 * x_k / (k * L3),
        -(x_k**2) * x_l / (k * L2 * L3),
    )
    return ProjectorWeights(*(w[None] for w in weights))


def _chains(t: Float[np.ndarray, " k"], ticking: Clock, start: tuple[np.floating, ...]) -> list[np.ndarray]:
    before: list[Node] = [(), *((np.array([q]),) for q in start)]
    chain = lambda *nodes: ticking.chain([*before, *nodes])
    c, eta = ticking.rate, ticking.residual_step
    k, l = t[:, None], t
    weights = [
        c * chain((t,)),
        c**2 * chain((k,), (l,)),
        eta**2 / 2 * chain((k, l)),
        c**2 * ticking.factor(k) * chain((k,), (k, l)),
    ]
    k, l, m = t[:, None, None], t[:, None], t
    x_k, x_l = ticking.factor(k), ticking.factor(l)
    return [
        *weights,
        -(eta**3) / 6 * chain((k, l, m)),
        -(eta**3) / 2 * x_k * x_l * chain((k, l), (k, l, m)),
        -(eta**3) / 2 * x_k * chain((k,), (k, l, m)),
        -(c**3) * x_k**2 * x_l * chain((k,), (k, l), (k, l, m)),
    ]
