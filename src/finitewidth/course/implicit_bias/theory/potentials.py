r"""Potentials of mirror descent: strictly convex functions of the weights, one term for each weight.

Mirror descent takes its step in the slopes of a potential, $\nabla\psi(w')=\nabla\psi(w)-\eta\nabla L(w)$.
The half squared norm gives gradient descent; the hyperbolic entropy is what the two layers of a diagonal
network amount to. Each potential knows its conjugate $\psi^*(s)=\max_w(sw-\psi(w))$, whose slope leads
back from slopes to weights.
"""

import abc
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

Weights = Float[np.ndarray, " features"]
Scale = float | int | Float[np.ndarray, " features"]


class Potential(eqx.Module):
    """A sum over weights of one strictly convex function."""

    @abc.abstractmethod
    def value(self, w: Weights) -> float:
        r"""$\psi(w)$."""

    @abc.abstractmethod
    def slopes(self, w: Weights) -> Weights:
        r"""$\nabla\psi(w)$."""

    @abc.abstractmethod
    def conjugate(self, s: Weights) -> float:
        r"""$\psi^*(s)$."""

    @abc.abstractmethod
    def weights(self, s: Weights) -> Weights:
        r"""The weights with these slopes, $\nabla\psi^*(s)$."""

    @abc.abstractmethod
    def softness(self, s: Weights) -> Weights:
        r"""How fast weights follow their slopes, the second derivatives of $\psi^*$."""

    @abc.abstractmethod
    def expression(self, w: Any) -> tuple[Any, list]:
        r"""$\psi$ of a CVXPY variable, and the constraints that its auxiliary variables need."""

    @abc.abstractmethod
    def origin(self, features: int) -> Weights:
        """Where training starts unless said otherwise: the lowest point of the potential."""

    def divergence(self, w: Weights, start: Weights) -> float:
        r"""Bregman's distance $\psi(w)-\psi(w_0)-\nabla\psi(w_0)\cdot(w-w_0)$."""
        return self.value(w) - self.value(start) - float(self.slopes(start) @ (w - start))


class Quadratic(Potential):
    r"""$\psi=\frac12\sum_iw_i^2/d_i$: gradient descent with a learning rate $d_i$ for each weight."""

    rates: Scale = 1.0

    def value(self, w):
        return float(np.sum(w**2 / self.rates) / 2)

    def slopes(self, w):
        return w / self.rates

    def conjugate(self, s):
        return float(np.sum(s**2 * self.rates) / 2)

    def weights(self, s):
        return s * self.rates

    def softness(self, s):
        return np.broadcast_to(np.asarray(self.rates, float), s.shape)

    def expression(self, w):
        import cvxpy as cp

        return cp.sum_squares(cp.multiply(w, np.broadcast_to(1 / np.sqrt(self.rates), w.shape))) / 2, []

    def origin(self, features):
        return np.zeros(features)


class HyperbolicEntropy(Potential):
    r"""$\psi=\sum_ia_i\,q(w_i/a_i)$, $q(z)=2-\sqrt{4+z^2}+z\,\mathrm{asinh}(z/2)$.

    Flat and quadratic for weights below $a_i$, nearly $|w|$ above.
    """

    scale: Scale = 1.0

    def value(self, w):
        z = w / self.scale
        # 2 - sqrt(4 + z^2), without the difference of two nearly equal numbers.
        return float(np.sum(self.scale * (z * np.arcsinh(z / 2) - z**2 / (2 + np.sqrt(4 + z**2)))))

    def slopes(self, w):
        return np.arcsinh(w / self.scale / 2)

    def conjugate(self, s):
        return float(np.sum(4 * self.scale * np.sinh(s / 2) ** 2))

    def weights(self, s):
        return 2 * self.scale * np.sinh(s)

    def softness(self, s):
        return 2 * self.scale * np.cosh(s)

    def expression(self, w):
        import cvxpy as cp

        # Two relative entropies: w = u - v, and the minimum over both has u v = a^2.
        a = np.broadcast_to(np.asarray(self.scale, float), w.shape)
        u, v = cp.Variable(w.shape), cp.Variable(w.shape)
        return cp.sum(2 * a - cp.entr(u) - cp.entr(v) - cp.multiply(1 + np.log(a), u + v)), [w == u - v]

    def origin(self, features):
        return np.zeros(features)


class Entropy(Potential):
    r"""$\psi=\sum_i(w_i\log w_i-w_i)$ on positive weights: steps multiply them (exponentiated gradient)."""

    def value(self, w):
        from scipy.special import xlogy

        return float(np.sum(xlogy(w, w) - w))

    def slopes(self, w):
        return np.log(w)

    def conjugate(self, s):
        return float(np.sum(np.exp(s)))

    def weights(self, s):
        return np.exp(s)

    def softness(self, s):
        return np.exp(s)

    def expression(self, w):
        import cvxpy as cp

        return -cp.sum(cp.entr(w) + w), []

    def origin(self, features):
        return np.ones(features)
