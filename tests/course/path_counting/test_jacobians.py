"""Moments over paths against full enumeration in fractions, real networks and the reference."""

import itertools
import json
import pathlib
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course.path_counting.theory.eigenvalue_bounds import ntk_eigenvalue_bounds
from finitewidth.course.path_counting.theory.jacobians import exponential_growth, jacobian_moments, log_norm
from finitewidth.expectations.kinked.piecewise_linear import Slopes
from finitewidth.statistics.exact.paths import path_count, path_sum
from tolerances import CLOSED_FORM, assert_close

LECTURES = json.loads((pathlib.Path(__file__).parents[2] / "reference" / "exact-laws.json").read_text())

# Symmetric laws with few values, each equally likely: variance and fourth moment over squared variance.
LAWS = {"signs": (-1, 1), "four values": (-2, -1, 1, 2)}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("left", [Fraction(0), Fraction(1, 2)])
def test_one_hidden_layer_by_full_enumeration(law, left):
    """Every weight of two inputs, two neurons and two outputs, at an input where no preactivation is zero."""
    values = LAWS[law]
    variance = Fraction(sum(v**2 for v in values), len(values))
    mu4 = Fraction(sum(v**4 for v in values), len(values)) / variance**2
    x = (Fraction(1), Fraction(3, 8))
    entries, columns, rows = [], [], []
    for a, b, c, d in itertools.product(values, repeat=4):
        first = ((a, b), (c, d))
        slopes = [Fraction(1) if w[0] * x[0] + w[1] * x[1] > 0 else left for w in first]
        for u, v in itertools.product(values, repeat=2):
            J = [sum(w * s * f[p] for w, s, f in zip((u, v), slopes, first, strict=True)) for p in (0, 1)]
            entries.append(J[0])
            rows.append(J[0] ** 2 + J[1] ** 2)
        # The second output is an independent copy given the first layer.
        for one, two in itertools.product(itertools.product(values, repeat=2), repeat=2):
            J = [sum(w * s * f[0] for w, s, f in zip(out, slopes, first, strict=True)) for out in (one, two)]
            columns.append(J[0] ** 2 + J[1] ** 2)
    mean = lambda values, power: sum(v**power for v in values) / len(values)
    name = "relu" if left == 0 else f"leaky_relu:{float(left)}"
    # C_W / 2 is the variance of the weights.
    net = fw.MLP((2,), name, 0.0, float(2 * variance), n_out=2)
    found = jacobian_moments(net, 2, mu4)
    assert found.entry_second == mean(entries, 2)
    assert found.entry_fourth == mean(entries, 4)
    assert (found.column_second, found.column_fourth) == (mean(columns, 1), mean(columns, 2))
    assert (found.row_second, found.row_fourth) == (mean(rows, 1), mean(rows, 2))


@pytest.mark.parametrize(
    "case", [key for key in LECTURES["relu-jacobian-fourth-moment"] if key.startswith("n0")]
)
def test_moments_of_the_reference(case):
    n_in, hidden = int(case.split(",")[0][3:]), json.loads(case.split("ns=")[1])
    expected = LECTURES["relu-jacobian-fourth-moment"][case]
    net = fw.MLP(tuple(hidden), "relu")
    found = jacobian_moments(net, n_in)
    assert_close(float(found.entry_second), expected["EJ2"])
    assert_close(float(found.entry_fourth), expected["EJ4"])
    growth = float(found.entry_fourth * n_in**2 / 12)
    assert 1 < growth < exponential_growth(net)
    assert_close(exponential_growth(net), np.exp(sum(5 / n for n in hidden)))


def test_two_hidden_layers_by_enumeration_of_signs_and_gates():
    """Weights of +-1 and fair gates, all 2^9 of them: one neuron, then two, for two inputs and one output."""
    rows = []
    for signs in itertools.product((-1, 1), repeat=6):
        first, second, third = signs[:2], signs[2:4], signs[4:]
        for gates in itertools.product((0, 1), repeat=3):
            through = sum(third[i] * gates[1 + i] * second[i] for i in range(2)) * gates[0]
            rows.append(Fraction(sum((through * w) ** 2 for w in first)))
    net = fw.MLP((1, 2), "relu", 0.0, (2.0, 1.0, 2.0))
    found = jacobian_moments(net, 2, 1)
    assert found.row_second == sum(rows) / len(rows)
    assert found.row_fourth == sum(r**2 for r in rows) / len(rows)


