r"""How residuals decay while training goes on: in steps, or continuously.

A mode with eigenvalue t of the frozen kernel leaves $x = 1-\eta t$ of its residual at every step. What a
slightly moving kernel does to the trained network is made of *chains*, sums over all ways to spend the steps
on a sequence of nodes,

$$[u_0,\dots,u_n]_T=\sum_{j_0+\dots+j_n=T-n}u_0^{j_0}\cdots u_n^{j_n},$$

where a node is a product of factors x (gradient descent), and the integral of exponentials over ordered
times in its place (gradient flow, where a node is a sum of eigenvalues).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# The modes that decay together while the chain rests on a node: none, one, two or three.
Node = tuple[np.ndarray, ...]

_TAYLOR_TERMS = 20
_SMALL_STEP = 1 / 8


class Clock(ABC):
    """How residuals decay: in steps, or continuously."""

    @property
    @abstractmethod
    def residual_step(self) -> float:
        """The step that separates a mode's value before and after; zero for a flow."""

    @property
    @abstractmethod
    def end(self) -> float:
        """The last step, or time; infinite at the end of training, where no chain is evaluated."""

    @abstractmethod
    def chain(self, nodes: Sequence[Node]) -> np.ndarray:
        """The chain over these nodes, elementwise in the arrays that the nodes hold."""

    @property
    def continuous(self) -> bool:
        """Whether time flows; otherwise it counts steps."""
        return self.residual_step == 0

    @property
    def rate(self) -> float:
        """What a source adds to the outputs per step, or per unit of time."""
        return self.residual_step or 1.0

    def factor(self, t: np.ndarray) -> np.ndarray:
        """x: what one step leaves of a residual."""
        return 1 - self.residual_step * t


@dataclass(frozen=True)
class Steps(Clock):
    """A number of steps of gradient descent."""

    eta: float
    steps: int | float

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
        for bit in bin(int(self.steps))[2:]:
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
