r"""How soon a model leaves its linearisation: $\kappa_h=|h-y|\,|D^2h|/|Dh|^2$ of any model.

A step of gradient descent on $F=\frac12|h-y|^2$ changes the loss by the share $\eta|\nabla F|^2/F$ and the
differential by at most the share $\eta|\nabla F||D^2h|/|Dh|$. Their ratio is at most
$\frac12\kappa_h\cdot|Dh||h-y|/|\nabla F|$: when $\kappa_h$ is small, the loss is gone before the differential
has moved.

The length of h is over all points and outputs, that of Dh is the largest singular value of the Jacobian, and
that of the second derivative its largest singular value as a matrix (outputs times params, params).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from finitewidth._base.checks import as_targets, check_positive
from finitewidth._base.linalg.lanczos import extreme_pairs
from finitewidth.architecture.layer import Layer
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments

_MOST_PRODUCTS = 400


class Kappa(NamedTuple):
    """What decides whether a model is lazy, at one set of weights."""

    outputs: Float[np.ndarray, "points out"]
    """h."""
    labels: Float[np.ndarray, "points out"]
    """y."""
    first: float
    """|Dh|."""
    second: float
    """|D^2 h|."""
    gradient: float
    """|grad F| of F = |h - y|^2 / 2."""

    @property
    def value(self) -> float:
        r"""$\kappa_h=|h-y|\,|D^2h|/|Dh|^2$."""
        return self.at_scale(1.0)

    def at_scale(self, alpha: float) -> float:
        r"""$\kappa$ of the model $\alpha h$: $|h-y/\alpha|\,|D^2h|/|Dh|^2$.

        Of a homogeneous model of degree q at the weights $\lambda w$ it is the value at $\alpha=\lambda^q$.
        For $\alpha\to\infty$ it tends to $|h||D^2h|/|Dh|^2$, which vanishes only if the outputs do.
        """
        if not alpha > 0:
            raise ValueError(f"alpha must be positive, or infinite, got {alpha!r}.")
        return float(np.linalg.norm(self.outputs - self.labels / alpha)) * self.second / self.first**2

    @property
    def loss(self) -> float:
        """F = |h - y|^2 / 2."""
        return float(np.sum((self.outputs - self.labels) ** 2)) / 2

    def loss_change(self, eta: float) -> float:
        r"""Share of the loss that a small step removes, $\eta|\nabla F|^2/F$."""
        check_positive("eta", eta)
        return eta * self.gradient**2 / self.loss

    def differential_change(self, eta: float) -> float:
        r"""Share by which a small step changes Dh at most, $\eta|\nabla F||D^2h|/|Dh|$."""
        check_positive("eta", eta)
        return eta * self.gradient * self.second / self.first


def kappa(apply_or_net: Layer | Apply | Model, params: PyTree, x: Inputs, y: Inputs) -> Kappa:
    r"""$\kappa_h$ of any model at its weights.

    Parameters
    ----------
    apply_or_net
        A network, or any function of (params, x).
    params
        The weights, all with learning rate one.
    x, y
        Inputs (points, ...) and labels (points, out).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from finitewidth.measure import kappa
    >>> found = kappa(lambda w, x: x * w[0] * w[1], jnp.array([1.0, 2.0]), [[1.0]], [[0.0]])
    >>> round(found.first**2, 6), round(found.second, 6), round(found.value, 6)   # w0 w1 / (w0^2 + w1^2)
    (5.0, 1.0, 0.4)
    """
    model = as_model(apply_or_net)
    x = as_points("x", x, model)
    check_arguments(model, params, x)
    h = jax.eval_shape(model, params, x)
    y = as_targets(y, len(x), h.dtype, "y")
    if y.shape != h.shape:
        raise ValueError(f"y has shape {y.shape}; the outputs have shape {h.shape}.")
    outputs, jacobian, second = _derivatives(model, params, x)
    rows = np.asarray(jacobian, float)
    residual = np.asarray(outputs - y, float)
    largest = float(np.linalg.norm(rows, 2))
    if not largest > 0:
        raise ValueError("the Jacobian of the model is zero on these points: there is nothing to linearise.")
    product = lambda v: np.asarray(_twice(second, jnp.asarray(v, h.dtype)))
    start = np.random.default_rng(0).normal(size=rows.shape[1]).astype(rows.dtype)
    pairs = extreme_pairs(
        product,
        start,
        lambda values: np.argsort(-values),
        count=1,
        extra=1,
        tolerance=1e-9,
        least_steps=min(20, len(start)),
        most_steps=_MOST_PRODUCTS,
        basis=60,
    )
    curvature = float(np.sqrt(max(pairs.values[0], 0.0)))
    gradient = float(np.linalg.norm(residual.ravel() @ rows))
    return Kappa(np.asarray(outputs, float), np.asarray(y, float), largest, curvature, gradient)


@eqx.filter_jit
def _derivatives(model: Model, params: PyTree, x: Array):
    """Outputs, Jacobian (outputs, params), and the linear map from a direction to its change."""
    w0, unravel = ravel_pytree(params)
    jacobian = jax.jacrev(lambda w: model(unravel(w), x).ravel())
    rows, second = jax.linearize(jacobian, w0)
    return model(params, x), rows, second


@eqx.filter_jit
def _twice(second, v: Array) -> Array:
    """The second derivative and its transpose: sum_a H_a^2 v."""
    return jax.linear_transpose(second, v)(second(v))[0]


def homogeneous_degree(
    apply_or_net: Layer | Apply | Model, params: PyTree, x: Inputs, *, tolerance: float = 1e-6
) -> float:
    r"""The degree q of a homogeneous model, $h(\lambda w)=\lambda^qh(w)$ for $\lambda>0$; others are refused.

    It is measured from $\lambda=2$ and tested at $\lambda=\frac12$ and 3.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.measure import homogeneous_degree
    >>> net = fw.MLP((8, 8), "relu", C_b=0.0, C_W=2.0)
    >>> x = jax.random.normal(jax.random.key(1), (4, 3))
    >>> round(homogeneous_degree(net, net.init(jax.random.key(0), 3), x), 6)
    3.0
    """
    model = as_model(apply_or_net)
    x = as_points("x", x, model)
    check_arguments(model, params, x)
    check_positive("tolerance", tolerance)
    factors = jnp.array([1.0, 2.0, 0.5, 3.0])
    one, *others = np.asarray(_at_multiples(model, params, x, factors), float)
    size = np.linalg.norm(one)
    if not size > 0:
        raise ValueError(
            "the outputs are all zero, and zero has every degree: choose other points or weights."
        )
    degree = float(np.log2(max(np.vdot(one, others[0]) / size**2, np.finfo(float).tiny)))
    for factor, found in zip((2.0, 0.5, 3.0), others, strict=True):
        error = np.linalg.norm(found - factor**degree * one) / (factor**degree * size)
        if not error <= tolerance:
            raise ValueError(
                f"the model is not homogeneous: its outputs at {factor:g} times the weights are off a power "
                f"by {error:.2g} of their size; ReLU networks without biases are homogeneous."
            )
    return degree


@eqx.filter_jit
def _at_multiples(model: Model, params: PyTree, x: Array, factors: Array) -> Array:
    def scaled(factor: Array) -> Array:
        return model(jax.tree.map(lambda leaf: factor.astype(leaf.dtype) * leaf, params), x)

    return jax.vmap(scaled)(factors)
