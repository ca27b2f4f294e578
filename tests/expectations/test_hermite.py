"""The Hermite series of every activation against quadrature in two dimensions."""

import itertools
import re
import warnings

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import finitewidth as fw
import one_layer
import oracle
from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.hermite import hermite_series
from tolerances import SERIES, assert_close

# A series is slow where kinks are away from zero; those activations have exact laws.
CONTINUOUS = [n for n in fw.ACTIVATION_NAMES if n != "step" and not oracle.NEURONS[n].kinks]
RHO = [-1.0, -0.99999, -0.6, 0.0, 0.45, 0.97, 0.99999, 1.0]

# Largest variance at which the longest series still meets 1e-9 at rho = +-1.
LARGE = {"elu": 12.0, "selu": 12.0}


def series(name: str, terms: int = 64):
    return hermite_series(as_activation(name).function, terms)


@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_a_constant_activation_takes_a_short_series(constant):
    """Its slope vanishes: nothing of it can be missing, and no share of it can be formed."""
    net = fw.MLP((8,), lambda z: constant + 0 * z, C_b=0.2, C_W=1.5, lambda_b=0.3, lambda_W=0.9)
    nngp, ntk = fw.kernels(net, np.array([[1.0, 0.5], [-0.3, 2.0]]))
    assert_close(nngp, np.full((2, 2), 0.2 + 1.5 * constant**2))
    assert_close(ntk, np.full((2, 2), 0.3 + 0.9 * constant**2))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_series_equals_quadrature(name, rng):
    """Random and large variances; the law chooses its own length."""
    q_a = np.array([rng.uniform(0.2, 2.0), LARGE.get(name, 40.0)])
    q_b = [*rng.uniform(0.2, 2.0, len(RHO) - 4), LARGE.get(name, 40.0), q_a[0], q_a[0], LARGE.get(name, 40.0)]
    law = series(name).resolve(jnp.append(q_a, np.array(q_b)), 1e-9)
    truth = one_layer.expected(oracle.NEURONS[name], q_a, q_b, RHO)
    one_layer.assert_averages(one_layer.averages(law, q_a, q_b, RHO), truth, SERIES)


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n != "cos"])
def test_series_at_tiny_variance(name):
    """Down to 1e-10, where eight terms are enough."""
    q_a, q_b, rho = [1e-10, 1e-6], [1e-10, 1e-6, 1e-10], [-1.0, 0.4, 1.0]
    law = series(name).resolve(jnp.array(q_a), 1e-9)
    assert law.terms == 8
    truth = one_layer.expected(oracle.NEURONS[name], q_a, q_b, rho)
    one_layer.assert_averages(one_layer.averages(law, q_a, q_b, rho), truth, SERIES)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_diagonal_equals_quadrature(name):
    q = np.array([1e-8, 0.3, 1.0, 25.0, 1e4])
    if name in ("sin", "cos"):
        q = q[:-1]  # sin(100 u) oscillates faster than the nodes; the built-in law is a closed form
    found = series(name).moments(jnp.asarray(q))
    truth = [oracle.layer(oracle.NEURONS[name], v) for v in q]
    assert_close(found.value, [t.g for t in truth], elementwise=True)
    assert_close(found.slope, [t.h for t in truth], elementwise=True)


