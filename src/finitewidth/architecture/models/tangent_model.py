r"""Any function of (params, x) as a Taylor model about a point, by derivatives that are never stored.

With learning rates $\lambda$ absorbed in the weights, $\theta = \theta_0+\sqrt\lambda\,W$, the features of a
network are $\phi = \sqrt\lambda\,\nabla z$, its meta features $\psi = \sqrt\lambda\,\nabla^2z\sqrt\lambda$,
and its kernel and meta kernel are its NTK and dNTK. The parameter $\epsilon$ makes a network lazier without
changing its kernel,

$$z(W) = z(\theta_0)+\frac1\epsilon\big[z(\theta_0+\epsilon\sqrt\lambda\,W)-z(\theta_0)\big].$$

Outputs share the weights, so that a point here is an output at an input.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers
from finitewidth._base.derivatives import value_and_derivatives
from finitewidth._base.foreign import check_function, check_params
from finitewidth.architecture.models.meta_kernel import MetaKernel, factors
from finitewidth.architecture.models.point_model import PointModel, outputs_at

Function = Callable[[Any, Any], Array]
Weights = Float[Array, " weights"]


class TangentModel(eqx.Module):
    """A function of (params, x) about given parameters, as a function of weights.

    Parameters
    ----------
    function
        From (params, x) to outputs (n, out).
    params
        The point of expansion, where the weights are zero.
    order
        1, 2 or 3 for the linear, quadratic or cubic model; None keeps the function whole.
    rates
        Learning-rate tensor: a number, or a tree like params.
    epsilon
        Laziness: 1 is the function itself, 0 its linearisation.
    """

    function: Function
    params: PyTree
    order: int | None = eqx.field(static=True, default=None)
    rates: PyTree = 1.0
    epsilon: Float[Array, ""] = eqx.field(default=1.0, converter=lambda value: as_numbers("epsilon", value))

    def __check_init__(self):
        check_function(self.function)
        check_params(self.params)
        if self.order is not None and (not isinstance(self.order, int) or self.order < 1):
            raise ValueError(f"order must be a whole number of at least 1, or None, got {self.order!r}.")
        if self.order is None and not isinstance(self.epsilon, Tracer) and self.epsilon == 0:
            raise ValueError("epsilon=0 with order=None: the linear model is order=1.")

    def at(self, x: AnyArray) -> "TangentPoints":
        """The model at some inputs."""
        return TangentPoints(self, jnp.asarray(x))

    def __call__(self, weights: Weights, x: AnyArray) -> Float[Array, "n out"]:
        """Outputs at every input."""
        return self.at(x)(weights)

    def zeros(self) -> Weights:
        """The weights of the point of expansion."""
        return jnp.zeros_like(ravel_pytree(self.params)[0])

    def params_of(self, weights: Weights) -> PyTree:
        r"""$\theta_0+\epsilon\sqrt\lambda\,W$: what the weights mean for the function."""
        return self.moved(weights, self.epsilon)

    def moved(self, weights: Weights, by: float | Array) -> PyTree:
        r"""$\theta_0+s\sqrt\lambda\,W$."""
        rates = jax.tree.broadcast(self.rates, self.params)
        shift = ravel_pytree(self.params)[1](weights)
        return jax.tree.map(lambda p, r, s: p + by * jnp.sqrt(r) * s, self.params, rates, shift)


class TangentPoints(PointModel):
    """A tangent model at fixed inputs."""

    model: TangentModel
    x: Array

    def __call__(self, weights: Weights) -> Float[Array, "n out"]:
        model, epsilon = self.model, self.model.epsilon.astype(weights.dtype)

        def along(t: Array) -> Array:
            outputs = model.function(model.moved(weights, t), self.x)
            return outputs.reshape(len(self.x), -1)

        if model.order is None:
            start = along(jnp.zeros((), weights.dtype))
            return start + (along(epsilon) - start) / epsilon
        start, *slopes = value_and_derivatives(along, jnp.zeros((), weights.dtype), model.order)
        terms = (epsilon ** (k - 1) / math.factorial(k) * s for k, s in enumerate(slopes, start=1))
        return sum(terms, start)

    def jacobian(self, weights: Weights) -> Float[Array, "n_out params"]:
        return jax.jacrev(lambda w: self(w).reshape(-1))(weights)


class TangentMetaKernel(MetaKernel):
    r"""The meta kernel $\partial^2z_0[\phi_1,\phi_2]$ of a model at given weights, direction by direction.

    A matrix is taken apart into singular vectors, each of which costs one product with a Hessian; those of
    the algorithm projectors fall off so fast that a few dozen are enough at any number of points.
    """

    points: tuple[PointModel, PointModel, PointModel]
    weights: Float[Array, "..."]

    @property
    def shape(self) -> tuple[int, int, int]:
        # A compiled function is traced once for all parameters.
        sizes = [math.prod(jax.eval_shape(partial(outputs_at, p), self.weights).shape) for p in self.points]
        return sizes[0], sizes[1], sizes[2]

    def over_features(self, C: Float[AnyArray, "out n1 n2"]) -> Float[np.ndarray, "n0 out"]:
        return np.stack([np.asarray(self._bent(*_jax_factors(c))) for c in np.asarray(C)], axis=1)

    def over_meta(self, C: Float[AnyArray, "out n0 n2"]) -> Float[np.ndarray, "n1 out"]:
        return np.stack([np.asarray(self._reached(*_jax_factors(c))) for c in np.asarray(C)], axis=1)

    def along(self, q: Float[AnyArray, "n2 out"]) -> Float[np.ndarray, "out n0 n1"]:
        return np.stack([np.asarray(self._turned(jnp.asarray(column))) for column in np.asarray(q).T])

    @eqx.filter_jit
    def _bent(self, left: Float[Array, "rank n1"], right: Float[Array, "rank n2"]) -> Float[Array, " n0"]:
        def one(total, pair):
            u, v = _push(self.points[1], self.weights, pair[0]), _push(self.points[2], self.weights, pair[1])
            return total + _slope(lambda w: _slope(self.points[0], w, u), self.weights, v).reshape(-1), None

        start = jnp.zeros(self.shape[0], jax.eval_shape(self.points[0], self.weights).dtype)
        return jax.lax.scan(one, start, (left, right))[0]

    @eqx.filter_jit
    def _reached(self, left: Float[Array, "rank n0"], right: Float[Array, "rank n2"]) -> Float[Array, " n1"]:
        def one(total, pair):
            v = _push(self.points[2], self.weights, pair[1])
            return total + _slope(lambda w: _push(self.points[0], w, pair[0]), self.weights, v), None

        direction = jax.lax.scan(one, jnp.zeros_like(self.weights), (left, right))[0]
        return _slope(self.points[1], self.weights, direction).reshape(-1)

    @eqx.filter_jit
    def _turned(self, q: Float[Array, " n2"]) -> Float[Array, "n0 n1"]:
        v = _push(self.points[2], self.weights, q)
        return _slope(self.points[0].jacobian, self.weights, v) @ self.points[1].jacobian(self.weights).T


def _slope(function: Callable[[Array], Array], weights: Array, direction: Array) -> Array:
    return jax.jvp(function, (weights,), (direction,))[1]


def _push(points: PointModel, weights: Array, q: Float[Array, " n_out"]) -> Array:
    r"""$\sum_aq_a\phi_a$: the direction in which these outputs push the weights."""
    z, pull = jax.vjp(points, weights)
    # JAX wants the outputs' own precision, which inputs and parameters decide together.
    return pull(q.reshape(z.shape).astype(z.dtype))[0]


def _jax_factors(C: Float[np.ndarray, "n m"]) -> tuple[Array, Array]:
    """Factors padded with zeros to a multiple of eight, so that few ranks need a compilation of their own."""
    left, right = factors(C)
    more = ((0, -len(left) % 8), (0, 0))
    return jnp.asarray(np.pad(left, more)), jnp.asarray(np.pad(right, more))
