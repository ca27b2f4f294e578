r"""Schedules for noisy gradients: what a sequence of steps leaves of the start and of the noise.

On a loss of curvature $\lambda$ with gradient noise of variance $s^2$ a step multiplies the mean by
$1-\eta_t\lambda$, and the variance obeys $v_{t+1}=(1-\eta_t\lambda)^2v_t+\eta_t^2s^2$.

| schedule | variance in the end |
|---|---|
| constant | $\eta s^2/(\lambda(2-\eta\lambda))$ |
| $c/t$ | $c^2s^2/((2c\lambda-1)\,t)$ if $2c\lambda>1$, else $\sim t^{-2c\lambda}$ |
| $c/\sqrt t$ | $cs^2/(2\lambda\sqrt t)$ |
| best | $1/(1/v_0+t\lambda^2/s^2)$ |
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive, check_whole
from finitewidth.course.stochastic_gradients.theory.steady_state import refuse_unstable

Numbers = AnyArray | float | int


class NoisyDescent(eqx.Module):
    """Mean and variance of each mode along a schedule, before the first step and after every step."""

    mean: Float[np.ndarray, "times *modes"]
    variance: Float[np.ndarray, "times *modes"]
    curvature: Float[np.ndarray, "*modes"]

    @property
    def excess_loss(self) -> Float[np.ndarray, " times"]:
        r"""$\frac12\sum\lambda(\mathrm{mean}^2+\mathrm{variance})$ over the modes."""
        per_mode = self.curvature * (self.mean**2 + self.variance) / 2
        return per_mode.reshape(len(self.mean), -1).sum(axis=1)


def noisy_descent(
    curvature: Numbers,
    noise_std: Numbers,
    etas: Float[AnyArray, " steps"],
    *,
    start: Numbers = 0.0,
    start_variance: Numbers = 0.0,
) -> NoisyDescent:
    """Mean and variance of descent with noisy gradients under any schedule, exactly.

    Parameters
    ----------
    curvature, noise_std
        Eigenvalues of the Hessian, and the standard deviation of the noise along each; numbers or arrays.
    etas
        The steps, one after the other.
    start, start_variance
        Distance from the minimum at the start, and its variance.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.stochastic_gradients.theory import noisy_descent
    >>> noisy_descent(2.0, 1.3, np.full(200, 0.1)).variance[-1].round(6)
    np.float64(0.046944)
    """
    parts = (curvature, noise_std, start, start_variance)
    lam, s, mean, variance = (
        np.array(a) for a in np.broadcast_arrays(*(np.asarray(p, float) for p in parts))
    )
    etas = np.asarray(etas, float)
    if etas.ndim != 1 or not etas.size or not np.isfinite(etas).all() or np.any(etas < 0):
        raise ValueError("etas must be a sequence of steps, each a number of at least 0.")
    if np.any(lam <= 0):
        raise ValueError(f"curvature must be positive, got {lam.min():.4g}.")
    means, variances = [mean], [variance]
    for eta in etas:
        factor = 1 - eta * lam
        mean, variance = factor * mean, factor**2 * variance + eta**2 * s**2
        means.append(mean)
        variances.append(variance)
    return NoisyDescent(np.stack(means), np.stack(variances), lam)


def variance_floor(curvature: Numbers, noise_std: Numbers, eta: float | int) -> np.ndarray:
    r"""What a constant step leaves for ever, $\eta s^2/(\lambda(2-\eta\lambda))$."""
    lam = np.asarray(curvature, float)
    check_positive("eta", eta)
    if np.any(lam <= 0):
        raise ValueError(f"curvature must be positive, got {lam.min():.4g}: there is no steady state.")
    refuse_unstable(float(eta), float(2 / lam.max()))
    return np.asarray(eta * np.asarray(noise_std) ** 2 / (lam * (2 - eta * lam)))


def late_variance(curvature: Numbers, noise_std: Numbers, c: Numbers, power: float | int = 1.0) -> np.ndarray:
    r"""The limit of $t^{power}$ times the variance under steps $c/t^{power}$.

    For the power 1 it is $c^2s^2/(2c\lambda-1)$ and needs $2c\lambda>1$; for smaller powers
    $cs^2/(2\lambda)$.

    Parameters
    ----------
    curvature, noise_std
        $\lambda$ and s.
    c, power
        The schedule; the power is above 0 and at most 1.
    """
    lam, s, c = (np.asarray(a, float) for a in (curvature, noise_std, c))
    if not 0 < power <= 1:
        raise ValueError(f"power must be above 0 and at most 1, got {power!r}: other steps do not converge.")
    if power < 1:
        return np.asarray(c * s**2 / (2 * lam))
    if np.any(2 * c * lam <= 1):
        raise ValueError(
            f"2 c curvature = {np.min(2 * c * lam):.4g} is not above 1: under steps c/t the variance then "
            "falls more slowly than 1/t; choose a larger c."
        )
    return np.asarray(c**2 * s**2 / (2 * c * lam - 1))


def best_schedule(
    curvature: float | int, noise_std: float | int, start_variance: float | int, steps: int
) -> Float[np.ndarray, " steps"]:
    r"""The steps after which the variance is smallest, $\eta_t=1/(\lambda(t+1+t_0))$.

    $t_0=s^2/(\lambda^2v_0)$.     Each step $\eta=\lambda v/(\lambda^2v+s^2)$ is best for the variance v
    before it, and a smaller variance is never worse later on. It leaves $v_t=1/(1/v_0+t\lambda^2/s^2)$, as
    averaging t measurements does.

    Parameters
    ----------
    curvature, noise_std
        $\lambda$ and s.
    start_variance
        Mean square distance from the minimum at the start, $v_0$.
    steps
        How many steps.
    """
    for name, value in (
        ("curvature", curvature),
        ("start_variance", start_variance),
        ("noise_std", noise_std),
    ):
        check_positive(name, value)
    check_whole("steps", steps)
    wait = noise_std**2 / (curvature**2 * start_variance)
    return 1 / (curvature * (np.arange(steps) + 1 + wait))


def noise_bound(
    etas: Float[AnyArray, " steps"],
    kicks: Float[AnyArray, " steps"],
    smallest: float | int,
    largest: float | int,
) -> float:
    r"""A bound on what noise has moved, $\sum_s\eta_s|\xi_s|\exp(-\lambda_{min}\sum_{r>s}\eta_r)$.

    Parameters
    ----------
    etas, kicks
        The steps, and the norms of the noise in each.
    smallest, largest
        Ends of the spectrum of the Hessian. The bound needs every step to be at most $1/\lambda_{max}$.
    """
    etas, kicks = np.asarray(etas, float), np.asarray(kicks, float)
    if etas.max() * largest > 1:
        raise ValueError(
            f"a step of {etas.max():.4g} is above 1/largest = {1 / largest:.4g}: no bound there."
        )
    later = np.concatenate([np.cumsum(etas[::-1])[::-1][1:], [0.0]])
    return float(np.sum(etas * kicks * np.exp(-smallest * later)))
