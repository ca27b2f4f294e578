"""Deep linear networks by multiplying their matrices, and products of chi-squares by plain integration."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.optimize import root_scalar
from scipy.special import digamma, gammaln

# Points of the Fourier transform, and how many standard deviations they span to either side.
_GRID, _SPAN = 2**14, 14.0


def random_generator(key: PRNGKeyArray) -> np.random.Generator:
    """NumPy's random numbers that belong to a key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def upper_rows(
    hidden: Sequence[int], C_W: float, key: PRNGKeyArray, draws: int
) -> Float[np.ndarray, "draws first"]:
    """The product of all matrices but the first, a row vector, for independent networks with one output."""
    rng = random_generator(key)
    row = np.ones((draws, 1))
    for n in reversed(hidden):
        row = (row[:, None] @ rng.standard_normal((draws, row.shape[1], n)))[:, 0] * np.sqrt(C_W / n)
    return row


def network_weights(
    n_in: int, hidden: Sequence[int], C_W: float, key: PRNGKeyArray, draws: int
) -> Float[np.ndarray, "draws n_in"]:
    """theta of f(x) = theta.x, the product of all matrices."""
    upper_key, key = jax.random.split(key)
    row = upper_rows(hidden, C_W, upper_key, draws)
    first = random_generator(key).standard_normal((draws, row.shape[1], n_in)) * np.sqrt(C_W / n_in)
    return (row[:, None] @ first)[:, 0]


def log_norms(n_in: int, hidden: Sequence[int], key: PRNGKeyArray, draws: int) -> Float[np.ndarray, " draws"]:
    r"""$\log|\theta|$ with C_W = 1, layer by layer from the output.

    A row of unit length times a random matrix with n columns is a vector of n independent Gaussians of
    variance 1/n, so that a matrix need not be drawn; the length is taken out in every layer.
    """

    rng = random_generator(key)
    total = np.zeros(draws)
    for n in (n_in, *hidden):
        total += np.log(np.mean(rng.standard_normal((draws, n)) ** 2, axis=1)) / 2
    return total


class ConditionedScale(NamedTuple):
    """Log of the mean of s^(-P/2) e^(-c/s), and the mean of s under this weight."""

    log_average: float
    mean: float


def conditioned_scale(hidden: Sequence[int], points: int, c: float) -> ConditionedScale:
    """Sum over a grid of log s, its prior density by Fourier transforms of log chi-square densities.

    The densities are multiplied by e^(t log s) beforehand and divided by it afterwards, with t such that the
    grid lies where the weight is: otherwise rounding covers the tail of the prior that the data pick out.
    """
    n = np.array(hidden, dtype=float)
    center = lambda t: float(np.sum(digamma(n / 2 + t) - np.log(n / 2)))
    least = max(-n.min() / 2, -points / 2)
    imbalance = lambda u: np.log(points / 2 + least + np.exp(u)) - np.log(c) + center(least + np.exp(u))
    ends = (-25.0, float(np.log(points + c + n.max()) + 5))
    t = least + np.exp(root_scalar(imbalance, bracket=ends, method="brentq").root)
    tilted = n / 2 + t
    step = 2 * _SPAN * np.sqrt(np.sum(1 / tilted + 1 / tilted**2)) / _GRID
    offset = step * (np.arange(_GRID) - _GRID // 2)
    transform = np.ones(_GRID // 2 + 1, dtype=complex)
    log_mass = 0.0
    for width, shape in zip(n, tilted, strict=True):
        # log(chi2/n) with `shape` halves of degrees of freedom, around its mean.
        middle = digamma(shape) - np.log(width / 2)
        log_s = middle + offset
        log_density = shape * (log_s + np.log(width / 2)) - np.exp(log_s) * width / 2 - gammaln(shape)
        transform *= np.fft.rfft(np.fft.ifftshift(np.exp(log_density))) * step
        log_mass += gammaln(shape) - gammaln(width / 2) - t * np.log(width / 2)
    density = np.maximum(np.fft.fftshift(np.fft.irfft(transform, _GRID)), 0) / step
    log_s = center(t) + offset
    log_weight = -(points / 2 + t) * log_s - c * np.exp(-log_s)
    top = log_weight.max()
    weight = density * np.exp(log_weight - top) * step
    total = weight.sum()
    return ConditionedScale(float(np.log(total) + top + log_mass), float(weight @ np.exp(log_s) / total))
