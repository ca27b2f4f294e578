"""Specimens of networks that JAX differentiates."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from finitewidth._base.foreign import check_function, check_params
from finitewidth.architecture.layer import Layer
from finitewidth.measure.batches import Batch
from finitewidth.measure.labels import Data, Loss, as_data, check_weights
from finitewidth.measure.sites import Site, joined
from finitewidth.measure.specimen import MEMORY_LIMIT, Groups, Specimen, Vector
from finitewidth.networks.losses import LOSSES

Apply = Callable[[Any, Any], Array]
# What `jax.linearize` returns: a linear function that carries its arrays.
Linear = Callable[[Array], Array]


class Programs:
    """What is compiled for a network and a loss, once for all weights and data of one shape."""

    def __init__(self, apply: Apply, unravel: Callable, loss: Loss | None):
        self.apply, self.unravel, self.loss = apply, unravel, loss
        self.outputs = jax.jit(self._outputs)
        self.value = jax.jit(self._objective)
        self.gradient = jax.jit(jax.grad(self._objective))
        self.loss_slope = jax.jit(jax.grad(self._mean_loss))
        self.linear_gradient = jax.jit(lambda w, x, y: jax.linearize(lambda w: self.gradient(w, x, y), w)[1])
        self.linear_outputs = jax.jit(lambda w, x: jax.linearize(lambda w: self._outputs(w, x), w))
        self.jacobian = jax.jit(jax.jacrev(self._outputs))
        self.apply_linear = jax.jit(lambda linear, v: linear(v))
        self.apply_transposed = jax.jit(_transposed)
        self.gauss_newton = jax.jit(self._gauss_newton)

    def _outputs(self, weights: Array, x: Any) -> Array:
        points = len(jax.tree.leaves(x)[0])
        return self.apply(self.unravel(weights), x).reshape(points, -1)

    def _mean_loss(self, outputs: Array, y: Array) -> Array:
        if isinstance(self.loss, str):
            return LOSSES[self.loss].value(outputs, y) / len(outputs)
        assert self.loss is not None
        return self.loss(outputs, y)

    def _objective(self, weights: Array, x: Any, y: Array) -> Array:
        return self._mean_loss(self._outputs(weights, x), y)

    def _gauss_newton(self, outputs: Array, linear: Linear, y: Array, v: Array) -> Array:
        slope = lambda outputs: jax.grad(self._mean_loss)(outputs, y)
        return _transposed(linear, jax.jvp(slope, (outputs,), (linear(v),))[1], v)


def _transposed(linear: Linear, u: Array, like: Array) -> Array:
    return jax.linear_transpose(linear, like)(u)[0]


class JaxBatch(Batch):
    """A function of (params, x) on some of the points."""

    def __init__(self, programs: Programs, weights: Array, x: Any, y: np.ndarray | None):
        self.programs, self.weights, self.x = programs, weights, jax.tree.map(jnp.asarray, x)
        self.y = None if y is None else jnp.asarray(y)
        self._linear_gradient: Linear | None = None
        self._linear_outputs: tuple[Array, Linear] | None = None

    def outputs(self) -> np.ndarray:
        return np.asarray(self.programs.outputs(self.weights, self.x))

    def value(self) -> np.ndarray:
        return np.asarray(self.programs.value(self.weights, self.x, self.y))

    def gradient(self) -> Vector:
        return np.asarray(self.programs.gradient(self.weights, self.x, self.y))

    def loss_slope(self) -> np.ndarray:
        return np.asarray(self.programs.loss_slope(self.programs.outputs(self.weights, self.x), self.y))

    def hessian_product(self, v: Vector) -> Vector:
        if self._linear_gradient is None:
            self._linear_gradient = self.programs.linear_gradient(self.weights, self.x, self.y)
        return np.asarray(self.programs.apply_linear(self._linear_gradient, self._vector(v)))

    def gauss_newton_product(self, v: Vector) -> Vector:
        return np.asarray(self.programs.gauss_newton(*self._linearised(), self.y, self._vector(v)))

    def jacobian_product(self, v: Vector) -> np.ndarray:
        return np.asarray(self.programs.apply_linear(self._linearised()[1], self._vector(v)))

    def transposed_jacobian_product(self, u: np.ndarray) -> Vector:
        outputs, linear = self._linearised()
        return np.asarray(self.programs.apply_transposed(linear, jnp.asarray(u, outputs.dtype), self.weights))

    def jacobian(self) -> np.ndarray:
        return np.asarray(self.programs.jacobian(self.weights, self.x))

    def kept_bytes(self) -> int:
        kept = jax.tree.leaves((self._linear_gradient, self._linear_outputs))
        return sum(leaf.nbytes for leaf in kept)

    def forget(self) -> None:
        self._linear_gradient = self._linear_outputs = None

    def _linearised(self) -> tuple[Array, Linear]:
        if self._linear_outputs is None:
            self._linear_outputs = self.programs.linear_outputs(self.weights, self.x)
        assert self._linear_outputs is not None
        return self._linear_outputs

    def _vector(self, v: Vector) -> Array:
        return jnp.asarray(v, self.weights.dtype)


class JaxSpecimen(Specimen):
    """A function of (params, x) at given params."""

    def __init__(
        self, programs: Programs, params: PyTree, data: Data, batch_size: int | None, memory_limit: int
    ):
        super().__init__(data, batch_size, memory_limit)
        self.apply, self.params, self._programs = programs.apply, params, programs
        self._flat = ravel_pytree(params)[0]
        check_weights({name: self.weights[place] for name, (place, _) in self.groups.items()})

    @property
    def weights(self) -> Vector:
        return np.asarray(self._flat)

    @functools.cached_property
    def groups(self) -> Groups:
        found, start = {}, 0
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.params):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            found[name] = slice(start, start + leaf.size), tuple(leaf.shape)
            start += leaf.size
        return found

    def at(self, weights: Vector) -> "JaxSpecimen":
        params = self._programs.unravel(jnp.asarray(weights, self._flat.dtype))
        return JaxSpecimen(self._programs, params, self.data, self.batch_size, self.memory_limit)

    def on(self, x: Any, y: Any = None) -> "JaxSpecimen":
        data = jax_data(self.apply, self.params, x, y, self.loss)
        fits = data.loss == self.loss
        programs = self._programs if fits else Programs(self.apply, self._programs.unravel, data.loss)
        return JaxSpecimen(programs, self.params, data, self.batch_size, self.memory_limit)

    def look(self, cotangent: np.ndarray) -> tuple[Site, ...]:
        from finitewidth.measure.jax.sites import look

        return joined(
            look(self.apply, self.params, self._inputs(rows), cotangent[rows]) for rows in self._rows
        )

    def _batch(self, rows: slice) -> JaxBatch:
        y = None if self.y is None else self.y[rows]
        return JaxBatch(self._programs, self._flat, self._inputs(rows), y)

    def _inputs(self, rows: slice) -> Any:
        return jax.tree.map(lambda part: part[rows], self.x)


def jax_specimen(
    model: Any,
    x: Any,
    y: Any,
    *,
    params: PyTree | None,
    loss: Loss | None,
    batch_size: int | None,
    memory_limit: int = MEMORY_LIMIT,
) -> JaxSpecimen:
    """A specimen of layers, of a function, or of a Flax or Equinox module."""
    apply, params = as_function(model, params)
    check_params(params)
    data = jax_data(apply, params, x, y, loss)
    programs = Programs(apply, ravel_pytree(params)[1], data.loss)
    return JaxSpecimen(programs, params, data, batch_size, memory_limit)


def jax_data(apply: Apply, params: PyTree, x: Any, y: Any, loss: Loss | None) -> Data:
    """Data that fit a function of (params, x)."""
    dtype = jnp.result_type(*jax.tree.leaves(params))
    return as_data(x, y, loss, dtype, lambda x: jax.eval_shape(apply, params, x).shape)


def as_function(model: Any, params: PyTree | None) -> tuple[Apply, PyTree]:
    """A function of (params, x) and its trained parameters, from any model of JAX."""
    origins = {kind.__module__ for kind in type(model).__mro__}
    if any(origin.startswith("flax.nnx") for origin in origins):
        from flax import nnx

        if params is not None:
            raise ValueError("params must be left out for a module of Flax NNX, which carries its weights.")
        graph, trained, rest = nnx.split(model, nnx.Param, ...)
        # A copy: modules that count their random draws may not write to what came from outside.
        return lambda p, x: nnx.merge(graph, p, rest, copy=True)(x), nnx.to_pure_dict(trained)
    own = isinstance(model, Layer)
    if any(origin.startswith("equinox") for origin in origins) and params is None and not own:
        trained, rest = eqx.partition(model, eqx.is_inexact_array)
        return lambda p, x: jax.vmap(eqx.combine(p, rest))(x), trained
    linen = any(origin.startswith("flax.linen") for origin in origins)
    if not own and not linen:
        check_function(model)
    if params is None:
        kind = getattr(model, "__name__", type(model).__name__)
        raise ValueError(f"params is missing: {kind} does not carry its weights, so pass params=...")
    if own:
        return model.apply, params
    if linen:
        if not hasattr(params, "items") or "params" not in params:
            raise ValueError("params of a linen module must be all that `model.init` returned.")
        constant = {name: part for name, part in params.items() if name != "params"}
        return lambda p, x: model.apply({"params": p, **constant}, x), params["params"]
    return model, params
