r"""Networks beside their law as a whole: their mean, the size of their spread, and its shape.

Along the eigenvectors V of the predicted covariance, in units of the standard deviations predicted there,
the deviations $w = \Lambda^{-1/2}V^T(z - m)$ of networks that follow their law have mean zero and unit
covariance. What all r directions say together is known far better than any entry. Each of three tests raises
a false alarm at the rate `RATE`, and so does the comparison entry by entry:

- mean: $N|\bar w|^2/s^2$ follows Fisher's F. The variance s^2 is the measured one, so that a spread of the
  wrong size is not taken for a wrong mean.
- spread: the average over networks of $q_k = |w_k - \bar w|^2/p$, p numbers each, follows chi squared.
  Gaussian outputs have $\mathrm{var}\,q = 2/p$. The kernel of a finite network is its own, which adds
  something of the order of depth/width. At least that much is allowed for, and what the networks show where
  it is more.
- shape: $r\,\mathrm{tr}\,S^2/(\mathrm{tr}\,S)^2 - 1$ vanishes where the covariance S is a multiple of the
  predicted one. Products of four different networks estimate it without bias, whatever their kurtosis.

A law of variances alone has no directions. Its test points, in units of their standard deviations, take their
place: the number of independent ones is estimated from the networks, and the shape cannot be tested.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

# How often networks that follow the law may be said to disagree with it, in any of four comparisons.
FALSE_ALARM = 1e-3
RATE = FALSE_ALARM / 4
# A wrong spread counts as seen where it would be noticed so often.
POWER = 0.95
# Networks that tell how correlated their outputs are; the work grows with the third power of their number.
_TRACED = 500


class Ratio(NamedTuple):
    """A measured number in units of a predicted one, and its standard error."""

    value: float
    sem: float


class SpreadTest(NamedTuple):
    """The mean square of deviations in predicted units: one under the law, and known as chi squared is.

    `freedom` are its degrees of freedom; `trust` those of their own estimate, infinite where it is not one.
    """

    variance: float
    freedom: float
    trust: float

    @property
    def ratio(self) -> Ratio:
        """Measured over predicted standard deviation."""
        value = math.sqrt(self.variance)
        return Ratio(value, value / math.sqrt(2 * self.freedom))

    @property
    def p(self) -> float:
        """Probability of a spread at least as far from the predicted one, to either side."""
        chi = self.freedom * self.variance
        tail = min(special.chdtr(self.freedom, chi), special.chdtrc(self.freedom, chi))
        return float(min(1.0, 2 * special.stdtr(self.trust, special.ndtri(max(tail, np.finfo(float).tiny)))))

    @property
    def detectable(self) -> float:
        """The relative error of a predicted spread that is noticed with probability `POWER`."""
        edge = float(special.ndtr(special.stdtrit(self.trust, RATE / 2)))
        usual = [special.chdtri(self.freedom, tail) for tail in (POWER, 1 - POWER)]
        # Where so few networks leave an edge that no number reaches, no spread is ever noticed.
        if edge < np.finfo(float).tiny:
            return math.inf
        low, high = special.gammaincinv(self.freedom / 2, edge), special.gammainccinv(self.freedom / 2, edge)
        return max(math.sqrt(2 * high / usual[0]) - 1, 1 - math.sqrt(2 * low / usual[1]))


class Overall(NamedTuple):
    """How probable networks that follow the law make differences as large as the measured ones.

    Attributes
    ----------
    directions
        How many eigenvectors of the predicted covariance took part, or test points where it has none.
    whitened
        Whether there was a covariance.
    mean
        Probability of a mean so far from the predicted one.
    spread
        The size of the spread.
    shape
        Probability of a covariance so far from any multiple of the predicted one; None where there was none,
        where it has one direction, and with fewer than four networks.
    """

    directions: int
    whitened: bool
    mean: float
    spread: SpreadTest
    shape: float | None

    @property
    def alarms(self) -> tuple[str, ...]:
        """Names of the tests in which networks that follow the law differ so much less often than `RATE`."""
        found = {"mean": self.mean, "spread": self.spread.p, "shape": self.shape}
        return tuple(name for name, p in found.items() if p is not None and p < RATE)


class LawError(NamedTuple):
    """What a law does not know of itself.

    `share` of the largest variance is its error in any direction, `mean` the standard error of its mean in
    one direction, `covariance` that of its covariance, and `variance` the relative one of the total variance.
    """

    share: float = 0.0
    mean: float = 0.0
    covariance: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(
        cls,
        covariance: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"],
        share: float,
        mean: Float[np.ndarray, "test out"] | None,
        errors: Float[np.ndarray, "test test"] | None,
    ) -> "LawError":
        """From the standard errors of a mean and of a covariance, on average over directions."""
        test = len(covariance)
        own = np.zeros((test, test)) if errors is None else errors
        total = np.trace(covariance) if covariance.ndim == 2 else np.sum(covariance)
        return cls(
            share=share,
            mean=0.0 if mean is None else math.sqrt(float(np.mean(mean**2))),
            covariance=math.sqrt(float(np.sum(own**2))) / test,
            variance=float(np.trace(own) / max(total, np.finfo(float).tiny)),
        )


def compare(
    outputs: Float[np.ndarray, "networks test out"],
    mean: Float[np.ndarray, "test out"],
    covariance: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"],
    kurtosis: float = 0.0,
    error: LawError | None = None,
) -> Overall | None:
    """The tests of outputs of networks against a mean and a covariance, or variances alone.

    `kurtosis` is the least relative variance, from network to network, of the variance of their outputs. None
    where the law has no spread.
    """
    error = LawError() if error is None else error
    networks, whitened = len(outputs), covariance.ndim == 2
    w = in_units(outputs - mean, covariance, least_variance(networks, error), error.share)
    if w.shape[2] == 0:
        return None
    numbers = w.shape[1] * w.shape[2]
    centred = w - w.mean(axis=0)
    q = np.mean(centred**2, axis=(1, 2)) * networks / (networks - 1)
    at_least = 2 / numbers * (1 + kurtosis) + kurtosis
    varies = max(float(q.var(ddof=1) / q.mean() ** 2), at_least)
    estimated = 1 - at_least / varies
    freedom = 2 / (varies / (networks - 1) + error.variance**2)
    trust = (networks - 1) / estimated**2 if estimated > 0 else math.inf
    return Overall(
        directions=w.shape[2],
        whitened=whitened,
        mean=_mean_of_known(w) if whitened else _mean_of_estimated(w.reshape(networks, numbers)),
        spread=SpreadTest(float(q.mean()), freedom, trust),
        shape=_shape(centred, kurtosis) if whitened and w.shape[2] > 1 and networks > 3 else None,
    )


def least_variance(networks: int, error: LawError) -> float:
    """Below it the square of the law's own error is more than a tenth of that of so many networks."""
    return max(10 * networks * error.mean**2, math.sqrt(5 * networks) * error.covariance)


