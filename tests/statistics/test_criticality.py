"""Critical points, susceptibilities and exponents against quadrature and against deep recursions."""

import json
import pathlib
import re

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

import finitewidth as fw
import oracle
from finitewidth.statistics.depth.criticality import criticality, susceptibilities
from tolerances import ASYMPTOTIC, CLOSED_FORM, CRITICAL_POINT, DIFFERENCES, SERIES, assert_close

LECTURES = json.loads((pathlib.Path(__file__).parents[1] / "reference" / "lectures.json").read_text())
ZERO_CLASS = {"tanh": 1.0, "sin": 1.0, "erf": np.pi / 4, "elu": 1.0, "selu": None}
HALF_STABLE = ("gelu", "silu", "mish")


def second_moment_imbalance(name: str, K: float) -> float:
    """<sigma sigma''> = d<sigma^2>/dK - <sigma'^2>, by quadrature."""
    layer = oracle.layer(oracle.NEURONS[name], K)
    return layer.g_prime - layer.h


@pytest.mark.parametrize(
    ("name", "C_W"),
    [
        ("linear", 1.0),
        ("relu", 2.0),
        ("abs", 1.0),
        ("leaky_relu", 2 / 1.0001),
        ("leaky_relu:0.5", 1.6),
        ("leaky_relu:-0.2", 2 / 1.04),
    ],
)
def test_scale_invariant_activations(name, C_W):
    point = criticality(name)
    assert point.universality_class == "scale-invariant"
    assert_close([point.C_b, point.C_W], [0.0, C_W])
    assert np.isnan(point.K_star)
    assert point.exponents[2:] == (0.0, 0.0, 1.0)
    assert point.exponents.variance == 0.0
    for K in (0.01, 1.0, 40.0):
        assert_close(susceptibilities(name, K, point.C_W), [1.0, 1.0])


def test_selu_condition_at_zero():
    """Slopes lambda and lambda alpha on the two sides: C_W = 2 / (lambda^2 (1 + alpha^2))."""
    assert_close(criticality("selu").C_W, 2 / oracle.SELU_SCALE**2 / (1 + oracle.SELU_ALPHA**2))


@pytest.mark.parametrize(
    ("name", "C_W", "variance", "amplitude"),
    [
        ("tanh", 1.0, 1, 1 / 2),
        ("sin", 1.0, 1, 1.0),
        ("erf", np.pi / 4, 1, 1 / 2),
        ("elu", 1.0, 2, 2 * np.pi),
        (
            "selu",
            2 / oracle.SELU_SCALE**2 / (1 + oracle.SELU_ALPHA**2),
            2,
            np.pi / 2 * (1 + oracle.SELU_ALPHA**-2) ** 2,
        ),
    ],
)
def test_activations_critical_at_zero(name, C_W, variance, amplitude):
    """An odd z + c z^3 gives K -> K + 6 c K^2; ELU gives K -> K - sqrt(2/pi) K^(3/2)."""
    point = criticality(name)
    assert point.universality_class == "K*=0"
    assert (point.C_b, point.K_star) == (0.0, 0.0)
    assert_close(point.C_W, C_W)
    assert point.exponents.variance == variance
    assert point.exponents.parallel == variance + 1
    assert_close(point.exponents.amplitude, amplitude, CRITICAL_POINT)


@pytest.mark.parametrize(
    ("name", "C_b", "C_W", "K_star"),
    [
        ("gelu", 0.17292239, 1.98305826, (3 + np.sqrt(17)) / 2),
        ("silu", 0.55514317, 1.98800468, 14.32017362),
        ("mish", None, None, None),
    ],
)
def test_half_stable_activations(name, C_b, C_W, K_star):
    point = criticality(name)
    assert point.universality_class == "half-stable"
    if K_star is not None:
        assert_close([point.K_star, point.C_b, point.C_W], [K_star, C_b, C_W], SERIES)
    exact = brentq(lambda K: second_moment_imbalance(name, K), 0.5, 40.0, xtol=1e-14, rtol=1e-14)
    layer = oracle.layer(oracle.NEURONS[name], exact)
    assert_close(point.K_star, exact, CLOSED_FORM)
    assert_close(point.C_W, 1 / layer.h, CLOSED_FORM)
    assert_close(point.C_b, exact - layer.g / layer.h, CLOSED_FORM)
    assert_close(susceptibilities(name, point.K_star, point.C_W), [1.0, 1.0], CLOSED_FORM)


