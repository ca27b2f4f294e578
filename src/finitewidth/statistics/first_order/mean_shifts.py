r"""Shifts of the mean kernels by finite width, for many points and without tensors of four labels.

$E[zz]=K+G_1/n$ and $E[H]=\Theta+H_1/n$. The recursion of $H_{1;12}$ asks for V, D and F only with all four
labels equal to 1 or 2, and that set is closed: every entry is one matrix over pairs of points, computed
when first asked for. Label 0 stands for the row point, label 1 for the column point; exchanging them is a
transposition.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from finitewidth._base.arrays import Matrix
from finitewidth.statistics.first_order.hidden_layers import HiddenLayer, LayerKernels

# A sum of products of derivatives, one per slot: (coefficient, orders).
Terms = Sequence[tuple[np.ndarray | float, tuple[int, ...]]]

_SECOND = [(a, b) for a in range(2) for b in range(2)]
_FOURTH = list(itertools.product(range(2), repeat=4))


class MeanShifts(NamedTuple):
    """Coefficients of 1/width of the mean kernels of the outputs."""

    G1: Matrix
    H1: Matrix


def mean_shifts(kernels: LayerKernels) -> MeanShifts:
    """G1 and H1 of the output layer; the width is that of the last hidden layer."""
    zero = np.zeros_like(kernels.hidden[0].K)
    # The first layer is exactly Gaussian with a fixed kernel.
    tensors = _TwoLabels(*(lambda *labels: zero,) * 5)
    for layer in kernels.hidden:
        tensors = _NextLayer(tensors, layer).tensors
    shifts = MeanShifts(tensors.G1(0, 1), tensors.H1())
    for layer in kernels.hidden:
        layer.averages.forget()
    return shifts


class _TwoLabels(NamedTuple):
    """G1, V, D, F of one layer, functions of their labels 0 and 1, and H1 of the pair."""

    G1: Callable[..., Matrix]
    H1: Callable[[], Matrix]
    V: Callable[..., Matrix]
    D: Callable[..., Matrix]
    F: Callable[..., Matrix]


def _once(compute: Callable[..., Matrix], canonical: Callable[..., tuple[int, ...]]) -> Callable[..., Matrix]:
    """Each entry is computed once; with its labels exchanged it is the transpose."""
    known = functools.cache(compute)

    def entry(*labels: int) -> Matrix:
        key, exchanged = canonical(*labels), canonical(*(1 - label for label in labels))
        return known(*key) if key <= exchanged else known(*exchanged).T

    return entry


class _NextLayer:
    def __init__(self, below: _TwoLabels, layer: HiddenLayer):
        self._below, self._layer = below, layer
        self._C, self._lambda = layer.above.C_W, layer.above.lambda_W
        self._r = layer.ratio
        diagonal = np.broadcast_to(np.diag(layer.Theta)[:, None], layer.Theta.shape)
        self._Theta = {(0, 0): diagonal, (1, 1): diagonal.T, (0, 1): layer.Theta, (1, 0): layer.Theta}

    @property
    def tensors(self) -> _TwoLabels:
        return _TwoLabels(
            G1=_once(self._G1, lambda a, b: (min(a, b), max(a, b))),
            H1=self._H1,
            V=_once(self._V, _both_pairs),
            D=_once(self._D, _each_pair),
            F=_once(self._F, lambda *l: min(l, (*l[2:], *l[:2]))),
        )

    def _G1(self, a, b):
        return self._r * self._C * self._shift(((1.0, (0, 0)),), (a, b))

    def _H1(self):
        below, C = self._below, self._C
        moved = np.zeros_like(self._layer.K)
        for a, b in _SECOND:
            correlated = below.D(a, b, 0, 1) + below.F(a, 0, b, 1) + below.F(a, 1, b, 0)
            moved = moved + 0.5 * self._mean(((1.0, (1, 1)),), (0, 1), (a, b)) * correlated
        slope = self._mean(((1.0, (1, 1)),), (0, 1))
        kernel = slope * below.H1() + self._layer.Theta * self._shift(((1.0, (1, 1)),), (0, 1)) + moved
        return self._r * (self._lambda * self._shift(((1.0, (0, 0)),), (0, 1)) + C * kernel)

    def _V(self, *labels):
        plain, first, second = ((1.0, (0, 0)),), labels[:2], labels[2:]
        return self._C**2 * (
            self._covariance(plain, first, plain, second)
            + self._r * self._passed_on(plain, first, plain, second)
        )

    def _D(self, *labels):
        first, second = labels[:2], labels[2:]
        plain, Omega = ((1.0, (0, 0)),), self._Omega(second)
        own = self._covariance(plain, first, Omega, second)
        passed = self._passed_on(plain, first, Omega, second)
        for a, b in _SECOND:
            kernel = self._below.D(first[a], first[b], *second)
            passed = passed + self._C / 2 * self._mean(((1.0, (1, 1)),), second) * (
                self._mean(plain, first, (a, b)) * kernel
            )
        return self._C * (own + self._r * passed)

    def _F(self, l1, l3, l2, l4):
        own = self._Theta[l3, l4] * self._average(((0, l1), (0, l2), (1, l3), (1, l4)))
        passed = np.zeros_like(own)
        for a, b in _SECOND:
            left = self._mean(((1.0, (0, 1)),), (l1, l3), (a,))
            right = self._mean(((1.0, (0, 1)),), (l2, l4), (b,))
            passed = passed + left * right * self._below.F((l1, l3)[a], l3, (l2, l4)[b], l4)
        return self._C**2 * (own + self._r * passed)

    def _Omega(self, labels: tuple[int, int]) -> Terms:
        return ((self._lambda, (0, 0)), (self._C * self._Theta[labels], (1, 1)))

    def _covariance(self, f: Terms, first: tuple[int, int], g: Terms, second: tuple[int, int]) -> Matrix:
        joint = np.zeros_like(self._layer.K)
        for c, orders in f:
            for d, others in g:
                slots = zip((*orders, *others), (*first, *second), strict=True)
                joint = joint + c * d * self._average(tuple(slots))
        return joint - self._mean(f, first) * self._mean(g, second)

    def _passed_on(self, f: Terms, first: tuple[int, int], g: Terms, second: tuple[int, int]) -> Matrix:
        """A quarter of the sum of second derivatives of both averages, times V of the layer below."""
        total = np.zeros_like(self._layer.K)
        for a, b in _SECOND:
            left = self._mean(f, first, (a, b))
            for c, d in _SECOND:
                right = self._mean(g, second, (c, d))
                total = total + left * right * self._below.V(first[a], first[b], second[c], second[d])
        return total / 4

    def _shift(self, f: Terms, labels: tuple[int, int]) -> Matrix:
        """Change of an average of two slots because preactivations are not quite Gaussian with K."""
        total = np.zeros_like(self._layer.K)
        for slots in _SECOND:
            a, b = (labels[slot] for slot in slots)
            total = total + 0.5 * self._below.G1(a, b) * self._mean(f, labels, slots)
        for slots in _FOURTH:
            total = total + self._below.V(*(labels[slot] for slot in slots)) / 8 * self._mean(
                f, labels, slots
            )
        return total

    def _mean(self, f: Terms, labels: tuple[int, ...], differentiated: tuple[int, ...] = ()) -> Matrix:
        """Average of f after differentiating the given slots."""
        total = np.zeros_like(self._layer.K)
        for c, orders in f:
            raised = [order + differentiated.count(slot) for slot, order in enumerate(orders)]
            total = total + c * self._average(tuple(zip(raised, labels, strict=True)))
        return total

    def _average(self, slots: tuple[tuple[int, int], ...]) -> Matrix:
        rows, columns = (tuple(order for order, label in slots if label == point) for point in (0, 1))
        return self._layer.averages(rows, columns)


def _each_pair(*labels: int) -> tuple[int, ...]:
    return (*sorted(labels[:2]), *sorted(labels[2:]))


def _both_pairs(*labels: int) -> tuple[int, ...]:
    ordered = _each_pair(*labels)
    return min(ordered, (*ordered[2:], *ordered[:2]))
