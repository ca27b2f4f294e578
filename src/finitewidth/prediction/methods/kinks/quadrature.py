"""The coefficient for one, two or three training points: closed forms, and quadrature over directions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.expectations.kinked.cones import thin_root
from finitewidth.prediction.methods.kinks.directions import integrate, radial
from finitewidth.prediction.methods.kinks.one_point import closed_form, mean_signed_square, mean_size
from finitewidth.prediction.methods.kinks.response import Response, windows_of
from finitewidth.prediction.methods.kinks.schedule import schedule
from finitewidth.prediction.methods.kinks.setting import Setting

# Tolerance of the angle, single steps, growth of intervals, and shortest segment, by number of points.
_BY_POINTS = {
    1: (1e-9, 2000, 0.02, 1e-4),
    2: (1e-4, 32, 0.12, 5e-3),
    3: (1e-4, 20, 0.24, 1e-2),
}
# With a ridge neurons hop about the kink to the end.
_STEPS_WITH_RIDGE = 16
MOST_POINTS = max(_BY_POINTS)


class Coefficient(NamedTuple):
    """Of n^(-1/2), in the mean and in the covariance, with their standard errors.

    The covariance is averaged over the outputs.
    """

    mean: Float[np.ndarray, "test out"]
    covariance: Float[np.ndarray, "test test"]
    mean_error: Float[np.ndarray, "test out"]
    covariance_error: Float[np.ndarray, "test test"]
    samples: int = 0


def exact(mean: Float[np.ndarray, " test"], covariance: Float[np.ndarray, "test test"]) -> Coefficient:
    """A coefficient without sampling error."""
    return Coefficient(mean[:, None], covariance, np.zeros((len(mean), 1)), np.zeros_like(covariance))


def nothing(test: int, out: int) -> Coefficient:
    """Before training."""
    mean, covariance = np.zeros((test, out)), np.zeros((test, test))
    return Coefficient(mean, covariance, mean, covariance)


def start_and_rest(setting: Setting, M: Float[np.ndarray, "test train"]) -> np.ndarray:
    """Covariance, (test, train), of the untouched part of the test outputs with the training outputs."""
    train, K = len(setting.y), setting.outputs.K
    return K[train:, :train] - M @ K[:train, :train]


def of_one_point(
    k: Float[np.ndarray, " test"], rest: Float[np.ndarray, " test"], y: float, K: float
) -> Coefficient:
    """From c_D = k_D e|e| with e ~ N(-y, K)."""
    size = 2 * mean_size(-y, K)
    return exact(k * mean_signed_square(-y, K), size * (np.outer(rest, k) + np.outer(k, rest)))


def few_points(
    setting: Setting, algorithm: SpectralAlgorithm, ridge: float, M: Float[np.ndarray, "test train"]
) -> Coefficient:
    """At most three training points."""
    train, K = len(setting.y), setting.outputs.K
    rest = start_and_rest(setting, M)
    k = closed_form(setting, algorithm, ridge)
    if k is not None:
        return of_one_point(k, rest[:, 0], float(setting.y[0, 0]), float(K[0, 0]))
    L = thin_root(K[:train, :train])
    inverse = np.linalg.pinv(L)
    mu = -inverse @ setting.y[:, 0]
    ahead = rest @ inverse.T
    tolerance, single_steps, growth, shortest = _BY_POINTS[train]
    single_steps = min(single_steps, _STEPS_WITH_RIDGE) if ridge else single_steps
    windows = windows_of(setting)

    def averages(growth: float) -> np.ndarray:
        cut = schedule(
            setting.outputs.Theta[:train, :train], algorithm, ridge, single_steps=single_steps, growth=growth
        )
        response = Response(setting, windows, cut, shortest)

        def integrand(omega: np.ndarray) -> np.ndarray:
            c = response(L @ omega.T)
            pairs = np.einsum("td,sd->dts", ahead @ omega.T, c).reshape(len(omega), -1)
            once, twice = radial(omega, mu, 1)[:, None], radial(omega, mu, 2)[:, None]
            return np.concatenate([once * c.T, twice * pairs], axis=1)

        return integrate(integrand, L.shape[1], tolerance)

    found = averages(growth / 2)
    if not isinstance(algorithm, GradientDescent):
        # Intervals of flow leave an error that falls with the square of their length.
        found = (4 * found - averages(growth)) / 3
    test = len(setting.twin)
    mean, product = found[:test], found[test:].reshape(test, test)
    # The product is with e; the start is e + y.
    product = product + np.outer(rest @ np.linalg.pinv(K[:train, :train]) @ setting.y[:, 0], mean)
    return exact(mean, product + product.T)
