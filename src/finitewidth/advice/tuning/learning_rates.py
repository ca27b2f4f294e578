r"""The principle behind the learning rates: every layer gets the same share of the tangent kernel.

Layer l adds $(\lambda_b+\lambda_Wv_{\ell-1})\prod_{\ell'>\ell}\chi_\perp$ to the NTK of an input, v being the
mean square of what enters the layer. With the share 1/(2L) for the biases and for the weights of each of
the L layers the NTK is one at every depth and width, so the stable step does not depend on them either. In
the raw rates $\lambda_W/n$ falls as 1/(nL). At a K* = 0 critical point it is larger for deep layers, whose
inputs shrink: $\lambda_W^{(\ell)}\propto\frac1L(L/\ell)^{p_\perp}\ell$ and
$\lambda_b^{(\ell)}\propto\frac1L(L/\ell)^{p_\perp}$.

What training does to the kernel is then of order L/n at a K* = 0 critical point: it vanishes at infinite
width and stays bounded when depth grows in proportion to width. At a half-stable point the activation stays
curved at every depth, and the change grows as L^2/n.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.advice.tuning.propagation import signal_and_gradient
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.statistics.first_order.corrections import dense_corrections
from finitewidth.statistics.wide.kernels import trajectory


def equal_layer_rates(net: Layer, x: Float[Array, "n d"]) -> Layer:
    """The same network with learning rates that let every layer contribute equally to the NTK."""
    net, (_, gradient) = dense_stack(net), signal_and_gradient(net, x)
    if not bool((gradient > 0).all()):
        raise ValueError(
            f"activation {net.activation.name!r} lets no gradient through at C_b = {float(net.C_b[0]):.3g}, "
            f"C_W = {float(net.C_W[0]):.3g}: no learning rate trains the layers below it."
        )
    square = jnp.sum(x**2, axis=1)[None] / x.shape[1]
    K = trajectory(net, x).nngp
    entering = jnp.concatenate([square, (K[1:] - net.C_b[1:, None]) / net.C_W[1:, None]])
    share = 1 / (2 * net.depth)
    rates = {"lambda_b": gradient, "lambda_W": gradient * entering}
    return dataclasses.replace(net, **{name: share / part.mean(axis=1) for name, part in rates.items()})


def kernel_change(net: Layer, square: float = 1.0, target: float | None = None) -> float:
    r"""Mean relative change of the NTK when one input is learned, to first order in 1/width.

    Gradient flow moves the kernel by $-2\,dH\,e_0/\Theta+(I+2J)\,e_0^2/\Theta^2$ until the error
    $e_0=z-y$ is gone. Its mean over initialisations, divided by $\Theta$, is

    $$\frac1n\Bigl[-\frac{2(P+2Q)}{\Theta^2}+\frac{(3R+2(S+T+U))(K+y^2)}{\Theta^3}\Bigr].$$

    Parameters
    ----------
    net
        A network with a smooth activation; one of its outputs is trained.
    square
        $|x|^2/n_0$ of the input.
    target
        The value y to be learned; by default as large as the outputs are, $y^2=K$.
    """
    tensors = dense_corrections(net, jnp.full((1, 1), jnp.sqrt(square)))
    P, Q, R, S, T, U = (getattr(tensors, name).item() for name in "PQRSTU")
    K, Theta = tensors.K.item(), tensors.Theta.item()
    first = -2 * (P + 2 * Q) / Theta**2
    error = 2 * K if target is None else K + target**2
    second = (3 * R + 2 * (S + T + U)) * error / Theta**3
    return (first + second) / tensors.width
