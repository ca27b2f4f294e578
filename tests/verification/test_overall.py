"""Tests of a law as a whole: what they compute, how often they raise a false alarm, and what they notice."""

import itertools

import numpy as np
import pytest
from scipy import stats

from finitewidth.verification.overall import (
    RATE,
    LawError,
    SpreadTest,
    _mean_of_estimated,
    _traces,
    compare,
    enough_networks,
    in_units,
    least_variance,
    planned_networks,
)
from tolerances import assert_close


@pytest.fixture
def draw(rng):
    """Outputs of Gaussian networks with a covariance, and what they were drawn from."""
    root = np.tril(rng.normal(size=(4, 4))) + 2 * np.eye(4)
    mean = rng.normal(size=(4, 2))

    def networks(count, scale=1.0):
        noise = rng.normal(size=(count, 4, 2))
        return mean + scale * np.einsum("ts,nso->nto", root, noise), mean, root @ root.T

    return networks


def distances(outputs, centre, covariance):
    """Squared distances of Mahalanobis, added over outputs."""
    gap = outputs - centre
    return np.einsum("nto,ts,nso->n", gap, np.linalg.inv(covariance), gap)


def test_the_mean_is_judged_by_hotellings_distance(draw):
    outputs, mean, covariance = draw(12)
    average = outputs.mean(axis=0)
    between = 12 * distances(average[None], mean, covariance)[0] / 8
    within = distances(outputs, average, covariance).sum() / (8 * 11)
    assert_close(compare(outputs, mean, covariance).mean, stats.f.sf(between / within, 8, 88), 1e-9)
    # A spread of another size is not a wrong mean.
    assert_close(compare(outputs, mean, 9 * covariance).mean, compare(outputs, mean, covariance).mean, 1e-9)


def test_one_output_is_judged_by_the_test_of_student(rng):
    outputs = rng.normal(size=(9, 1, 1))
    p = stats.ttest_1samp(outputs[:, 0, 0], 0.4).pvalue
    assert_close(compare(outputs, np.array([[0.4]]), np.array([[1.7]])).mean, p, 1e-10)


def test_the_spread_is_judged_by_chi_squared(rng):
    """Networks of equal distance from their average vary less than Gaussian ones, which is not believed."""
    signs = np.array([1.0, -1.0] * 5)[:, None]
    outputs = (signs * np.array([1.0, 2.0, 2.0]))[:, :, None]
    covariance = np.diag([2.0, 3.0, 5.0])
    # Each distance is 1/2 + 4/3 + 4/5, and 30 numbers lose one degree of freedom in three directions.
    chi = 10 * (1 / 2 + 4 / 3 + 4 / 5)
    tails = stats.chi2.cdf(chi, 27), stats.chi2.sf(chi, 27)
    spread = compare(outputs, np.zeros((3, 1)), covariance).spread
    assert_close(spread.variance, chi / 27)
    assert_close(spread.freedom, 27)
    assert spread.trust == np.inf
    assert_close(spread.p, 2 * min(tails), 1e-10)
    assert_close(spread.ratio.value, np.sqrt(chi / 27))
    assert_close(spread.ratio.sem, np.sqrt(chi / 27 / 54))
    # A kernel of its own for each network: 2/3 and 0.09 become 2/3 + 0.06 + 0.09.
    wider = compare(outputs, np.zeros((3, 1)), covariance, kurtosis=0.09).spread
    assert_close(wider.freedom, 2 * 9 / (2 / 3 + 0.06 + 0.09))
    # The law knows its own variance to a tenth.
    unsure = compare(outputs, np.zeros((3, 1)), covariance, error=LawError(variance=0.1)).spread
    assert_close(unsure.freedom, 2 / (2 / 27 + 0.01))


def test_networks_that_vary_more_than_gaussian_ones_are_believed():
    sizes = np.array([1.0, 3.0, 1.0, 3.0, 1.0, 3.0])
    outputs = np.concatenate([sizes, -sizes])[:, None, None] * np.ones((12, 4, 1))
    spread = compare(outputs, np.zeros((4, 1)), np.eye(4)).spread
    q = np.concatenate([sizes, sizes]) ** 2 * 12 / 11
    varies = q.var(ddof=1) / q.mean() ** 2
    assert_close(spread.freedom, 2 * 11 / varies)
    assert_close(spread.trust, 11 / (1 - 0.5 / varies) ** 2)
    tail = stats.chi2.sf(spread.freedom * spread.variance, spread.freedom)
    assert_close(spread.p, 2 * stats.t.sf(stats.norm.isf(tail), spread.trust), 1e-8)