def test_wide_growth_is_exponential():
    net = fw.MLP((2000,) * 100, "relu")
    assert_close(jacobian_moments(net, 3).entry_ratio / 3, exponential_growth(net), 1e-3)


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_real_networks_of_unequal_layers(weights):
    """Rows, columns and entries of Jacobians by automatic differentiation."""
    net = fw.MLP((9, 12), "leaky_relu:0.2", 0.0, (1.1, 1.7, 2.0), n_out=3)
    x = jnp.array([0.7, -0.4, 0.2])

    @jax.jit
    @jax.vmap
    def jacobian(key):
        params = net.init(key, 3, weights=weights)
        return jax.jacobian(lambda x: net.apply(params, x[None])[0])(x)

    draws = 20_000
    J = np.asarray(jacobian(jax.random.split(jax.random.key(1), draws)))
    found = jacobian_moments(net, 3, weights)
    pairs = {
        "entry_second": J[:, 0, 0] ** 2,
        "entry_fourth": J[:, 0, 0] ** 4,
        "column_fourth": np.sum(J[:, :, 1] ** 2, axis=1) ** 2,
        "row_second": np.sum(J[:, 1] ** 2, axis=1),
        "row_fourth": np.sum(J[:, 1] ** 2, axis=1) ** 2,
    }
    for name, sample in pairs.items():
        error = sample.std() / np.sqrt(draws)
        assert abs(sample.mean() - float(getattr(found, name))) < 4 * error, name
    assert_close(found.row_ratio, float(found.row_fourth / found.row_second**2))


@pytest.mark.parametrize("width", LECTURES["relu-jacobian-lognormal"])
def test_logarithm_of_the_length(width):
    expected, n = LECTURES["relu-jacobian-lognormal"][width], int(width)
    found = log_norm(fw.MLP((n,), "relu"))
    assert_close(found.mean, expected["mean_log"], CLOSED_FORM)
    assert_close(found.variance, expected["var_log"], CLOSED_FORM)
    assert_close(np.array(found.limit), np.array(expected["leading"]))
    twice = log_norm(fw.MLP((n, n), "relu"))
    assert_close(twice.variance, 2 * found.variance)
    assert_close(twice.mean, 2 * found.mean)


def test_paths_are_the_forward_pass(rng):
    net = fw.MLP((3, 4), "leaky_relu:0.3", 0.0, 1.0, n_out=2)
    params = net.init(jax.random.key(0), 3)
    x = rng.normal(size=3)
    slopes = Slopes(0.3, 1.0)
    found = path_sum([np.asarray(layer.weight) for layer in params], x, slopes)
    assert_close(found, np.asarray(net.apply(params, jnp.asarray(x)[None])[0]))
    assert path_count(net, 3) == 3 * 3 * 4 * 2


def test_bounds_of_the_largest_eigenvalue(rng):
    """Ten orthonormal inputs by numbers worked out by hand, random inputs by inequalities."""
    net = fw.MLP((60, 60), "relu", lambda_b=0.0, lambda_W=2.0)
    found = ntk_eigenvalue_bounds(net, np.eye(10))
    assert_close(found.of_mean, 1.834, 1e-3)
    assert_close(found.trace, 6.0)
    assert_close(found.cantelli(0.1), 11.99, 1e-3)
    assert_close(found.markov(0.05), 120.0)
    other = ntk_eigenvalue_bounds(net, rng.normal(size=(7, 4)))
    assert other.of_mean <= min(other.row_sum, other.frobenius, other.trace)
    K = np.asarray(fw.kernels(net, np.eye(10)).ntk)
    assert_close(found.row_sum, np.abs(K).sum(axis=0).max())
    assert_close(found.frobenius, np.sqrt(np.sum(K**2)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: jacobian_moments(fw.MLP((4,), "tanh"), 3), "'tanh' is not linear on either side of zero"),
        (lambda: jacobian_moments(fw.MLP((4,), "relu", 0.1, 2.0), 3), r"C_b = \(0.1, 0.1\) must be zero"),
        (
            lambda: jacobian_moments(fw.MLP((4,), "relu"), 3, 0.5),
            "weights = 0.5: a fourth moment is at least",
        ),
        (lambda: log_norm(fw.MLP((4,), "leaky_relu")), "is not 'relu', whose neurons are on or off"),
        (
            lambda: ntk_eigenvalue_bounds(fw.MLP((4,), "relu", lambda_b=0.0), np.eye(2)).cantelli(1.0),
            "failure must be a probability between 0 and 1",
        ),
    ],
)
def test_what_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_an_unknown_law_of_weights(unchecked_annotations):
    with pytest.raises(ValueError, match="'cauchy' is not one of gaussian, uniform"):
        jacobian_moments(fw.MLP((4,), "relu"), 3, "cauchy")
