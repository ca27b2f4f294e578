r"""Gradient flow of a quadratic model in weight space, solved to first order in $\epsilon$ at all times.

$$W(t) = W^F(t)+\epsilon\,W^I(t)+O(\epsilon^2),\qquad \dot W^F = -\Phi_A^Te^F,\qquad
\dot W^I = -\Phi_A^T\big(\Phi_AW^I+\tfrac12W^F\psi_AW^F\big)-\sum_ae^F_a\psi_aW^F .$$

In the eigenbasis of $\tilde k$ everything is a sum of exponentials. The last term also drives the weights
out of the span of the training features, where nothing pulls them back: the memory of the trajectory.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import Labels
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.architecture.models.taylor_models import FeatureTable
from finitewidth.nearly_kernel_methods.algorithm_projectors import projectors
from finitewidth.nearly_kernel_methods.prediction import as_columns


class FlowWeights(NamedTuple):
    r"""Weights of a moment.

    Attributes
    ----------
    fixed
        $W^F$, those of the linear model.
    inside, outside
        $W^I$ within the span of the training features, and orthogonal to it.
    """

    fixed: Float[Array, "out features"]
    inside: Float[Array, "out features"]
    outside: Float[Array, "out features"]

    @property
    def interacting(self) -> Float[Array, "out features"]:
        r"""$W^I$, the coefficient of $\epsilon$."""
        return self.inside + self.outside

    def total(self, epsilon: float) -> Float[Array, "out features"]:
        r"""$W^F+\epsilon W^I$."""
        return self.fixed + epsilon * self.interacting


class FirstOrderFlow(NamedTuple):
    """The solution for one training set; `at(t)` evaluates it."""

    table: FeatureTable
    eigenvalues: Float[Array, " train"]
    eigenvectors: Float[Array, "train train"]
    modes: Float[Array, "train out"]
    mu: Float[Array, "train train train"]

    @classmethod
    def of(cls, table: FeatureTable, y: Labels) -> "FirstOrderFlow":
        """Diagonalise the kernel and turn the meta kernel, without its epsilon, into the eigenbasis.

        Parameters
        ----------
        table
            A quadratic model at the training points, `model.at(x_train)`.
        y
            Labels, one column per output.
        """
        if table.psi is None:
            raise ValueError(
                "the linear model has no first order in epsilon: pass a QuadraticModel at its points."
            )
        y = as_columns("y", y, len(table.phi), np.dtype(float))
        found = projectors(np.asarray(table.phi @ table.phi.T), GradientFlow())
        V = jnp.asarray(found.eigenvectors)
        w = V.T @ table.phi
        mu = jnp.einsum("ak,ajl->kjl", V, table.psi)
        mu = jnp.einsum("ij,kjl,ml->kim", w, mu, w, optimize=True)
        return cls(table, jnp.asarray(found.eigenvalues), V, V.T @ jnp.asarray(y), mu)

    def at(self, time: float) -> FlowWeights:
        """Weights at a time, infinity included."""
        if not time >= 0:
            raise ValueError(f"time must be zero or more, got {time}.")
        return FlowWeights(*jax.vmap(lambda modes: self._one_output(modes, time))(self.modes.T))

    def effective_features(self, x_table: FeatureTable, time: float) -> Float[Array, "out n features"]:
        r"""$\phi+\epsilon\,\psi W^F(t)$ at any points, to first order."""
        return jax.vmap(x_table.features)(self.at(time).fixed)

    def _one_output(self, y: Float[Array, " train"], t: float) -> tuple[Array, Array, Array]:
        l, phi, V = self.eigenvalues, self.table.phi, self.eigenvectors
        grown = _decayed(0.0, l, t)
        l1, l2 = l[:, None], l[None, :]
        accumulated = y[:, None] * y[None, :] / l2 * (grown[:, None] - _decayed(0.0, l1 + l2, t))
        source = jnp.einsum("ajk,ak->j", self.table.psi, (V @ accumulated @ V.T) @ phi)
        outside = source - phi.T @ (V @ ((V.T @ (phi @ source)) / l))
        inside = phi.T @ (V @ (self._projected(y, t) / l))
        return phi.T @ (V @ (y * grown)), inside, outside

    def _projected(self, y: Float[Array, " train"], t: float) -> Float[Array, " train"]:
        r"""$\Phi_AW^I$ in the eigenbasis: decay of each mode, driven by products of two others."""
        l = self.eigenvalues
        lk, li, lj = l[:, None, None], l[None, :, None], l[None, None, :]
        still, first, second, both = (_decayed(r, lk, t) for r in (0.0, li, lj, li + lj))
        pairs = y[None, :, None] * y[None, None, :] / lj
        from_meta = -lk / (2 * li) * self.mu * (still - first - second + both)
        from_motion = jnp.swapaxes(self.mu, 0, 1) * (first - both)
        return jnp.sum(pairs * (from_meta + from_motion), axis=(1, 2))


def _decayed(rate: float | Array, own: Array, t: float) -> Array:
    r"""$\int_0^te^{-l(t-s)}e^{-rs}ds$, stable when the two rates meet."""
    if math.isinf(t):
        return jnp.where(jnp.asarray(rate) == 0, 1 / own, jnp.zeros_like(own * rate))
    slow, gap = jnp.minimum(rate, own), jnp.abs(own - rate) * t
    safe = jnp.where(gap > 0, gap, 1.0)
    return t * jnp.exp(-slow * t) * jnp.where(gap > 0, -jnp.expm1(-safe) / safe, 1.0)
