"""Closed pair averages against quadrature in two dimensions and against the Hermite series."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import finitewidth as fw
import one_layer
import oracle
from finitewidth.architecture.activations import as_activation
from tolerances import CLOSED_FORM, SERIES, assert_close

CLOSED = [n for n in fw.ACTIVATION_NAMES if as_activation(n).closed_form is not None]
FAMILIES = {
    "leaky_relu:0.2": oracle.piecewise(0.2),
    "leaky_relu:-0.5": oracle.piecewise(-0.5),
    "monomial:1": oracle.power(1),
    "monomial:2": oracle.power(2),
    "monomial:3": oracle.power(3),
    "monomial:4": oracle.power(4),
}
NEURONS = {n: oracle.NEURONS[n] for n in CLOSED} | FAMILIES

# Every correlation meets tiny, ordinary and large variances, equal ones among them.
RHO = [-1.0, -0.999999, -0.83, 0.0, 0.31, 0.9, 0.999999, 1.0]
VARIANCES = [1e-8, 0.4, 1.7, 60.0]


def test_these_activations_have_closed_forms():
    polygons = ["relu6", "hard_tanh", "hard_sigmoid"]
    assert ["linear", "relu", "leaky_relu", "abs", "step", "erf", "sin", "cos", "gelu", *polygons] == CLOSED


@pytest.mark.parametrize("name", NEURONS)
def test_closed_form_equals_quadrature(name, rng):
    q_b = [*rng.choice(VARIANCES, len(RHO) - 4), *VARIANCES]
    columns = q_b, [*RHO[2:6], *RHO[:2], *RHO[6:]]
    truth = one_layer.expected(NEURONS[name], VARIANCES, *columns)
    found = one_layer.averages(as_activation(name).law(), VARIANCES, *columns)
    one_layer.assert_averages(found, truth, CLOSED_FORM)


@pytest.mark.parametrize("name", NEURONS)
def test_diagonal_equals_quadrature(name):
    found = as_activation(name).law().moments(jnp.array(VARIANCES))
    truth = [oracle.layer(NEURONS[name], q) for q in VARIANCES]
    assert_close(found.value, [t.g for t in truth], CLOSED_FORM, elementwise=True)
    assert_close(found.slope, [t.h for t in truth], CLOSED_FORM, elementwise=True)


@pytest.mark.parametrize("name", [n for n in NEURONS if n != "step" and not NEURONS[n].kinks])
def test_closed_form_equals_series(name, rng):
    q_a, q_b = rng.uniform(0.1, 3.0, 5), rng.uniform(0.1, 3.0, 8)
    rho = [-1.0, 1.0, 0.0, *rng.uniform(-1, 1, 5)]
    exact = as_activation(name).law()
    series = (
        fw.Activation(as_activation(name).function, name="plain").law().resolve(jnp.append(q_a, q_b), 1e-9)
    )
    assert series.terms
    found, truth = (one_layer.averages(law, q_a, q_b, rho) for law in (series, exact))
    assert_close(found.value, truth.value, SERIES)
    assert_close(found.slope, truth.slope, SERIES)


@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_closed_form_against_mpmath(name):
    """Cartesian quadrature in 25 digits: a second opinion on the other oracle too."""
    q_a, q_b, rho = 0.7, 1.9, -0.6
    value, slope = {
        "erf": (mpmath.erf, lambda z: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(z**2))),
        "gelu": (lambda z: z * mpmath.ncdf(z), lambda z: mpmath.ncdf(z) + z * mpmath.npdf(z)),
    }[name]
    with mpmath.workdps(25):
        panels = [-11, -5, 0, 5, 11]
        nodes = [
            ((a + b) / 2 + (b - a) / 2 * x, (b - a) / 2 * w)
            for a, b in itertools.pairwise(panels)
            for x, w in mpmath.calculus.quadrature.GaussLegendre(mpmath.mp).calc_nodes(4, 85)
        ]
        nodes = [(u, w * mpmath.npdf(u)) for u, w in nodes]
        cosine, sine = mpmath.mpf(rho), mpmath.sqrt(1 - mpmath.mpf(rho) ** 2)
        for f, index in ((value, 0), (slope, 1)):
            left = [(u, w * f(mpmath.sqrt(q_a) * u)) for u, w in nodes]
            total = sum(
                a * b * f(mpmath.sqrt(q_b) * (cosine * u + sine * v)) for u, a in left for v, b in nodes
            )
            found = one_layer.averages(as_activation(name).law(), [q_a], [q_b], [rho])[index]
            assert_close(found, [[float(total)]])
            assert_close(oracle.pair_averages(oracle.NEURONS[name], q_a, q_b, rho)[index], float(total))


@pytest.mark.parametrize("name", NEURONS)
def test_slope_average_is_the_derivative_in_the_covariance(name):
    """Price's theorem; the step function is left out, whose slope back-propagation does not see."""
    law = as_activation(name).law()
    q_a, q_b = jnp.array([0.6, 2.1]), jnp.array([1.3, 0.2, 40.0])
    k = 0.7 * jnp.sqrt(q_a[:, None] * q_b) * jnp.array([[1, -1, 0.3], [0.9, -0.2, 0.5]])

    def value(k):
        return law.pair(law.features(q_a), law.features(q_b), k).value

    (_, derivative) = jax.jvp(value, (k,), (jnp.ones_like(k),))
    if name != "step":
        assert_close(law.pair(law.features(q_a), law.features(q_b), k).slope, derivative)


@pytest.mark.parametrize("q", [1e10, 1e15])
@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_large_variance_is_the_hard_limit(name, q):
    """erf becomes the sign function and GELU the ReLU, without overflow or cancellation."""
    rho = np.array([-0.9, 0.0, 0.6])
    found = one_layer.averages(as_activation(name).law(), [q], [q] * 3, rho).value[0]
    arcsine = np.arcsin(rho)
    relu = q * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / (2 * np.pi)
    limit, rate = (2 / np.pi * arcsine, 1 / q) if name == "erf" else (relu, 1 / q)
    assert_close(found, limit, max(2 * rate, CLOSED_FORM))


def test_sinusoids_neither_overflow_nor_vanish():
    """<sin sin> = exp(-q) sinh(k): at k = q it tends to 1/2, at k = -q to -1/2, at q << 1 to k."""
    found = one_layer.averages(as_activation("sin").law(), [1e6, 1e-14], [1e6, 1e6, 1e-14], [1, -1, 1])
    assert_close(found.value[0, :2], [0.5, -0.5])
    assert_close(found.value[1, 2], 1e-14)


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5])
def test_monomial_moments_are_those_of_a_gaussian(power):
    law = as_activation(f"monomial:{power}").law()
    q = jnp.array([0.3, 2.0])
    value, slope = law.moments(q)
    double_factorial = [1, 1, 3, 15, 105, 945]
    assert_close(value, double_factorial[power] * q**power)
    assert_close(slope, power**2 * double_factorial[power - 1] * q ** (power - 1))


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_a_dead_input_gives_finite_averages(name):
    """Variance zero can only be reached by underflow; the average is then sigma(0) <sigma>."""
    found = one_layer.averages(as_activation(name).law(16), [0.0], [1.3], [0.0])
    sigma_zero = oracle.NEURONS[name].value(np.zeros(()))
    if name != "step":
        mean = oracle.line_average(oracle.NEURONS[name].value, 1.3)
        assert_close(found.value[0, 0] + 1, sigma_zero * mean + 1)
    assert np.isfinite(found.slope).all()