@pytest.mark.parametrize("K", [0.5, (3 + mpmath.sqrt(17)) / 2, 9.0])
def test_gelu_balance_in_closed_form(K):
    r"""sigma = z Phi(z), sigma'' = (2 - z^2) phi(z). Under the Gaussian of variance s = K/(1+K) that phi
    makes of the weight, Stein's lemma leaves

    <sigma sigma''> = s / (2 pi sqrt((1+K)(1+s))) * (2 - 2 s - s/(1+s)),

    and the bracket is -(K^2 - 3K - 2) / ((1+K)(1+2K)): zero at K = (3 + sqrt 17)/2 alone.
    """
    with mpmath.workdps(30):
        K = mpmath.mpf(K)
        density = lambda z: mpmath.npdf(z, 0, mpmath.sqrt(K))
        integrand = lambda z: density(z) * z * mpmath.ncdf(z) * (2 - z**2) * mpmath.npdf(z)
        average = mpmath.quad(integrand, [-12, -4, 0, 4, 12])
        s = K / (1 + K)
        closed = (
            s
            / (2 * mpmath.pi * mpmath.sqrt((1 + K) * (1 + s)))
            * -(K**2 - 3 * K - 2)
            / ((1 + K) * (1 + 2 * K))
        )
        assert abs(average - closed) < mpmath.mpf(10) ** -20


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sigmoid", r"K\* = 0 .*C_b = -4 < 0"),
        ("softplus", r"chi_parallel exceeds chi_perp"),
        ("cos", r"chi_parallel stays below chi_perp"),
        ("step", r"slope vanishes"),
        ("monomial:2", r"chi_parallel exceeds chi_perp"),
        ("monomial:3", r"chi_parallel exceeds chi_perp"),
    ],
)
def test_activations_without_critical_point(name, words):
    point = criticality(name)
    assert point.universality_class == "none"
    assert re.search(words, point.reason)
    assert np.isnan([point.C_b, point.C_W, point.K_star, *point.exponents]).all()


def test_softplus_and_cos_have_no_balance_at_any_variance():
    K = np.geomspace(1e-4, 1e3, 60)
    assert all(second_moment_imbalance("softplus", k) > 0 for k in K)
    assert all(second_moment_imbalance("cos", k) < 0 for k in K)


def deep(name, point, layers, start):
    """Iterate the recursion by quadrature: K, the products of chi, and the NTK at every layer."""
    neuron, K, parallel, perpendicular, theta = oracle.NEURONS[name], start, 1.0, 1.0, 0.0
    rows = []
    for _ in range(layers):
        rows.append((K, parallel, perpendicular, theta))
        g, g_prime, h = oracle.layer(neuron, K)
        theta = 1.0 + g + point.C_W * h * theta
        parallel *= point.C_W * g_prime
        perpendicular *= point.C_W * h
        K = point.C_b + point.C_W * g
    return np.array(rows)