@pytest.mark.parametrize("name", ["tanh", "elu"])
def test_series_against_mpmath(name):
    """Nested Gauss-Legendre panels in 20 digits, split at the kinks."""
    q_a, q_b, rho = 0.9, 1.6, 0.35
    value, slope = {
        "tanh": (mpmath.tanh, lambda z: mpmath.sech(z) ** 2),
        "elu": (
            lambda z: z if z > 0 else mpmath.expm1(z),
            lambda z: mpmath.mpf(1) if z > 0 else mpmath.exp(z),
        ),
    }[name]
    law = series(name).resolve(jnp.array([q_a, q_b]), 1e-9)
    found = one_layer.averages(law, [q_a], [q_b], [rho])
    with mpmath.workdps(20):
        rule = mpmath.calculus.quadrature.GaussLegendre(mpmath.mp).calc_nodes(4, 70)

        def average(f, breaks):
            return sum(
                (b - a) / 2 * w * f((a + b) / 2 + (b - a) / 2 * x)
                for a, b in itertools.pairwise(breaks)
                for x, w in rule
            )

        cosine, sine = mpmath.mpf(rho), mpmath.sqrt(1 - mpmath.mpf(rho) ** 2)
        for f, number in ((value, found.value), (slope, found.slope)):

            def inner(u, f=f):
                kink = -cosine * u / sine
                g = lambda v: mpmath.npdf(v) * f(mpmath.sqrt(q_b) * (cosine * u + sine * v))
                return (
                    mpmath.npdf(u)
                    * f(mpmath.sqrt(q_a) * u)
                    * average(g, [kink - 9, kink - 3, kink, kink + 3, kink + 9])
                )

            total = average(inner, [-8, -3, 0, 3, 8])
            assert_close(number, [[float(total)]], SERIES)


@pytest.mark.parametrize("name", ["tanh", "gelu", "softplus"])
def test_parseval(name):
    """At rho = 1 the series adds squares, and must return the one-dimensional average."""
    law, q = series(name, 256), jnp.array([0.2, 1.0, 3.0])
    pair, moments = one_layer.averages(law, q, q, np.ones(3)), law.moments(q)
    assert_close(np.diag(pair.value), moments.value)
    assert_close(np.diag(pair.slope), moments.slope, SERIES)


@pytest.mark.parametrize("name", ["tanh", "relu", "elu", "silu"])
def test_a_tighter_tolerance_never_shortens_the_series(name):
    q = jnp.array([0.5, 3.0])
    lengths = [series(name).resolve(q, t).terms for t in (1e-3, 1e-5, 1e-7, 1e-9)]
    assert lengths == sorted(lengths)
    if name in ("tanh", "silu"):
        assert lengths[0] < lengths[-1]


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_tolerance_is_kept(name, tolerance):
    q, q_b, rho = [0.8, 5.0], [0.8, 5.0, 5.0], [1.0, 0.6, 1.0]
    law = series(name).resolve(jnp.array(q), tolerance)
    truth = one_layer.expected(oracle.NEURONS[name], q, q_b, rho)
    one_layer.assert_averages(one_layer.averages(law, q, q_b, rho), truth, tolerance)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_tolerance_is_kept_for_opposite_inputs(name):
    law = series(name).resolve(jnp.array([0.8, 5.0]), 1e-5)
    truth = one_layer.expected(oracle.NEURONS[name], [5.0], [5.0], [-1.0])
    one_layer.assert_averages(one_layer.averages(law, [5.0], [5.0], [-1.0]), truth, 1e-5)


def test_a_variance_beyond_the_longest_series_warns_with_the_error():
    q = 2.0**20
    with pytest.warns(UserWarning, match=r"variances reach 1\.05e\+06, where 4096 Hermite terms") as record:
        law = series("tanh").resolve(jnp.array([q]), 1e-9)
    stated = float(re.search(r"leave out ([\d.e+-]+)", str(record[0].message)).group(1))
    found = one_layer.averages(law, [q], [q], [1.0])
    missing = 1 - float(found.slope[0, 0]) / oracle.layer(oracle.NEURONS["tanh"], q).h
    assert_close(missing, stated, 0.05)


def test_an_easy_variance_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series("tanh").resolve(jnp.array([0.5, 2.0]), 1e-9)


@pytest.mark.parametrize("name", ["tanh", "relu", "elu"])
def test_float32_stays_and_agrees(name):
    law = series(name)
    q, k = jnp.array([0.4, 2.0]), jnp.array([[0.3, 0.1], [0.1, 1.0]])

    def averages(dtype):
        features = law.features(q.astype(dtype))
        return law.pair(features, features, k.astype(dtype))

    for single, double in zip(averages(jnp.float32), averages(jnp.float64), strict=True):
        assert single.dtype == jnp.float32
        assert_close(single, double.astype(jnp.float32))
