"""Products of chi-squares against 40 digits, Bessel functions and plain integrals; random Gram matrices."""

import json
import pathlib

import jax
import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import finitewidth as fw
from finitewidth.course.deep_linear_networks.theory.marchenko_pastur import MarchenkoPastur
from finitewidth.statistics.exact.deep_linear import ChiSquareProduct, weight_norm
from tolerances import CLOSED_FORM, ROUNDING, SERIES, assert_close

REFERENCE = pathlib.Path(__file__).parents[1] / "reference"
LECTURES = json.loads((REFERENCE / "exact-laws.json").read_text())
EVIDENCE = json.loads((REFERENCE / "deep-linear-evidence.json").read_text())["cases"]


def name(case) -> str:
    layers = "-".join(f"{n}x{count}" for n, count in case["widths"])
    return f"{layers}, P={case['points']}, c={case['c']:g}, k={case['k']}"


@pytest.mark.parametrize("case", EVIDENCE, ids=name)
def test_averages_agree_with_forty_digits(case):
    """1e-8 relative in F, whose logarithm goes from -1e4 to 1e4, at n, L and P up to a thousand."""
    widths = [n for n, count in case["widths"] for _ in range(count)]
    found = ChiSquareProduct(widths).log_average(case["k"] - case["points"] / 2, case["c"])
    assert abs(found - float(case["log_average"])) < SERIES


@pytest.mark.parametrize(("n", "P", "c"), [(5, 2, 1.3), (8, 3, 0.4), (200, 90, 70.0), (60, 100, 3.0)])
def test_one_layer_is_a_bessel_function(n, P, c):
    mpmath.mp.dps = 30
    bessel = mpmath.besselk(mpmath.mpf(n - P) / 2, mpmath.sqrt(2 * c * n))
    expected = (
        mpmath.log(2 * bessel) + mpmath.mpf(P) / 2 * mpmath.log(n)
        + mpmath.mpf(n - P) / 4 * mpmath.log(2 * c * n)
        - mpmath.mpf(n) / 2 * mpmath.log(2) - mpmath.loggamma(mpmath.mpf(n) / 2)
    )  # fmt: skip
    assert_close(ChiSquareProduct((n,)).log_average(-P / 2, c), float(expected), CLOSED_FORM)


def test_two_layers_by_a_double_sum():
    """The trapezoidal rule in both logarithms converges exponentially."""
    u = np.arange(-30, 6, 0.05)
    chi = lambda n, log_q: np.exp(stats.chi2.logpdf(n * np.exp(log_q), n) + np.log(n) + log_q)
    s = np.exp(u[:, None] + u)
    weight = chi(4, u)[:, None] * chi(6, u) * 0.05**2
    average = np.sum(weight * s**-1.5 * np.exp(-0.7 / s))
    law = ChiSquareProduct((4, 6))
    assert_close(np.exp(law.log_average(-1.5, 0.7)), average, CLOSED_FORM)
    density = np.sum(chi(4, u) * chi(6, np.log(0.8) - u)) * 0.05
    assert_close(np.exp(law.log_density(np.log(0.8))), density, CLOSED_FORM)


def test_density_moments_and_logarithm_belong_together():
    law = ChiSquareProduct((4, 9, 6))
    u = np.arange(-25, 8, 0.1)
    density = np.exp([law.log_density(float(v)) for v in u]) * 0.1
    assert_close(density.sum(), 1.0, CLOSED_FORM)
    for power in (-0.8, 1.0, 2.0):
        assert_close(density @ np.exp(power * u), law.moment(power), CLOSED_FORM)
    assert_close(density @ u, law.mean_log, CLOSED_FORM)
    assert_close(density @ (u - law.mean_log) ** 2, law.variance_log, CLOSED_FORM)
    assert_close(law.moment(2), (1 + 2 / 4) * (1 + 2 / 9) * (1 + 2 / 6))


def test_one_factor_is_a_chi_square_and_none_is_one():
    assert_close(
        ChiSquareProduct((7,)).log_density(np.log(0.6)), np.log(7 * 0.6) + stats.chi2.logpdf(7 * 0.6, 7)
    )
    one = ChiSquareProduct(())
    assert one.log_average(-3.0, 1.7) == -1.7
    assert one.moment(5) == 1
    with pytest.raises(ValueError, match="widths is empty, so s is one"):
        one.log_density(0.0)


