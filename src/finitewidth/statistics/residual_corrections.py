r"""First order in 1/width of residual networks at initialisation, for one input.

The skip keeps a neuron's identity, so the fluctuations that different layers make are correlated, and the
tensors of one layer do not determine those of the next. Given all averages over neurons, neurons are
independent Gaussian trajectories through the layers, $\mathrm{Cov}(z^\ell,z^m)=\alpha^{\ell-m}K^m$ for
$\ell\ge m$, and the averages respond linearly. With $\Phi^\ell=\frac1n\sum_j\sigma(z^\ell_j)^2$ and its
fluctuation $\phi^\ell/\sqrt n$,

$$\phi^\ell=\xi^\ell+g'k^\ell,\qquad k^{\ell+1}=\alpha^2k^\ell+\beta^2C_W\phi^\ell,\qquad
\mathrm{Cov}(\xi^\ell,\xi^m)=\mathrm{Cov}(\sigma^2(z^\ell),\sigma^2(z^m)).$$

The tangent kernel adds the backward fields $\Psi^\ell=\frac1n\sum_j(\delta_j^\ell)^2$, which respond to the
same sources. See "Residual networks" in the chapter on finite width at initialisation.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.critical_point import layer_response
from finitewidth.architecture.residual_stack import ResidualStack
from finitewidth.expectations.kinks import evaluate
from finitewidth.expectations.two_layers import plane_rule

Layers = Float[np.ndarray, " layers"]
LayerPairs = Float[np.ndarray, "layers layers"]


class ResidualCorrections(eqx.Module):
    r"""Kernels of the output layer and tensors that multiply 1/width, of a residual network at one input.

    Attributes
    ----------
    K, Theta
        NNGP kernel and NTK, (1, 1).
    V, D, F, A, B
        As in `Corrections`, (1, 1, 1, 1).
    width
        Of every hidden layer.
    """

    K: Float[Array, "1 1"]
    Theta: Float[Array, "1 1"]
    V: Float[Array, "1 1 1 1"]
    D: Float[Array, "1 1 1 1"]
    F: Float[Array, "1 1 1 1"]
    A: Float[Array, "1 1 1 1"]
    B: Float[Array, "1 1 1 1"]
    width: int = eqx.field(static=True)

    @property
    def ntk_variance(self) -> float:
        """Variance of the NTK of one output between networks of this width, (A + 2B) / n."""
        return float(self.A.item() + 2 * self.B.item()) / self.width


class _Means(NamedTuple):
    """Averages over one neuron in every hidden layer."""

    K: Layers
    g: Layers
    g_slope: Layers
    h: Layers
    h_slope: Layers


class _Pairs(NamedTuple):
    """Covariances between layers of one neuron: of its squares, squared slopes, and both; and <p p>."""

    squares: LayerPairs
    slopes: LayerPairs
    mixed: LayerPairs
    products: LayerPairs


def residual_corrections(net: ResidualStack, square: float) -> ResidualCorrections:
    """The tensors for an input of mean square `square`."""
    alpha, beta2, C_W, C_o = net.alpha, net.beta**2, net.block.C_W, net.last.C_W
    means = _means(net, square)
    pairs = _pairs(net, means)
    M = net.blocks + 1
    unit = np.eye(M)

    # Forwards: k = reach @ xi, phi = forward @ xi.
    reach = np.zeros((M, M))
    for l in range(M - 1):
        reach[l + 1] = (alpha**2 + beta2 * C_W * means.g_slope[l]) * reach[l] + beta2 * C_W * unit[l]
    forward = unit + means.g_slope[:, None] * reach

    # Backwards: Psi, the weights of squared slopes in S, and psi = back_eta @ eta + back_xi @ xi.
    Psi = np.zeros(M)
    Psi[-1] = C_o * means.h[-1]
    weights = np.zeros((M, M))
    weights[-1, -1] = C_o
    back_eta, back_xi = unit.copy(), np.zeros((M, M))
    back_xi[-1] = C_o * means.h_slope[-1] * reach[-1]
    for l in range(M - 2, -1, -1):
        step = beta2 * C_W * means.h[l]
        Psi[l] = (alpha**2 + step) * Psi[l + 1]
        weights[l] = alpha**2 * weights[l + 1]
        weights[l, l] = beta2 * C_W * Psi[l + 1]
        # What is passed on without the source of the layer above, which is no part of the sum.
        back_eta[l] += step * back_eta[l + 1] + alpha**2 * (back_eta[l + 1] - unit[l + 1])
        back_xi[l] = (alpha**2 + step) * back_xi[l + 1]
        back_xi[l] += beta2 * C_W * Psi[l + 1] * means.h_slope[l] * reach[l]

    # The kernel: h = on_phi @ phi + on_psi @ psi.
    theta_1 = net.first.lambda_b + net.first.lambda_W * square
    own = net.block.lambda_b + net.block.lambda_W * means.g
    on_phi = np.append(beta2 * net.block.lambda_W * Psi[1:], net.last.lambda_W)
    on_psi = np.concatenate([[theta_1], beta2 * own[:-1]])
    by_xi = on_phi @ forward + on_psi @ back_xi
    by_eta = on_psi @ back_eta

    xi_xi, eta_xi = pairs.squares, weights @ pairs.mixed
    eta_eta = weights @ pairs.slopes @ weights.T
    variance = C_o**2 * forward[-1] @ xi_xi @ forward[-1]
    with_kernel = C_o * (forward[-1] @ xi_xi @ by_xi + by_eta @ eta_xi @ forward[-1])
    of_kernels = by_xi @ xi_xi @ by_xi + 2 * by_eta @ eta_xi @ by_xi + by_eta @ eta_eta @ by_eta

    # Fields of two different outputs: no mean, and no response of the forward pass.
    second = weights @ (pairs.slopes + np.outer(means.h, means.h)) @ weights.T
    index = np.arange(M)
    later = np.maximum(index[:, None], index)
    crossed = alpha ** (2.0 * np.abs(index[:, None] - index)) * np.diag(second)[later]
    different = by_eta @ crossed @ by_eta

    Theta = net.last.lambda_b + net.last.lambda_W * means.g[-1] + on_psi @ Psi
    four = lambda value: jnp.full((1, 1, 1, 1), value)
    return ResidualCorrections(
        K=jnp.full((1, 1), net.last.C_b + C_o * means.g[-1]),
        Theta=jnp.full((1, 1), Theta),
        V=four(variance),
        D=four(with_kernel),
        F=four(C_o**2 * on_psi @ _readout_fields(net, means, pairs)),
        A=four(of_kernels),
        B=four(different),
        width=net.width,
    )


def _readout_fields(net: ResidualStack, means: _Means, pairs: _Pairs) -> Layers:
    """N: mean squares of the backward field that starts from s s' instead of from the readout's weights."""
    alpha, beta, C_W, M = net.alpha, net.beta, net.block.C_W, net.blocks + 1
    # The weights that the field meets are those of the forward pass, which adds a multiple of s s'.
    starts = np.zeros((M, M))
    starts[-1, -1] = 1.0
    met = beta * means.g_slope[-1]
    N = np.zeros(M)
    N[-1] = pairs.products[-1, -1]
    for l in range(M - 2, -1, -1):
        starts[l] = alpha * starts[l + 1]
        starts[l, l] = beta * C_W * met
        met *= alpha**2 + beta**2 * C_W * means.g_slope[l]
        direct = lambda i: starts[i] @ pairs.products @ starts[i]
        N[l] = direct(l) + alpha**2 * (N[l + 1] - direct(l + 1)) + beta**2 * C_W * means.h[l] * N[l + 1]
    return N


def _means(net: ResidualStack, square: float) -> _Means:
    K = [net.first.C_b + net.first.C_W * square]
    for _ in range(net.blocks):
        g = float(layer_response(net.activation, jnp.asarray(K[-1])).g)
        K.append(net.alpha**2 * K[-1] + net.beta**2 * (net.block.C_b + net.block.C_W * g))
    variances = np.array(K)
    g, g_slope, h = (np.asarray(part) for part in layer_response(net.activation, jnp.asarray(variances)))
    # dh/dK = <(z^2/K - 1) s'^2> / 2K: no derivative of the slope, which may jump.
    rule = plane_rule(np.ones(1))
    z = np.sqrt(variances)[:, None] * rule.first
    slope = np.asarray(evaluate(net.activation.function, jnp.asarray(z))[1])
    h_slope = ((rule.first**2 - 1) * slope**2) @ rule.weights[0] / (2 * variances)
    return _Means(variances, g, g_slope, h, h_slope)


def _pairs(net: ResidualStack, means: _Means) -> _Pairs:
    M, K = net.blocks + 1, means.K
    later, earlier = np.tril_indices(M)
    correlation = net.alpha ** (later - earlier) * np.sqrt(K[earlier] / K[later])
    found = np.zeros((5, M, M))
    for start in range(0, len(later), 64):
        part = slice(start, start + 64)
        rule = plane_rule(correlation[part])
        z = np.sqrt(K[later[part]])[:, None] * rule.first
        w = np.sqrt(K[earlier[part]])[:, None] * rule.second
        (s, ds), (t, dt) = (
            [np.asarray(each) for each in evaluate(net.activation.function, jnp.asarray(values))]
            for values in (z, w)
        )
        products = ((s * t) ** 2, (ds * dt) ** 2, (ds * t) ** 2, (s * dt) ** 2, s * ds * t * dt)
        found[:, later[part], earlier[part]] = [np.sum(rule.weights * p, axis=1) for p in products]
    squares, slopes, late_slope, early_slope, both = found
    mirror = lambda lower, upper: lower + np.triu(upper.T, 1)
    return _Pairs(
        squares=mirror(squares, squares) - np.outer(means.g, means.g),
        slopes=mirror(slopes, slopes) - np.outer(means.h, means.h),
        mixed=mirror(late_slope, early_slope) - np.outer(means.h, means.g),
        products=mirror(both, both),
    )