@pytest.mark.parametrize("name", ["tanh", "sin", "erf", "elu", "selu"])
def test_exponents_of_deep_networks(name):
    """Doubling the depth from 2,000 layers multiplies by 2^exponent, up to corrections log(l)/l."""
    point = criticality(name)
    layers, exponents = 4000, point.exponents
    small = 4 * np.log(layers) / layers
    rows = deep(name, point, layers + 1, 1.0)
    found = np.log2(rows[layers] / rows[layers // 2])
    expected = [-exponents.variance, -exponents.parallel, -exponents.perpendicular, exponents.ntk]
    assert (np.abs(found - expected) < small).all(), (found, expected)
    # (amplitude / K)^(1/variance) grows by one per layer.
    clock = (exponents.amplitude / rows[:, 0]) ** (1 / exponents.variance)
    assert_close((clock[layers] - clock[layers // 2]) / (layers // 2), 1.0, small)


@pytest.mark.parametrize("name", ["gelu", "silu", "mish"])
def test_exponents_at_a_half_stable_point(name):
    """D -> D + a D^2 and chi_perp = 1 + b D with a = C_W g''/2, b = C_W h': by quadrature, then by depth."""
    point = criticality(name)
    neuron, K, exponents = oracle.NEURONS[name], point.K_star, point.exponents
    u = lambda z: z / np.sqrt(K)
    curvature = oracle.line_average(lambda z: neuron.value(z) ** 2 * (u(z) ** 4 - 6 * u(z) ** 2 + 3), K) / (
        4 * K**2
    )
    h_prime = oracle.line_average(lambda z: neuron.slope(z) ** 2 * (u(z) ** 2 - 1), K) / (2 * K)
    a, b = point.C_W * curvature / 2, point.C_W * h_prime
    assert_close(exponents.amplitude, -1 / a, CRITICAL_POINT)
    assert (exponents.variance, exponents.parallel) == (1.0, 2.0)
    # The sum of b D with D = -1 / (a l) is -(b / a) log(l).
    assert_close(exponents.perpendicular, b / a, CRITICAL_POINT)
    assert exponents.ntk == max(1.0, -exponents.perpendicular)

    start = 1e-3 * np.sign(exponents.amplitude)
    rows = deep(name, point, 2001, K + start)
    distance = (rows[:, 0] - K) / start
    assert distance[-1] < 1
    clock = exponents.amplitude / (rows[:, 0] - K)
    assert_close((clock[-1] - clock[0]) / 2000, 1.0, ASYMPTOTIC)
    assert_close(np.log(rows[-1, 1]) / np.log(distance[-1]), exponents.parallel, ASYMPTOTIC)
    assert_close(np.log(rows[-1, 2]) / np.log(distance[-1]), exponents.perpendicular, ASYMPTOTIC)


def test_the_tangent_kernel_follows_gradients_that_grow_faster_than_depth():
    """GELU approaches its critical point from the side where chi_perp > 1: no linear growth there."""
    growth, decay = criticality("gelu").exponents, criticality("mish").exponents
    assert growth.perpendicular < -1
    assert growth.ntk == -growth.perpendicular
    assert decay.perpendicular > 0
    assert decay.ntk == 1.0


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_susceptibilities_equal_differences_of_the_layer_map(name):
    """chi_parallel = C_W dg/dK, extrapolated from central differences; chi_perp = C_W <sigma'^2>."""
    K, C_W = np.array([0.3, 1.0, 7.0]), 1.4
    found = susceptibilities(name, jnp.asarray(K), C_W)

    def difference(k, h):
        return (oracle.layer(oracle.NEURONS[name], k + h).g - oracle.layer(oracle.NEURONS[name], k - h).g) / (
            2 * h
        )

    slopes = [
        (64 * difference(k, k / 400) - 20 * difference(k, k / 200) + difference(k, k / 100)) / 45 for k in K
    ]
    assert_close(np.asarray(found.parallel) + 1, C_W * np.array(slopes) + 1, DIFFERENCES)
    assert_close(found.perpendicular, [C_W * oracle.layer(oracle.NEURONS[name], k).h for k in K])


def test_susceptibilities_of_the_lectures():
    for K, expected in LECTURES["criticality-conditions"].items():
        found = susceptibilities("tanh", float(K), 1.0)
        assert_close(found, [expected["chi_par"], expected["chi_perp"]])
    assert_close(
        susceptibilities("relu", 3.0, 2.0),
        [LECTURES["relu-critical"]["chi_par"], LECTURES["relu-critical"]["chi_perp"]],
    )


@pytest.mark.parametrize(("C_b", "C_W"), [(0.3, 0.8), (0.1, 2.5)])
def test_correlation_lengths_are_those_of_the_layer_map(C_b, C_W):
    """Iterate K -> C_b + C_W <tanh^2> by quadrature; then 1/|log| of its slope, and of C_W <sech^4>."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    mean = lambda f, K: float(f(np.sqrt(K) * nodes) @ weights / weights.sum())
    layer = lambda K: C_b + C_W * mean(lambda z: np.tanh(z) ** 2, K)
    K, h = 1.0, 1e-5
    for _ in range(500):
        K = layer(K)
    slope = (layer(K + h) - layer(K - h)) / (2 * h)
    passed = C_W * mean(lambda z: np.cosh(z) ** -4.0, K)
    found = fw.correlation_lengths("tanh", C_b, C_W)
    assert_close(found.parallel, 1 / abs(np.log(slope)), 1e-5)
    assert_close(found.perpendicular, 1 / abs(np.log(passed)), 1e-5)
    assert abs(found.parallel / found.perpendicular - 1) > 0.2
    diagram = fw.phase_diagram("tanh", C_W=np.array([C_W]), C_b=np.array([C_b]))
    assert_close(diagram.correlation_length, np.array([[found.perpendicular]]), 1e-9)
    assert_close(diagram.K_star, np.array([[K]]), 1e-8)


def test_susceptibilities_broadcast():
    found = susceptibilities("tanh", np.array([0.1, 0.5]), np.array([1.0, 2.0]))
    one = [susceptibilities("tanh", K, C_W) for K, C_W in ((0.1, 1), (0.5, 2))]
    assert_close(found.parallel, [float(o.parallel) for o in one])
    assert_close(found.perpendicular, [float(o.perpendicular) for o in one])


@pytest.mark.parametrize(
    ("K", "C_W", "word"),
    [(0.0, 1.0, "K"), (-1.0, 1.0, "K"), (np.nan, 1.0, "K"), (1.0, 0.0, "C_W"), (1.0, np.inf, "C_W")],
)
def test_bad_variances(K, C_W, word):
    with pytest.raises(ValueError, match=rf"^{word} must be finite and positive, got"):
        susceptibilities("tanh", K, C_W)


def test_any_function_has_a_critical_point():
    """arctan = z - z^3/3 + ...: K -> K - 2 K^2."""
    point = criticality(jnp.arctan)
    assert (point.universality_class, point.C_b, point.C_W) == ("K*=0", 0.0, 1.0)
    assert_close(point.exponents.amplitude, 0.5, CRITICAL_POINT)


@pytest.mark.parametrize("name", ["hard_tanh", "relu6"])
def test_variances_fall_more_slowly_than_any_power_where_the_activation_is_straight_around_zero(name):
    """The power that depth 10 to 1000 shows falls towards the exponent zero, by the recursion itself."""
    point = fw.criticality(name)
    assert point.exponents[:4:2] == (0.0, 0.0)
    K, seen = oracle.NEURONS[name].kinks[-1] ** 2, {}
    for depth in range(1, 2001):
        K = point.C_W * oracle.layer(oracle.NEURONS[name], K).g
        seen[depth] = K
    powers = [np.log(seen[d] / seen[2 * d]) / np.log(2) for d in (10, 100, 1000)]
    assert powers[0] > powers[1] > powers[2] > 0
    assert powers[2] < 0.25