def test_traces_are_averages_over_different_networks(rng):
    """Every choice of four of six networks, one by one."""
    x = rng.normal(size=(6, 3)) * [1.0, 2.0, 0.5]
    half = lambda a, b: 0.5 * np.outer(a - b, a - b)
    fours = [[half(x[i], x[j]), half(x[k], x[m])] for i, j, k, m in itertools.permutations(range(6), 4)]
    square, total, varies = _traces(x - x.mean(axis=0))
    assert_close(square, np.mean([np.trace(a @ b) for a, b in fours]), 1e-11)
    assert_close(total, np.mean([np.trace(a) * np.trace(b) for a, b in fours]), 1e-11)
    own = np.sum((x - x.mean(axis=0)) ** 2, axis=1)
    assert_close(varies, own.var(ddof=1) / own.mean() ** 2)


def test_probabilities_are_those_of_networks_that_follow_the_law(rng):
    """At one in twenty, where 1,200 draws are enough to tell: Gaussian networks, and kernels that fluctuate.

    Approximations may be cautious; the mean of Gaussian networks is exact.
    """
    draws, level = 1200, 0.05
    error = np.sqrt(level * (1 - level) / draws)
    for networks, test, out, varying in ((12, 6, 2, 0.0), (40, 8, 1, 0.1)):
        found = []
        for _ in range(draws):
            outputs = rng.normal(size=(networks, test, out))
            size = np.exp(np.sqrt(np.log1p(varying)) * rng.normal(size=(networks, 1, 1)) / 2)
            outputs *= size / (1 + varying) ** 0.25
            whole = compare(outputs, np.zeros((test, out)), np.eye(test), kurtosis=varying / 2)
            found.append((whole.mean, whole.spread.p, whole.shape))
        mean, spread, shape = np.mean(np.array(found) < level, axis=0)
        assert abs(mean - level) < 4 * error
        assert 0.6 * level < spread < level + 4 * error
        assert 0.6 * level < shape < level + 4 * error


def test_the_shape_of_the_covariance_is_seen_and_its_size_is_not(rng):
    outputs = rng.normal(size=(300, 10, 1))
    mean = np.zeros((10, 1))
    assert_close(compare(outputs, mean, 4 * np.eye(10)).shape, compare(outputs, mean, np.eye(10)).shape, 1e-9)
    assert compare(outputs, mean, np.diag([2.0] * 5 + [1.0] * 5)).shape < RATE
    # Less than two directions have no shape, and three networks no four.
    assert compare(outputs[:, :1], mean[:1], np.eye(1)).shape is None
    assert compare(outputs[:3], mean, np.eye(10)).shape is None


def test_variances_alone_judge_the_mean_by_correlations_of_the_networks(rng):
    """One large eigenvalue and many small ones: the probability is that of the weighted chi squared."""
    weights = np.concatenate([[1.0], np.full(50, 0.02)])
    basis = np.linalg.qr(rng.normal(size=(51, 51)))[0]
    outputs = rng.normal(size=(2000, 51)) * np.sqrt(weights) @ basis.T
    outputs += (basis[:, 0] * np.sqrt(6.0 / 2000)) - outputs.mean(axis=0)
    law = rng.chisquare(1, size=(200_000, 2)) @ [1.0, 0.0] + 0.02 * rng.chisquare(50, size=200_000)
    expected = np.mean(law > 6.0)
    assert 0.8 * expected < _mean_of_estimated(outputs) < 1.25 * expected


def test_variances_alone_judge_as_the_covariance_does_where_outputs_are_independent(rng):
    outputs = 0.1 + rng.normal(size=(500, 20, 1))
    known, alone = (compare(outputs, np.zeros((20, 1)), law) for law in (np.eye(20), np.ones(20)))
    assert (alone.whitened, alone.shape, alone.directions) == (False, None, 20)
    assert 0.5 < np.log(alone.mean) / np.log(known.mean) < 2
    assert_close(alone.spread.variance, known.spread.variance)


