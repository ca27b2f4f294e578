r"""Shifts of mean kernels by finite width, from networks and their halves.

The mean kernels of networks with 2n and with n neurons in a layer differ by half the shift that this layer
makes, a second-order effect that drowns in the first-order fluctuations of independent draws. So a network
with 2n neurons in the layer is compared with its own two halves: in $f-\frac12(f_A+f_B)$ the fluctuations of
the three cancel to first order. The last two layers are averaged over exactly: given what enters them,
neurons of the last hidden layer are independent, and so their mean is the mean over one Gaussian vector.

Where a layer stands between, it sees 2n neurons, or n of them. Its weights have a part along what enters and
a part across it. The law of independent Gaussian weights is kept, exactly, when the preactivations of a half
are the same standard Gaussian variables as those of the whole, stretched to the covariance that the half
gives them. Products of preactivations and tangent kernels of such a layer, less their means given the layer
below, average to zero and serve as control variates.

A kink at zero is a line through the origin, so that an average over two Gaussian variables is smooth along
every ray. Its nodes are rays at equal angles, turned by a random angle: the mean over turns is the average.
With one hidden layer the whole is the average of its halves.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture.dense import Affine
from finitewidth.architecture.layer import Layer, replaced
from finitewidth.architecture.mlp import Params
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.estimate import Estimate, combined, sample_mean
from finitewidth.course.finite_width_at_initialisation.networks.tensors import conditional_means, up_to
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk

# What enters from a half whose neurons are all off has no direction.
_SMALLEST = 1e-100
_NODES = 16
# Rays, nodes along each of them, and where they end: beyond is e^-24 of the weight.
_RAYS, _ALONG, _FURTHEST = 32, 12, 7.0
# Numbers per node of the quadrature that three networks hold at a time.
_NUMBERS = 50


def measured_shifts(
    net: Layer, x: Float[np.ndarray, "n d"], key: PRNGKeyArray, draws: int, *, smooth: bool = True
) -> dict[str, Estimate]:
    """The coefficients of 1/width in the mean kernels, `G1` and `H1`, at this width, added up over layers.

    The last hidden layer makes no shift: the mean over its neurons is the mean over any one of them. It is
    averaged over by quadrature; an activation that is not `smooth` has its kink at zero, and two inputs.
    """
    net, shifts = dense_stack(net), []
    for layer in range(max(len(net.hidden) - 1, 1)):
        doubled = _with_width(net, layer, 2 * net.hidden[layer])
        key, layer_key = jax.random.split(key)
        samples = over_networks(
            doubled,
            x,
            layer_key,
            draws,
            functools.partial(_difference, layer, smooth),
            numbers=_NUMBERS * (_NODES ** len(x) if smooth else _RAYS * _ALONG),
        )
        # E f is its limit plus c / width: the whole less its halves is -c / (2 n) on average.
        factor = -2 * net.hidden[-1]
        shifts.append({name: _controlled(factor * samples[name], samples["controls"]) for name in ("K", "H")})
    return {
        name: combined([1.0] * len(shifts), [shift[kernel] for shift in shifts])
        for name, kernel in (("G1", "K"), ("H1", "H"))
    }


def _controlled(samples: Float[np.ndarray, "draws n n"], controls: Float[np.ndarray, "draws c"]) -> Estimate:
    """Mean of the samples less their regression on variables of mean zero."""
    if not controls.size:
        return sample_mean(samples)
    flat = samples.reshape(len(samples), -1)
    slopes = np.linalg.lstsq(controls - controls.mean(axis=0), flat - flat.mean(axis=0), rcond=None)[0]
    return sample_mean((flat - controls @ slopes).reshape(samples.shape))


def _with_width(net: Layer, layer: int, width: int) -> Layer:
    hidden = dense_stack(net).hidden
    return replaced(net, hidden=(*hidden[:layer], width, *hidden[layer + 1 :]))


def _difference(
    layer: int, smooth: bool, net: Layer, params: Params, x: Float[Array, "n d"]
) -> dict[str, Array]:
    """A network less the average of its halves."""
    net = dense_stack(net)
    n = net.hidden[layer] // 2
    half = _with_width(net, layer, n)
    entering = net.activation(net.preactivations(params, x)[layer])
    whole = _observed(layer, smooth, net, params, x)
    first, second = (
        _observed(layer, smooth, half, _half(params, layer, neurons, entering), x)
        for neurons in (slice(0, n), slice(n, 2 * n))
    )
    return jax.tree.map(lambda f, f_A, f_B: f - (f_A + f_B) / 2, whole, first, second)


def _half(params: Params, layer: int, neurons: slice, entering: Float[Array, "points fan_in"]) -> Params:
    """The network with some neurons of a layer only, and the weights above it made for them."""
    weight, bias = params[layer + 1]
    _, whole = _lower_and_orthonormal(entering)
    _, own = _lower_and_orthonormal(entering[:, neurons])
    # Half the fan-in wants weights of twice the variance.
    mine, standard = jnp.sqrt(2.0) * weight[:, neurons], jnp.sqrt(2.0) * weight @ whole.T
    turned = mine + (standard - mine @ own.T) @ own
    below = Affine(params[layer].weight[neurons], params[layer].bias[neurons])
    return (*params[:layer], below, Affine(turned, bias), *params[layer + 2 :])


def _lower_and_orthonormal(
    rows: Float[Array, "points n"],
) -> tuple[Float[Array, "points points"], Float[Array, "points n"]]:
    """rows = L Q with L lower triangular, by Gram and Schmidt."""
    basis: list[Array] = []
    for row in rows:
        for _ in range(2):
            row = row - sum((row @ q) * q for q in basis)
        basis.append(row / jnp.maximum(jnp.linalg.norm(row), _SMALLEST))
    Q = jnp.stack(basis)
    return rows @ Q.T, Q


def _inverse_lower(L: Float[Array, "points points"]) -> Float[Array, "points points"]:
    inverse: list[Array] = []
    for i, unit in enumerate(jnp.eye(len(L))):
        inverse.append((unit - sum(L[i, j] * row for j, row in enumerate(inverse))) / L[i, i])
    return jnp.stack(inverse)


def _observed(
    layer: int, smooth: bool, net: Layer, params: Params, x: Float[Array, "n d"]
) -> dict[str, Array]:
    """Mean kernels over the last layers; what every layer between adds to its conditional mean."""
    controls = [jnp.zeros(0)]
    upper = np.triu_indices(len(x))
    for l in range(layer + 1, dense_stack(net).depth - 2):
        body, own = up_to(net, l), params[: l + 1]
        z, H, mean = body.apply(own, x), empirical_ntk(body, own, x), conditional_means(body, own, x)
        controls += [
            (z @ z.T / z.shape[1] - mean["K"])[upper],
            (jnp.einsum("kkab->ab", H) / z.shape[1] - mean["H"])[upper],
        ]
    deep = dense_stack(net).depth > 2
    kernels = _mean_kernels(net, params, x, smooth) if deep else conditional_means(net, params, x)
    return {"K": kernels["K"], "H": kernels["H"], "controls": jnp.concatenate(controls)}


def _mean_kernels(net: Layer, params: Params, x: Float[Array, "n d"], smooth: bool) -> dict[str, Array]:
    r"""Mean NNGP kernel and NTK over the weights of the last two layers.

    A neuron of the last hidden layer has $z\sim N(0,\hat K)$; given z, its weights have the mean
    $\frac{C_W}ns\hat K^{-1}z$, s being what enters, and the covariance
    $\frac{C_W}n(1-\frac{C_W}ns\hat K^{-1}s)$.
    """
    net = dense_stack(net)
    body, own = up_to(net, -2), params[:-2]
    below = body.apply(own, x).T
    s, ds = jax.jvp(net.activation, (below,), (jnp.ones_like(below),))
    carried = jnp.einsum("ja,kb,jkab->jkab", ds, ds, empirical_ntk(body, own, x))
    C, lam = net.C_W[-2] / len(s), net.lambda_W[-2] / len(s)
    L, _ = _lower_and_orthonormal(
        jnp.concatenate([jnp.sqrt(C) * s.T, jnp.sqrt(net.C_b[-2]) * jnp.ones((len(x), 1))], axis=1)
    )
    unmoved = net.lambda_b[-2] + lam * s.T @ s + C * jnp.einsum("jjab->ab", carried)
    along = C**2 * jnp.einsum("jc,kd,jkab->cdab", s, s, carried, optimize=True)

    nodes, weights = _gaussian_nodes(len(x)) if smooth else _rays(params[-1].bias[0], net.C_b[-1])
    inverse = _inverse_lower(L)
    z, v = nodes @ L.T, nodes @ inverse
    value, slope = jax.jvp(net.activation, (z,), (jnp.ones_like(z),))
    pairs = lambda a: (a[:, :, None] * a[:, None, :]).reshape(len(a), -1)
    slopes = weights[:, None] * pairs(slope)
    values = (weights[:, None] * value).T @ value
    fixed = unmoved - jnp.einsum("cd,cdab->ab", inverse.T @ inverse, along)
    moved = jnp.einsum("abcd,cdab->ab", (slopes.T @ pairs(v)).reshape((len(x),) * 4), along)
    slopes = slopes.sum(axis=0).reshape(L.shape) * fixed + moved
    return {
        "K": net.C_b[-1] + net.C_W[-1] * values,
        "H": net.lambda_b[-1] + net.lambda_W[-1] * values + net.C_W[-1] * slopes,
    }


def _rays(
    unused: Float[Array, ""], variance: Float[Array, ""]
) -> tuple[Float[Array, "nodes 2"], Float[Array, " nodes"]]:
    """Nodes of two standard Gaussian variables on rays, turned by a bias that nothing else sees."""
    turn = jax.scipy.stats.norm.cdf(unused / jnp.sqrt(variance))
    angles = 2 * jnp.pi * (jnp.arange(_RAYS) + turn) / _RAYS
    places, weights = np.polynomial.legendre.leggauss(_ALONG)
    radii = _FURTHEST * (places + 1) / 2
    weights = weights * radii * np.exp(-(radii**2) / 2)
    unit = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    nodes = (unit * radii[:, None, None]).reshape(-1, 2)
    return nodes, jnp.repeat(weights / weights.sum() / _RAYS, _RAYS)


@functools.cache
def _gaussian_nodes(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    grid = np.stack(np.meshgrid(*(nodes,) * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    product = functools.reduce(np.multiply.outer, (weights / weights.sum(),) * dimension)
    return grid, product.ravel()