def test_averages_at_zero_are_moments_or_infinite():
    law = ChiSquareProduct((5, 8))
    assert_close(law.log_average(-2.0, 1e-9), law.log_average(-2.0, 0.0), 1e-3)
    assert law.log_average(-2.5, 0.0) == np.inf
    with pytest.raises(ValueError, match="c must be zero or more, got -1"):
        law.log_average(1.0, -1)


def test_samples_have_the_law():
    law = ChiSquareProduct((5, 3))
    logs = law.sample_log(jax.random.key(0), 4000)
    assert abs(logs.mean() - law.mean_log) < 4 * np.sqrt(law.variance_log / 4000)
    assert abs(np.exp(logs).mean() - 1) < 4 * np.sqrt((law.moment(2) - 1) / 4000)


@pytest.mark.parametrize("case", LECTURES["deep-linear-norm-law"])
def test_length_of_the_weights(case):
    """The reference counts all factors, the inputs among them."""
    n, factors = (int(part.split("=")[1]) for part in case.split(","))
    law = weight_norm(fw.MLP((n,) * (factors - 1), "linear", 0.0, 1.0), n)
    expected = LECTURES["deep-linear-norm-law"][case]
    assert_close(law.mean_log, expected["mean_log"], CLOSED_FORM)
    assert_close(law.variance_log, expected["var_log"], CLOSED_FORM)
    assert_close(np.array(law.log_normal()), np.array(expected["leading"]), ROUNDING["float64"])


def test_the_prior_variance_scales_the_length():
    plain, scaled = (weight_norm(fw.MLP((4, 7), "linear", 0.0, C_W), 3) for C_W in (1.0, (2.0, 0.5, 3.0)))
    assert_close(scaled.moment(4), 9 * plain.moment(4))
    assert_close(plain.moment(4), (1 + 2 / 3) * (1 + 2 / 4) * (1 + 2 / 7))
    assert_close(scaled.mean_log - plain.mean_log, np.log(3) / 2)
    assert_close(scaled.log_normal().mean_log - plain.log_normal().mean_log, np.log(3) / 2)


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (fw.MLP((4,), "relu"), "activation 'relu' is not 'linear'"),
        (fw.MLP((4,), "linear", 0.1, 1.0), r"C_b = \(0.1, 0.1\) must be zero"),
        (fw.MLP((4,), "linear", 0.0, 1.0, n_out=2), "n_out = 2 must be 1"),
    ],
)
def test_what_has_no_law_is_refused(net, sentence):
    with pytest.raises(ValueError, match=sentence):
        weight_norm(net, 3)


@pytest.mark.parametrize("ratio", LECTURES["marchenko-pastur"])
def test_spectrum_of_random_inputs(ratio):
    law, expected = MarchenkoPastur(float(ratio)), LECTURES["marchenko-pastur"][ratio]
    assert_close(np.array(law.edges), np.array(expected["edges"]))
    assert_close(np.array([law.moment(k) for k in (1, 2, 3)]), np.array(expected["moments"]))
    low, high = law.edges
    for k in range(4):
        mass = quad(lambda x, k=k: x**k * float(law.density(np.array(x))), low, high, limit=200)[0]
        assert_close(mass, law.moment(k), 1e-7)
    middle = np.array([low, 0.7, high, high + 1])
    inside = quad(lambda x: float(law.density(np.array(x))), low, 0.7, limit=200)[0]
    assert_close(law.cdf(middle), np.array([0, inside, 1, 1]), 1e-7)


def test_more_points_than_features_leave_zeros():
    law = MarchenkoPastur(2.5)
    assert_close(law.zeros, 0.6)
    assert_close(law.cdf(np.array([-1.0, 0.0, 9.0])), np.array([0.0, 0.6, 1.0]))
    assert_close(law.moment(2), 3.5)
    with pytest.raises(ValueError, match="ratio must be a positive number"):
        MarchenkoPastur(0.0)
