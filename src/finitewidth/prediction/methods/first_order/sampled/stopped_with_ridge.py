r"""Training that stops and is held to its start by a ridge r, as sums over times of products over modes.

With $t$ the eigenvalue plus r, $X=x^s$, and $\xi=(1-x^s)/t$ what a residual has moved the weights by at step
s, $\zeta=X+r\xi$ is what is left of it, and $\rho=1-\eta r$ is what the ridge leaves of weights in one step.
What is spent at a step on features that have moved already, label D not being the first, decays from then on:

$$q_{kl}=\sum_s\rho^{T-1-s}\,\eta\zeta_k\xi_l,\qquad w_{klm}=\sum_s\rho^{T-1-s}\,\eta\zeta_k\xi_l\xi_m,\qquad
  p_{klm}=\sum_{s>s'}\rho^{T-1-s}\,\eta^2\rho^{s-1-s'}\,\zeta_k(s)\,\zeta_l(s')\,\xi_m(s').$$

The source $\xi_kq_{lm}$ is both at once: leg k is moved up to the moment s' of q, or at a later one s,

$$\xi_k(T)\,q_{lm}(T)=\sum_{s'}\rho^{T-1-s'}\,\eta\,\xi_k(s'+1)\zeta_l\xi_m
  +\sum_{s>s'}\rho^{T-1-s}\,\eta^2\rho^{s-s'}X_k(s)\,\zeta_l(s')\,\xi_m(s').$$

Products of $\xi$ alone, D being the first label, do not decay: each step adds their difference. Of a source
that decays training leaves $\rho^n$ after n further steps, and has unlearnt $(\rho^n-x^n)/(t-r)$ in a mode.
A flow has $e^{-rn}$ for $\rho^n$, and only the sums of lowest order in $\eta$.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.prediction.methods.first_order.sampled.decay import Stopped
from finitewidth.prediction.methods.first_order.sampled.neuron import Rows
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes


class Pull(eqx.Module):
    """What the ridge leaves after a time, and what training unlearns meanwhile of what it pulls back.

    `log_kept` is the logarithm of the size of rho, `log_ratio` that of x/rho.
    """

    ridge: Float[Array, ""]
    log_kept: Float[Array, ""]
    sign: Float[Array, ""]
    log_ratio: Float[Array, " k"]
    same_sign: Float[Array, " k"]
    eigenvalues: Float[Array, " k"]
    per_step: Float[Array, ""]

    @classmethod
    def of(cls, modes: TrainingModes, dtype) -> "Pull":
        r, clock = modes.ridge, modes.algorithm.clock()
        eigenvalues = np.maximum(modes.t - r, 0.0)
        if clock.continuous:
            parts = r, -r, 1.0, -eigenvalues, np.ones_like(eigenvalues), eigenvalues, 1.0
            return cls(*(jnp.asarray(a, dtype) for a in parts))
        rho = 1 - clock.residual_step * r
        size = np.maximum(np.abs(rho), 1e-300)
        # A ratio of 1 - small is known to more digits than the two numbers.
        ratio = clock.residual_step * eigenvalues / np.where(rho < 0, -size, size)
        log_ratio = np.log(np.maximum(np.abs(1 - ratio), 1e-300))
        log_ratio = np.where(np.abs(ratio) < 0.5, np.log1p(-np.clip(ratio, -0.5, 0.5)), log_ratio)
        sign = -1.0 if rho < 0 else 1.0
        same = np.where(ratio < 1, 1.0, -1.0)
        parts = r, np.log(size), sign, log_ratio, same, eigenvalues, clock.rate / rho
        return cls(*(jnp.asarray(a, dtype) for a in parts))

    def kept(self, time: Rows) -> Rows:
        """rho^n."""
        return jnp.exp(time * self.log_kept) * jnp.where(jnp.mod(time, 2) == 1, self.sign, 1.0)

    def unlearnt(self, time: Rows) -> Rows:
        """(rho^n - x^n)/(t - r), in every mode."""
        odd = jnp.mod(time, 2) == 1
        grown = time * self.log_ratio
        # The larger of the two powers stands in front, so that nothing overflows.
        larger = jnp.exp(time * self.log_kept + jnp.maximum(grown, 0.0))
        equal = jnp.sign(-grown) * -jnp.expm1(-jnp.abs(grown))
        opposite = jnp.exp(-jnp.maximum(grown, 0.0)) + jnp.exp(jnp.minimum(grown, 0.0))
        left = larger * jnp.where(odd & (self.same_sign < 0), opposite, equal)
        left = left * jnp.where(odd, self.sign, 1.0)
        positive = self.eigenvalues > 0
        limit = time * self.per_step * self.kept(time)
        return jnp.where(positive, left / jnp.where(positive, self.eigenvalues, 1.0), limit)


class StoppedHeld(Stopped):
    """Training with a ridge that stops before its end."""

    first_enters: ClassVar = {"a2": (1, 0), "b2": (1, 0), "q": (0, 1)}
    second_enters: ClassVar = {
        "steps": (1, 0, 0, 0, 0, 0),
        "two steps": (1, 0, 0, 0, 0, 0),
        "three steps": (1, 0, 0, 0, 0, 0),
        "spent": (0, 0.5, 1, 0, 0, 0),
        "spent at a step": (0, 0, 1, 0, 0, 0),
        "moved later": (0, 0, 0, 1, 0, 0),
        "spent twice": (0, 0, 0, 0, 0, 1),
    }
    pull: Pull

    def kept(self, times):
        return jnp.where(times.held > 0, self.pull.kept(self.rest(times)), 1.0)

    def unlearnt(self, on_modes, times):
        rest = self.rest(times)
        free = self.powers.spent(rest, jnp.mod(rest, 2))
        return jnp.where(times.held > 0, self.pull.unlearnt(rest), free) * on_modes

    def pair(self, times):
        X, eta = self.powers.left(times.late, times.late_odd), self.powers.eta
        xi = self.powers.spent(times.late, times.late_odd)
        zeta = X + self.pull.ridge * xi
        lasting = {"b2": (eta * X, xi), "q": (eta * zeta, xi)}
        return lasting if self.powers.flow else {"a2": (eta**2 / 2 * X, X)} | lasting

    def triple(self, times):
        eta, flow = self.powers.eta, self.powers.flow
        X, xi = (f(times.late, times.late_odd) for f in (self.powers.left, self.powers.spent))
        zeta = X + self.pull.ridge * xi
        early_xi = self.powers.spent(times.early, times.early_odd)
        early = self.powers.left(times.early, times.early_odd) + self.pull.ridge * early_xi
        gap = times.late - times.early
        # Samples without an earlier step have no weight.
        between = self.pull.kept(gap if flow else jnp.maximum(gap - 1, 0.0))
        single = {"steps": (-eta / 2 * X, xi, xi), "spent": (-eta * zeta, xi, xi)}
        nested = {
            "moved later": (-(eta**2) * self.pull.kept(gap) * X, early, early_xi),
            "spent twice": (-(eta**2) * between * zeta, early, early_xi),
        }
        if flow:
            return single | nested
        steps = {
            "two steps": (-(eta**2) / 2 * X, X, xi),
            "three steps": (-(eta**3) / 6 * X, X, X),
            "spent at a step": (-(eta**2) * zeta, X, xi),
        }
        return single | steps | nested
