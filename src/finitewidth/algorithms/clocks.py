r"""How residuals decay while training goes on: in steps, or continuously.

A mode with eigenvalue t of the frozen kernel leaves $x = 1-\eta t$ of its residual at every step. What a
slightly moving kernel does to the trained network is made of *chains*, sums over all ways to spend the steps
on a sequence of nodes,

$$[u_0,\dots,u_n]_T=\sum_{j_0+\dots+j_n=T-n}u_0^{j_0}\cdots u_n^{j_n},$$

where a node is a product of factors x (gradient descent), and the integral of exponentials over ordered
times in its place (gradient flow, where a node is a sum of eigenvalues).

Histories that are no single sequence are counted by *transfer matrices*: the matrix of one step, or the
generator of a flow, between the states that a history passes through.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import added, einsum, holds_tracer, library, put

# The modes that decay together while the chain rests on a node: none, one, two or three.
Node = tuple[AnyArray, ...]

Rate = AnyArray | np.floating | float
Number = float | Array
# Upper triangular matrices, one for every entry of the arrays that the nodes hold: the first two axes.
Matrices = Float[AnyArray, "n n *shape"]
Others = Float[AnyArray, "m m *shape"]
Joint = Float[AnyArray, "nm nm *shape"]

_TAYLOR_TERMS = 20
_SMALL_STEP = 1 / 8
# Where JAX follows the rates, their size is not known: so many squarings serve times up to 1e14 of them.
_SQUARINGS = 50
_FOLLOWED_TERMS = 6


class Clock(ABC):
    """How residuals decay: in steps, or continuously."""

    @property
    @abstractmethod
    def residual_step(self) -> Number:
        """The step that separates a mode's value before and after; zero for a flow."""

    @property
    @abstractmethod
    def end(self) -> Number:
        """The last step, or time; infinite at the end of training, where no chain is evaluated."""

    @abstractmethod
    def chain(self, nodes: Sequence[Node]) -> AnyArray:
        """The chain over these nodes, elementwise in the arrays that the nodes hold."""

    @property
    def continuous(self) -> bool:
        """Whether time flows; otherwise it counts steps."""
        return isinstance(self, Flow)

    @property
    def rate(self) -> Number:
        """What a source adds to the outputs per step, or per unit of time."""
        return 1.0 if self.continuous else self.residual_step

    def factor(self, t: AnyArray) -> AnyArray:
        """x: what one step leaves of a residual."""
        return 1 - self.residual_step * t

    @abstractmethod
    def stay(self, t: Rate) -> Rate:
        """The diagonal of a transfer matrix: a state that decays at the rate t."""

    @abstractmethod
    def joint(self, first: Matrices, second: Others) -> Joint:
        """The transfer matrix of two independent parts; the states of the second vary fastest."""

    @abstractmethod
    def evolved(self, transfer: Matrices) -> Matrices:
        """What an upper triangular transfer matrix has made of every state at the end."""


@dataclass(frozen=True)
class Steps(Clock):
    """A number of steps of gradient descent."""

    eta: Number
    steps: int | float

    @property
    def residual_step(self) -> Number:
        return self.eta

    @property
    def end(self) -> Number:
        return float(self.steps)

    def chain(self, nodes: Sequence[Node]) -> AnyArray:
        """An entry of a power of a bidiagonal matrix, by repeated squaring.

        Quotients of differences of the nodes would be as exact on paper and useless where two nodes
        nearly coincide.
        """
        shape = np.broadcast_shapes(*(t.shape for node in nodes for t in node))
        if holds_tracer(nodes, self.eta):
            return self._followed_chain(nodes, shape)
        sizes, signs = np.stack([self._log_and_sign(node, shape) for node in nodes], axis=1)
        unit, power, done = signs * np.exp(sizes), _identity(len(nodes), shape), 0
        for bit in bin(int(self.steps))[2:]:
            done = 2 * done + int(bit)
            power = _squared(power)
            if bit == "1":
                power = _times_bidiagonal(power, unit)
            if done:
                # The rounding of a product of so many factors would grow with their number.
                power = _with_diagonal(power, (signs if done % 2 else np.abs(signs)) * np.exp(done * sizes))
        return power[0, -1]

    def _followed_chain(self, nodes: Sequence[Node], shape: tuple[int, ...]) -> Array:
        """The same as a loop, which is differentiated at nodes that are zero, too."""
        factors = [math.prod((self.factor(t) for t in node), start=jnp.ones(shape)) for node in nodes]
        unit = jnp.stack(factors)

        def double(state: tuple[Array, Array], odd: Array) -> tuple[tuple[Array, Array], None]:
            power, diagonal = _squared(state[0]), state[1] ** 2
            power = jnp.where(odd, _times_bidiagonal(power, unit), power)
            diagonal = jnp.where(odd, diagonal * unit, diagonal)
            return (jnp.asarray(_with_diagonal(power, diagonal)), diagonal), None

        bits = jnp.array([bit == "1" for bit in bin(int(self.steps))[2:]])
        start = jnp.asarray(_identity(len(nodes), shape)), jnp.ones_like(unit)
        return lax.scan(double, start, bits)[0][0][0, -1]

    def stay(self, t: Rate) -> Rate:
        return 1 - self.eta * t

    def joint(self, first: Matrices, second: Others) -> Joint:
        return _kronecker(first, second)

    def evolved(self, transfer: Matrices) -> Matrices:
        power = _identity(len(transfer), transfer.shape[2:])
        for bit in bin(int(self.steps))[2:]:
            power = _squared(power)
            power = _product(power, transfer) if bit == "1" else power
        return power

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


