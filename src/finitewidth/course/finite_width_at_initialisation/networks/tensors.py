r"""Tensors of order 1/width, measured on real networks.

Given the last hidden layer, the output layer's weights are independent Gaussians, so their average is
taken exactly: with $\hat K=C_b+\frac{C_W}n\sum_k\sigma_k\sigma_k$ and
$\hat H=\lambda_b+\frac1n\sum_k(\lambda_W\sigma_k\sigma_k+C_W\sigma'_k\sigma'_kH_{kk})$ the connected averages
of two different outputs are covariances of $\hat K$ and $\hat H$ over networks. $H_{kk'}$ is the tangent
kernel of the hidden layer itself. The differentials are measured at two outputs directly. In P and Q an
output multiplies dH, $E[z\,dH]$: averaged over the output layer's Gaussian weights w it is the derivative of
dH by them along $\mathrm{Var}(w)\,\partial z/\partial w$, which has far less noise.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture.layer import Layer, replaced
from finitewidth.architecture.mlp import Params
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.estimate import Estimate, combined, sample_mean
from finitewidth.networks.tangent.differentials import empirical_ddntk, empirical_dntk
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk

FLUCTUATIONS = ("V", "D", "F", "A", "B")
DIFFERENTIALS = ("P", "Q", "R", "S", "T", "U")


def measured_fluctuations(
    net: Layer, x: Float[np.ndarray, "n d"], key: PRNGKeyArray, draws: int
) -> dict[str, Estimate]:
    """Mean kernels `K` and `H`, and the coefficients of 1/width in V, D, F, A and B at this width."""
    samples = over_networks(net, x, key, draws, conditional_means)
    n = dense_stack(net).hidden[-1]
    centred = {name: samples[name] - samples[name].mean(axis=0) for name in ("K", "H")}

    def covariance(left: str, right: str) -> Estimate:
        return sample_mean(n * np.einsum("sab,scd->sabcd", centred[left], centred[right]))

    return {
        "K": sample_mean(samples["K"]),
        "H": sample_mean(samples["H"]),
        "V": covariance("K", "K"),
        "D": covariance("K", "H"),
        "A": covariance("H", "H"),
        "F": sample_mean(n * samples["F"]),
        "B": sample_mean(n * samples["B"]),
    }


def conditional_means(net: Layer, params: Params, x: Float[Array, "n d"]) -> dict[str, Array]:
    """Averages over the weights of the output layer, the layers below being given."""
    net = dense_stack(net)
    below = up_to(net, -1)
    H = empirical_ntk(below, params[:-1], x)
    z = below.apply(params[:-1], x).T
    s, ds = jax.jvp(net.activation, (z,), (jnp.ones_like(z),))
    C, lam = net.C_W[-1] / len(z), net.lambda_W[-1] / len(z)
    own = jnp.einsum("kkab->kab", H)
    cross = jnp.einsum("ka,kc->kac", s, ds)
    slopes = jnp.einsum("kc,ld,klcd->klcd", ds, ds, H)
    return {
        "K": net.C_b[-1] + C * s.T @ s,
        "H": net.lambda_b[-1] + lam * s.T @ s + C * jnp.einsum("ka,kb,kab->ab", ds, ds, own),
        "F": C**2 * jnp.einsum("kac,lbd,klcd->acbd", cross, cross, H, optimize=True),
        "B": C**2 * jnp.einsum("klab,klcd->acbd", slopes, slopes),
    }


def up_to(net: Layer, layer: int) -> Layer:
    """The network whose outputs are the preactivations of a hidden layer."""
    stack = dense_stack(net)
    layers = range(stack.depth - 1)[layer] + 1
    kept = {name: values[:layers] for name, values in stack.hyperparameters._asdict().items()}
    return replaced(stack, hidden=stack.hidden[: layers - 1], n_out=stack.hidden[layers - 1], **kept)


def measured_differentials(
    net: Layer, x: Float[np.ndarray, "n d"], key: PRNGKeyArray, draws: int
) -> dict[str, Estimate]:
    """The coefficients of 1/width in P, Q, R, S, T and U at this width, from networks with two outputs."""
    samples = over_networks(net, x, key, draws, _two_outputs)
    return {name: sample_mean(dense_stack(net).hidden[-1] * values) for name, values in samples.items()}


def _two_outputs(net: Layer, params: Params, x: Float[Array, "n d"]) -> dict[str, Array]:
    z_dH = _times_outputs(net, params, x)
    I, J = empirical_ddntk(net, params, x)

    def averaged(term) -> Array:
        """Over both ways to call the outputs i and j."""
        return (term(0, 1) + term(1, 0)) / 2

    return {
        "P": averaged(lambda i, j: jnp.moveaxis(z_dH[:, i, i, j, j], 0, -1)),
        "Q": averaged(lambda i, j: jnp.moveaxis(z_dH[:, j, i, i, j], 0, -1)),
        "R": averaged(lambda i, j: I[i, i, j, j]),
        "S": averaged(lambda i, j: J[i, i, j, j]),
        "T": averaged(lambda i, j: J[i, j, i, j].transpose(0, 2, 1, 3)),
        "U": averaged(lambda i, j: J[i, j, j, i].transpose(0, 3, 1, 2)),
    }


def _times_outputs(
    net: Layer, params: Params, x: Float[Array, "n d"]
) -> Float[Array, "n out out out out n n n"]:
    """Outputs z (n, out) times dH, averaged over the weights of the output layer by parts."""
    last, stack = params[-1], dense_stack(net)
    with_last = lambda own: (*params[:-1], own)
    slopes = jax.jacrev(lambda own: net.apply(with_last(own), x))(last)
    C_W = stack.C_W[-1] / stack.hidden[-1]
    along = slopes._replace(weight=C_W * slopes.weight, bias=stack.C_b[-1] * slopes.bias)
    dH = lambda own: empirical_dntk(net, with_last(own), x)
    derivative = lambda tangent: jax.jvp(dH, (last,), (tangent,))[1]
    return jax.vmap(jax.vmap(derivative))(along)


def extrapolated(narrow: Estimate, wide: Estimate) -> Estimate:
    """The limit of infinite width from widths n and 2n, the next order in 1/n removed."""
    return combined((2, -1), (wide, narrow))
