"""The optimal aspect ratio, checked against the entropy of a real mixture of Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import finitewidth as fw
from finitewidth.advice.tuning.aspect_ratio import mutual_information, optimal_non_gaussianity, verdict
from finitewidth.advice.tuning.learning_rates import kernel_change
from tolerances import CLOSED_FORM, assert_close


def negentropy(epsilon: float, neurons: int) -> float:
    """Gaussian entropy less that of neurons whose common variance is gamma-distributed, by quadrature."""
    law = stats.gamma(1 / epsilon, scale=epsilon)
    nodes, weights = np.polynomial.legendre.leggauss(500)
    low, high = law.ppf(1e-15), law.isf(1e-15)
    S = low + (high - low) * (nodes + 1) / 2
    share = weights * (high - low) / 2 * law.pdf(S)
    length = 7 * (nodes + 1)
    mixture = stats.chi(neurons, scale=np.sqrt(S)).pdf(length[:, None]) @ share
    return float(7 * weights @ (mixture * np.log(mixture / stats.chi(neurons).pdf(length))))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1)])
def test_mutual_information_to_third_order(first, second):
    """What is left out is of fourth order: it falls by 16 when epsilon is halved."""
    errors = []
    for epsilon in (0.04, 0.02):
        exact = negentropy(epsilon, first + second) - negentropy(epsilon, first) - negentropy(epsilon, second)
        errors.append(exact - mutual_information(epsilon, first, second))
        assert abs(errors[-1]) < 0.2 * exact
    assert 11 < errors[0] / errors[1] < 22


@pytest.mark.parametrize("n_out", [2, 3, 10])
def test_optimum_is_where_the_information_is_largest(n_out):
    epsilon = np.linspace(0.05, 0.25, 4001)
    information = [mutual_information(float(e), 1, n_out - 1) for e in epsilon]
    assert_close(epsilon[np.argmax(information)], optimal_non_gaussianity(n_out), 1e-3)


def test_optimal_ratio_of_relu_counts_hidden_layers():
    advice = fw.tune("relu", depth=10, width=200)
    assert_close(advice.optimal_aspect_ratio, 4 / 26 / (5 * 9 / 10), CLOSED_FORM)


def test_tanh_networks_may_be_deeper_than_relu_networks():
    relu, tanh = (fw.tune(name, depth=40, width=400) for name in ("relu", "tanh"))
    assert tanh.optimal_aspect_ratio > 5 * relu.optimal_aspect_ratio
    assert relu.verdict.startswith("too deep")
    assert tanh.verdict.startswith("wide") or tanh.verdict.startswith("near the optimum")


def test_linear_models_have_no_optimum():
    advice = fw.tune("tanh", depth=1, width=10)
    assert np.isnan(advice.optimal_aspect_ratio)
    assert "no hidden layer" in advice.verdict


def test_verdicts_grow_more_worried_with_depth():
    words = [verdict(ratio, 0.1).split(":")[0] for ratio in (0.001, 0.02, 0.1, 0.5)]
    assert words == ["practically infinitely wide", "wide", "near the optimum", "too deep for its width"]


def test_kernel_change_does_not_depend_on_the_unit_of_time():
    net = fw.MLP((16, 24), "tanh", 0.1, 1.3, lambda_b=0.2, lambda_W=0.5)
    faster = fw.MLP((16, 24), "tanh", 0.1, 1.3, lambda_b=0.6, lambda_W=1.5)
    assert_close(kernel_change(faster), kernel_change(net), 1e-9)


@pytest.mark.parametrize("target", [0.0, 1.0, 2.0, None])
@pytest.mark.parametrize("rate", [1.0, 2.5])
def test_kernel_change_of_a_linear_network_is_known(target, rate):
    """z = a.w / n^(1/2) keeps (|a|^2 + |w|^2)^2 - 4 n z^2 under flow: H changes by 2 (y^2 - z_0^2) / (n H).

    With lambda = 1 the kernel is H = (|a|^2 + |w|^2) / n = 2 on average and E z_0^2 = K = 1: relative to H
    the mean change is (y^2 - 1) / (2 n), and zero for a target as large as the outputs.
    """
    n = 50
    net = fw.MLP((n,), "linear", 0.0, 1.0, lambda_b=0.0, lambda_W=rate)
    y_squared = 1.0 if target is None else target**2
    assert_close(kernel_change(net, 1.0, target), (y_squared - 1) / (2 * n), 1e-8, scale=1 / n)


@pytest.mark.usefixtures("optimised")
def test_kernel_change_is_that_of_trained_networks():
    """One tanh layer of 512 neurons learns one input by flow; means over pairs of opposite outputs."""
    n, target, draws = 512, 2.0, 3000
    net = fw.MLP((n,), "tanh", 0.3, 1.5, lambda_b=0.7, lambda_W=1.2)
    rates = [(1.2, 0.7), (1.2 / n, 0.7)]

    def output(p):
        return p[1][0] @ jnp.tanh(p[0][0] + p[0][1]) + p[1][1]

    def kernel(p):
        slopes = jax.grad(output)(p)
        return sum(
            r * jnp.sum(g**2)
            for s, rate in zip(slopes, rates, strict=True)
            for g, r in zip(s, rate, strict=True)
        )

    def change(key):
        a, b, c, d = jax.random.split(key, 4)
        first = (jnp.sqrt(1.5) * jax.random.normal(a, (n,)), jnp.sqrt(0.3) * jax.random.normal(b, (n,)))
        last = (jnp.sqrt(1.5 / n) * jax.random.normal(c, (n,)), jnp.sqrt(0.3) * jax.random.normal(d, ()))

        def learned(sign):
            start = (first, (sign * last[0], sign * last[1]))

            def step(p, _):
                slopes = jax.grad(output)(p)
                error = output(p) - target
                move = lambda w, g, r: w - 0.02 * r * error * g
                return tuple(
                    tuple(map(move, layer, slope, rate))
                    for layer, slope, rate in zip(p, slopes, rates, strict=True)
                ), None

            end, _ = jax.lax.scan(step, start, length=120)
            return (kernel(end) - kernel(start)) / 2

        return learned(1.0) + learned(-1.0)

    keys = jax.random.split(jax.random.key(2), draws)
    moved = np.asarray(jax.jit(lambda k: jax.lax.map(change, k, batch_size=500))(keys))
    moved = moved / float(fw.kernels(net, np.ones((1, 1))).ntk[0, 0])
    predicted = kernel_change(net, 1.0, target)
    error = moved.std(ddof=1) / np.sqrt(draws)
    # The next order was 13/n of this one at a width of 64.
    assert abs(moved.mean() - predicted) < 4 * error + 20 / n * abs(predicted)
    assert abs(predicted) > 20 * error


@pytest.mark.parametrize("activation", ["tanh", "erf"])
def test_equal_shares_keep_the_motion_at_depth_over_width(activation):
    """Depth and width that grow together leave the change of the kernel alone."""
    shallow, deep = (fw.tune(activation, L, 10 * L).kernel_change() for L in (16, 32))
    assert abs(deep / shallow - 1) < 0.2


def test_curvature_at_a_half_stable_point_moves_the_kernel_more():
    """The activation stays curved at K* > 0, and the change grows with another power of depth."""
    narrow, wide = (fw.tune("gelu", L, 10 * L).kernel_change() for L in (8, 16))
    assert 1.6 < wide / narrow < 2.4


def test_kernel_change_needs_a_smooth_activation():
    with pytest.raises(ValueError, match="does not exist for an activation whose slope jumps"):
        fw.tune("relu", depth=3, width=32).kernel_change()