@dataclass(frozen=True)
class Flow(Clock):
    """Gradient flow for a time."""

    time: Number

    @property
    def residual_step(self) -> Number:
        return 0.0

    @property
    def end(self) -> Number:
        return self.time

    def chain(self, nodes: Sequence[Node]) -> AnyArray:
        """An entry of the exponential of a bidiagonal matrix."""
        shape = np.broadcast_shapes(*(t.shape for node in nodes for t in node))
        generator = _times_bidiagonal(_identity(len(nodes), shape), np.zeros((len(nodes), *shape)))
        numpy = library(*(t for node in nodes for t in node))
        rates = [numpy.broadcast_to(-sum(node, start=np.zeros(())), shape) for node in nodes]
        return self.evolved(_with_diagonal(generator, numpy.stack(rates)))[0, -1]

    def stay(self, t: Rate) -> Rate:
        return -t

    def joint(self, first: Matrices, second: Others) -> Joint:
        shape = np.broadcast_shapes(first.shape[2:], second.shape[2:])
        at_rest = lambda other: _identity(len(other), shape)
        return _kronecker(first, at_rest(second)) + _kronecker(at_rest(first), second)

    def evolved(self, transfer: Matrices) -> Matrices:
        """The exponential of the generator, by scaling and squaring."""
        one, rates = _identity(len(transfer), transfer.shape[2:]), -_diagonal(transfer)
        if holds_tracer(transfer, self.time):
            return self._followed_evolution(transfer, one, rates)
        largest = rates.max(initial=0.0)
        squarings = max(0, math.ceil(math.log2(max(largest * self.time / _SMALL_STEP, 1.0))))
        h = self.time / 2**squarings
        # Shifted so that every entry is positive.
        shifted, term, power = h * (transfer + largest * one), one, one
        for n in range(1, _TAYLOR_TERMS):
            term = _product(term, shifted) / n
            power = power + term
        power = power * math.exp(-h * largest)
        for level in range(1, squarings + 1):
            power = _squared(power)
            # The rounding of so many products would grow with their number.
            power = _with_diagonal(power, np.exp(-rates * h * 2**level))
        return power

    def _followed_evolution(self, transfer: Matrices, one: Matrices, rates: AnyArray) -> Matrices:
        """The same with squarings enough for any rate."""
        largest = lax.stop_gradient(jnp.max(rates, initial=0.0))
        h = self.time / 2**_SQUARINGS
        shifted, term, power = h * (transfer + largest * one), one, one
        for n in range(1, _FOLLOWED_TERMS):
            term = _product(term, shifted) / n
            power = power + term
        power = power * jnp.exp(-h * largest)
        doubled = lambda power, span: (_with_diagonal(_squared(power), jnp.exp(-rates * span)), None)
        return lax.scan(doubled, power, h * 2.0 ** np.arange(1, _SQUARINGS + 1))[0]


def _identity(n: int, shape: tuple[int, ...]) -> Matrices:
    return np.eye(n).reshape(n, n, *(1 for _ in shape)) * np.ones(shape)


def _diagonal(matrices: Matrices) -> Float[AnyArray, "n *shape"]:
    return einsum("ii...->i...", matrices)


def _with_diagonal(matrices: Matrices, diagonal: Float[AnyArray, "n *shape"]) -> Matrices:
    index = np.arange(len(matrices))
    return put(matrices, (index, index), diagonal)


def _squared(matrices: Matrices) -> Matrices:
    return _product(matrices, matrices)


def _product(left: Matrices, right: Matrices) -> Matrices:
    n, product = len(left), np.zeros(left.shape)
    for k in range(n):
        product = added(product, np.s_[: k + 1, k:], left[: k + 1, k, None] * right[k, None, k:])
    return product


def _kronecker(left: Matrices, right: Others) -> Joint:
    product = einsum("ij...,kl...->ikjl...", left, right)
    n = len(left) * len(right)
    return product.reshape(n, n, *product.shape[4:])


def _times_bidiagonal(matrices: Matrices, diagonal: Float[AnyArray, "n *shape"]) -> Matrices:
    """Times the matrices with this diagonal and ones above it."""
    product = matrices * diagonal
    return added(product, np.s_[:, 1:], matrices[:, :-1])