def in_units(
    deviations: Float[np.ndarray, "networks test out"],
    covariance: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"],
    least: float = 0.0,
    share: float = 0.0,
) -> Float[np.ndarray, "networks out directions"]:
    """Deviations in predicted standard deviations, in directions whose variance is above a bound.

    The bound is `least`, and `share` of the largest one.
    """
    return np.einsum("nto,tr->nor", deviations, units(covariance, least, share))


def units(
    covariance: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"], least: float, share: float
) -> Float[np.ndarray, "test directions"]:
    """Directions with a variance above both bounds, divided by their standard deviations."""
    if covariance.ndim == 2:
        variances, directions = np.linalg.eigh(covariance)
    else:
        variances, directions = covariance, np.eye(len(covariance))
    kept = variances > max(least, share * variances.max(), 0.0)
    return directions[:, kept] / np.sqrt(variances[kept])


def planned_networks(
    detect: float,
    covariance: Float[np.ndarray, "test test"],
    out: int,
    kurtosis: float,
    error: LawError,
) -> int:
    """How many networks notice a spread that is wrong by `detect`, as far as that is known before training.

    More networks see further, and leave out the directions in which the law is less sure than they are.
    """
    count = 4
    while True:
        numbers = out * units(covariance, least_variance(count, error), error.share).shape[1]
        unsure = SpreadTest(1.0, 2 / max(error.variance, 1e-9) ** 2, math.inf).detectable
        if numbers == 0 or unsure >= detect:
            raise ValueError(
                f"no number of networks notices a spread that is wrong by {100 * detect:.2g} %: the law does "
                "not know its own spread so well. Give a number of networks, or a law sampled more precisely."
            )
        wanted = enough_networks(detect, numbers, kurtosis, error.variance)
        if wanted <= count:
            return count
        count = wanted