@pytest.mark.parametrize("trust", [30.0, np.inf])
def test_what_is_detectable_is_noticed_nineteen_times_in_twenty(rng, trust):
    """Chi squared drawn for a spread that is wrong by as much, too large and too small."""
    freedom, draws = 120.0, 6000
    wrong = SpreadTest(1.0, freedom, trust).detectable
    noticed = []
    for factor in (1 + wrong, 1 - wrong):
        drawn = factor**2 * rng.chisquare(freedom, size=draws) / freedom
        noticed.append(np.mean([SpreadTest(v, freedom, trust).p < RATE for v in drawn]))
    error = np.sqrt(0.95 * 0.05 / draws)
    assert abs(min(noticed) - 0.95) < 4 * error
    assert max(noticed) >= 0.95


def test_so_few_networks_that_nothing_is_ever_noticed():
    assert SpreadTest(1.0, 2.0, 0.2).detectable == np.inf


def test_the_power_that_was_asked_for(rng):
    """10 per cent in the spread with 200 networks at rank 30, 5 per cent with 1,000: in nine of ten runs."""
    for networks, factor in ((200, 1.1), (200, 1 / 1.1), (1000, 1.05)):
        noticed = [
            "spread"
            in compare(factor * rng.normal(size=(networks, 30, 1)), np.zeros((30, 1)), np.eye(30)).alarms
            for _ in range(20)
        ]
        assert np.mean(noticed) >= 0.9


def test_enough_networks_are_the_fewest():
    for detect, numbers, kurtosis in ((0.05, 30, 0.03), (0.3, 2, 0.0), (2.0, 100, 0.0)):
        count = enough_networks(detect, numbers, kurtosis)
        varies = 2 / numbers * (1 + kurtosis) + kurtosis
        seen = [SpreadTest(1.0, 2 * (n - 1) / varies, np.inf).detectable for n in (count, count - 1)]
        assert seen[0] <= detect
        assert count == 3 or seen[1] > detect
        assert enough_networks(detect, numbers, kurtosis, detect / 8) > count or count == 3


def test_directions_below_what_the_law_leaves_out_are_left_out():
    outputs = np.ones((5, 3, 1))
    covariance = np.diag([4.0, 1.0, 0.3])
    assert_close(in_units(outputs, covariance)[0, 0] ** 2, np.array([1 / 0.3, 1.0, 0.25]))
    assert in_units(outputs, covariance, share=0.1).shape == (5, 1, 2)
    assert in_units(outputs, covariance, least=1.5).shape == (5, 1, 1)
    assert in_units(outputs, np.diag(covariance), share=0.1).shape == (5, 1, 2)
    assert in_units(outputs, -covariance).shape == (5, 1, 0)
    assert compare(outputs, np.zeros((3, 1)), np.zeros((3, 3))) is None


def test_directions_in_which_the_law_is_less_sure_than_the_networks_are_left_out():
    """From a tenth of the variance of an average, or of the variance of a variance, on."""
    for networks in (50, 400):
        of_mean = least_variance(networks, LawError(mean=0.2))
        assert_close(0.2**2, 0.1 * of_mean / networks)
        of_covariance = least_variance(networks, LawError(covariance=0.3))
        assert_close((0.3 / of_covariance) ** 2, 0.1 * 2 / networks)
        assert least_variance(networks, LawError(mean=0.2, covariance=0.3)) == max(of_mean, of_covariance)


def test_a_plan_takes_the_directions_that_so_many_networks_leave():
    covariance = np.diag([1.0] * 6 + [0.02] * 30)
    plan = lambda **error: planned_networks(0.1, covariance, 2, 0.01, LawError(**error))
    assert plan() == enough_networks(0.1, 72, 0.01)
    assert plan(share=0.1) == enough_networks(0.1, 12, 0.01)
    # Small variances are above 10 networks times the squared error of the mean for 20 networks and fewer.
    assert enough_networks(0.1, 72, 0.01) > 20
    assert plan(mean=0.01) == enough_networks(0.1, 12, 0.01)
    with pytest.raises(ValueError, match="no number of networks notices a spread that is wrong by 10 %"):
        plan(variance=0.2)
    with pytest.raises(ValueError, match="no number of networks"):
        plan(mean=1.0)


def test_the_errors_of_a_law_are_averages_over_directions():
    covariance = np.diag([4.0, 1.0])
    error = LawError.of(covariance, 0.3, np.array([[3.0], [4.0]]), np.array([[0.5, 0.1], [0.1, 0.25]]))
    assert_close(error.mean, np.sqrt(12.5))
    assert_close(error.covariance, np.sqrt(0.25 + 0.02 + 0.0625) / 2)
    assert_close(error.variance, 0.75 / 5)
    assert LawError.of(np.array([4.0, 1.0]), 0.3, None, None) == LawError(share=0.3)
