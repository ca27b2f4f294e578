"""Specimens of networks that JAX differentiates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from finitewidth.architecture import Layer
from finitewidth.foreign import check_function, check_params
from finitewidth.measure.labels import loss_name
from finitewidth.measure.sites import Site
from finitewidth.measure.specimen import Loss, Specimen, Vector

Apply = Callable[[Any, Any], Array]


def mean_cross_entropy(outputs: Float[Array, "n out"], labels: Array) -> Float[Array, ""]:
    """Avg_i -log softmax(f_i)_{y_i}."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(outputs), labels[:, None], axis=1))


def mean_squared_error(outputs: Float[Array, "n out"], labels: Array) -> Float[Array, ""]:
    """Avg_i |f_i - y_i|^2 / 2."""
    return 0.5 * jnp.sum((outputs - labels.reshape(outputs.shape)) ** 2) / len(outputs)


LOSSES = {"cross_entropy": mean_cross_entropy, "mse": mean_squared_error}


class JaxSpecimen(Specimen):
    """A function of (params, x) at given params."""

    def __init__(self, apply: Apply, params: PyTree, x: np.ndarray, y: np.ndarray | None, loss: Loss | None):
        self.apply, self.params, self.x, self.y, self.loss = apply, params, x, y, loss
        self._flat, self._unravel = ravel_pytree(params)
        self._mean_loss = LOSSES[loss] if isinstance(loss, str) else loss
        self._linear_hessian: Callable | None = None

    @property
    def weights(self) -> Vector:
        return np.asarray(self._flat)

    @property
    def groups(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        found, start = {}, 0
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.params):
            found[jax.tree_util.keystr(path, simple=True, separator=".")] = (
                slice(start, start + leaf.size),
                tuple(leaf.shape),
            )
            start += leaf.size
        return found

    def at(self, weights: Vector) -> "JaxSpecimen":
        return JaxSpecimen(self.apply, self._unravel(jnp.asarray(weights)), self.x, self.y, self.loss)

    def on(self, x: np.ndarray, y: np.ndarray | None) -> "JaxSpecimen":
        return JaxSpecimen(
            self.apply, self.params, np.asarray(x), None if y is None else np.asarray(y), self.loss
        )

    def outputs(self) -> np.ndarray:
        return np.asarray(self._outputs(self._flat))

    def value(self) -> float:
        return float(self._objective(self._flat))

    def gradient(self) -> Vector:
        return np.asarray(jax.grad(self._objective)(self._flat))

    def hessian_product(self, v: Vector) -> Vector:
        if self._linear_hessian is None:
            self._linear_hessian = jax.jit(jax.linearize(jax.grad(self._objective), self._flat)[1])
        return np.asarray(self._linear_hessian(jnp.asarray(v, self._flat.dtype)))

    def gauss_newton_product(self, v: Vector) -> Vector:
        outputs, jv = jax.jvp(self._outputs, (self._flat,), (jnp.asarray(v, self._flat.dtype),))
        curved = jax.jvp(jax.grad(self._loss_of_outputs), (outputs,), (jv,))[1]
        return self.transposed_jacobian_product(np.asarray(curved))

    def jacobian_product(self, v: Vector) -> np.ndarray:
        return np.asarray(jax.jvp(self._outputs, (self._flat,), (jnp.asarray(v, self._flat.dtype),))[1])

    def transposed_jacobian_product(self, u: np.ndarray) -> Vector:
        return np.asarray(jax.vjp(self._outputs, self._flat)[1](jnp.asarray(u, self._flat.dtype))[0])

    def look(self, cotangent: np.ndarray) -> tuple[Site, ...]:
        from finitewidth.measure.jax_sites import look

        return look(self.apply, self.params, self.x, cotangent)

    def _outputs(self, flat: Array) -> Array:
        return self.apply(self._unravel(flat), jnp.asarray(self.x)).reshape(len(self.x), -1)

    def _loss_of_outputs(self, outputs: Array) -> Array:
        assert self._mean_loss is not None
        return self._mean_loss(outputs, jnp.asarray(self.y))

    def _objective(self, flat: Array) -> Array:
        return self._loss_of_outputs(self._outputs(flat))


def jax_specimen(
    model: Any, x: Any, y: Any, *, params: PyTree | None, loss: Loss | None, batch_size: int | None
) -> JaxSpecimen:
    """A specimen of layers, of a function, or of a Flax or Equinox module."""
    apply, params = as_function(model, params)
    check_params(params)
    x = np.asarray(x)
    y = None if y is None else np.asarray(y)
    outputs = jax.eval_shape(apply, params, x)
    return JaxSpecimen(apply, params, x, y, loss_name(loss, y, int(np.prod(outputs.shape[1:]))))


def as_function(model: Any, params: PyTree | None) -> tuple[Apply, PyTree]:
    """A function of (params, x) and its trained parameters, from any model of JAX."""
    if isinstance(model, Layer):
        return model.apply, params
    origins = {kind.__module__ for kind in type(model).__mro__}
    if any(origin.startswith("flax.nnx") for origin in origins):
        from flax import nnx

        graph, trained, rest = nnx.split(model, nnx.Param, ...)
        return lambda p, x: nnx.merge(graph, p, rest)(x), nnx.to_pure_dict(trained)
    if any(origin.startswith("flax.linen") for origin in origins):
        constant = {name: part for name, part in params.items() if name != "params"}
        return lambda p, x: model.apply({"params": p, **constant}, x), params["params"]
    if any(origin.startswith("equinox") for origin in origins) and params is None:
        trained, rest = eqx.partition(model, eqx.is_inexact_array)
        return lambda p, x: jax.vmap(eqx.combine(p, rest))(x), trained
    check_function(model)
    return model, params