def enough_networks(detect: float, numbers: int, kurtosis: float, unsure: float = 0.0) -> int:
    """The fewest networks of so many independent outputs that notice a spread that is wrong by `detect`."""
    varies = 2 / numbers * (1 + kurtosis) + kurtosis
    freedom = lambda networks: 2 / (varies / (networks - 1) + unsure**2)
    sees = lambda networks: SpreadTest(1.0, freedom(networks), math.inf).detectable <= detect
    most = 4
    while not sees(most):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if sees(middle) else (middle, most)
    return most


def _mean_of_known(w: Float[np.ndarray, "networks out directions"]) -> float:
    """Hotelling's test with the predicted covariance, up to its measured size."""
    networks, numbers = len(w), w.shape[1] * w.shape[2]
    between = networks * np.sum(w.mean(axis=0) ** 2)
    within = np.sum((w - w.mean(axis=0)) ** 2) / (networks - 1)
    return float(special.fdtrc(numbers, numbers * (networks - 1), between / within))


def _mean_of_estimated(y: Float[np.ndarray, "networks numbers"]) -> float:
    r"""The same for correlated numbers: traces of powers of their covariance are estimated.

    $N|\bar y|^2$ is a sum of squares weighted by eigenvalues; a shifted chi squared with its first three
    cumulants stands for it, divided by the chi squared of the measured total variance.
    """
    networks, numbers = y.shape
    centred = y - y.mean(axis=0)
    total = np.sum(centred**2) / (networks - 1)
    gram = centred[:_TRACED] @ centred[:_TRACED].T
    some = len(gram)
    # Two networks share their average, which makes products of centred ones total / networks too small.
    apart = gram - np.diag(np.diag(gram)) + total / networks * (1 - np.eye(some))
    squared = np.sum(apart**2) / (some * (some - 1))
    squared = min(max(squared, total**2 / numbers), total**2)
    cubed = np.sum((apart @ apart) * apart) / (some * (some - 1) * (some - 2))
    cubed = min(max(cubed, squared**2 / total), squared**1.5)
    freedom, skewed = total**2 / squared, squared**3 / cubed**2
    statistic = networks * np.sum(y.mean(axis=0) ** 2) / total
    below = freedom * (networks - 1) / 2
    nodes, weights = np.polynomial.legendre.leggauss(200)
    scale = special.gammaincinv(below, (nodes + 1) / 2) / below
    beyond = skewed + np.sqrt(skewed * freedom) * (statistic * scale - 1)
    return float(weights @ special.chdtrc(skewed, np.maximum(beyond, 0.0)) / 2)


def _shape(w: Float[np.ndarray, "networks out directions"], kurtosis: float) -> float:
    """The covariance of centred deviations against a multiple of one, averaged over outputs."""
    networks, outputs, rank = w.shape
    excess, size, spread = 0.0, 0.0, 0.0
    for x in np.moveaxis(w, 1, 0):
        square, total, own = _traces(x)
        excess, size = excess + square - total / rank, size + total / rank
        spread += own / outputs
    fourth = 1 + max(spread, 2 / rank * (1 + kurtosis) + kurtosis)
    pairs = (networks - 1) * (networks - 2) / 2
    error = fourth * math.sqrt(2 * (rank - 1) / (rank + 2) / pairs / outputs)
    # The skewness of many directions, and that of few pairs of networks.
    freedom = outputs / (((rank - 1) * (rank + 2) / 2) ** -0.5 + pairs**-0.5) ** 2
    beyond = freedom + excess / size / error * math.sqrt(2 * freedom)
    return float(special.chdtrc(freedom, max(beyond, 0.0)))


def _traces(x: Float[np.ndarray, "networks rank"]) -> tuple[float, float, float]:
    """Estimates without bias of tr S^2 and (tr S)^2, and the relative variance of |x|^2; x is centred.

    Sums over different networks follow from sums over all: every row of the Gram matrix adds up to zero.
    """
    n = len(x)
    own = np.sum(x**2, axis=1)
    once, twice = own.sum(), np.sum(own**2)
    pairs = np.sum((x.T @ x) ** 2) - twice
    triples = twice - pairs
    quadruples = once**2 - 4 * triples - 2 * pairs
    two, three = n * (n - 1), n * (n - 1) * (n - 2)
    rest = quadruples / (three * (n - 3))
    square = pairs / two - 2 * triples / three + rest
    total = (once**2 - twice) / two + 2 * (once**2 - 2 * twice) / three + rest
    return float(square), float(total), float(own.var(ddof=1) / own.mean() ** 2)
