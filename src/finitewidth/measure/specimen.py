"""A network at its weights, with data and a loss: the one thing that every measurement takes."""

import abc
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from finitewidth._base.foreign import is_torch
from finitewidth.measure.batches import Batch, slices
from finitewidth.measure.labels import Data, Loss
from finitewidth.measure.sites import Site

Vector = Float[np.ndarray, " parameters"]
Groups = dict[str, tuple[slice, tuple[int, ...]]]

MEMORY_LIMIT = 2**31


class Specimen(abc.ABC):
    """A network at its weights theta (p numbers in a row), on points x with labels y, with a loss.

    The objective is L(theta) = Avg_i l(f(x_i), y_i): the MEAN over the points. "cross_entropy" is
    l = -log softmax(f)_y for whole-number labels y, "mse" is l = |f - y|^2 / 2. Vectors are NumPy arrays of
    the weights' precision, whatever the framework. The weights are those at the time when the specimen was
    made: training the model further does not change it.
    """

    def __init__(self, data: Data, batch_size: int | None, memory_limit: int):
        self.data, self.batch_size, self.memory_limit = data, batch_size, memory_limit
        self._rows = slices(data.points, batch_size)

    @property
    def x(self) -> Any:
        """Inputs."""
        return self.data.x

    @property
    def y(self) -> np.ndarray | None:
        """Labels."""
        return self.data.y

    @property
    def loss(self) -> Loss | None:
        """The name of the loss, or the function that was given."""
        return self.data.loss

    @property
    def points(self) -> int:
        """How many there are."""
        return self.data.points

    @property
    @abc.abstractmethod
    def weights(self) -> Vector:
        """All trained parameters in a row."""

    @property
    @abc.abstractmethod
    def groups(self) -> Groups:
        """Where in the row each parameter stands, and its shape, by its name in the model."""

    @abc.abstractmethod
    def at(self, weights: Vector) -> "Specimen":
        """The same network, data and loss at other weights."""

    @abc.abstractmethod
    def on(self, x: Any, y: Any = None) -> "Specimen":
        """The same network and loss on other data."""

    @abc.abstractmethod
    def look(self, cotangent: Float[np.ndarray, "points out"]) -> tuple[Site, ...]:
        """What enters and leaves every contraction with a parameter, and what flows back to it."""

    @abc.abstractmethod
    def _batch(self, rows: slice) -> Batch:
        """Some of the points."""

    def outputs(self) -> Float[np.ndarray, "points out"]:
        """f at every point."""
        return np.concatenate([batch.outputs() for batch in self._batches])

    def value(self) -> float:
        """The objective L."""
        return _finite("the loss", self._average(lambda batch: batch.value()))

    def gradient(self) -> Vector:
        """dL / dtheta."""
        return _finite("the gradient", self._average(lambda batch: batch.gradient()))

    def loss_slopes(self) -> Float[np.ndarray, "points out"]:
        """dl(f(x_i), y_i) / df at every point."""
        self._check_labelled()
        return np.concatenate([len(slope) * slope for slope in (b.loss_slope() for b in self._batches)])

    def hessian_product(self, v: Vector) -> Vector:
        """H v with H = d2L / dtheta2."""
        return _finite("the Hessian", self._average(lambda batch: batch.hessian_product(v)))

    def gauss_newton_product(self, v: Vector) -> Vector:
        """G v with G = Avg_i J_i^T (d2l / df2) J_i and J_i = df(x_i) / dtheta."""
        return _finite("the Gauss-Newton matrix", self._average(lambda b: b.gauss_newton_product(v)))

    def jacobian_product(self, v: Vector) -> Float[np.ndarray, "points out"]:
        """J v at every point."""
        return np.concatenate(self._each(lambda batch: batch.jacobian_product(v)))

    def transposed_jacobian_product(self, u: Float[np.ndarray, "points out"]) -> Vector:
        """sum_i J_i^T u_i."""
        parts = dict(zip(self._batches, self._rows, strict=True))
        return functools.reduce(
            np.add, self._each(lambda batch: batch.transposed_jacobian_product(u[parts[batch]]))
        )

    def jacobian(self) -> Float[np.ndarray, "points out parameters"]:
        """J of every point and output, all of it: p numbers for each."""
        return np.concatenate([self._batch(slice(i, i + 1)).jacobian() for i in range(self.points)])

    @functools.cached_property
    def _batches(self) -> tuple[Batch, ...]:
        return tuple(self._batch(rows) for rows in self._rows)

    def _each(self, measure: Callable[[Batch], Any]) -> list:
        """A measurement of every batch; what it leaves for the next is kept while memory lasts."""
        found = []
        for batch in self._batches:
            found.append(measure(batch))
            if sum(other.kept_bytes() for other in self._batches) > self.memory_limit:
                batch.forget()
        return found

    def _average(self, measure: Callable[[Batch], Any]) -> Any:
        """The mean over the points of what is a mean over the points of each batch."""
        self._check_labelled()
        shares = [(rows.stop - rows.start) / self.points for rows in self._rows]
        found = self._each(measure)
        if len(found) == 1:
            return found[0]
        return functools.reduce(
            np.add, [part * np.asarray(s, part.dtype) for s, part in zip(shares, found, strict=True)]
        )

    def _check_labelled(self) -> None:
        if self.y is None:
            raise ValueError("this measurement needs a loss: make the specimen with labels y.")


def _finite(name: str, found: Any) -> Any:
    if not np.isfinite(found).all():
        raise ValueError(
            f"{name} has NaN or infinite values at these weights: they or the inputs are too large, or the "
            "model divides by zero."
        )
    return float(found) if np.ndim(found) == 0 else found


def specimen(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    params: PyTree | None = None,
    loss: Loss | None = None,
    batch_size: int | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> Specimen:
    """A specimen of any model.

    Parameters
    ----------
    model
        A network of finitewidth's layers, any function of (params, x), a Flax module (linen or nnx), an
        Equinox module (of one input), or a PyTorch module.
    x
        Inputs (points, ...), or a tuple or dictionary of them, which the model gets as it is. Real numbers
        get the precision of the weights.
    y
        Labels: whole numbers (points,) for "cross_entropy", numbers (points, out) for "mse". Without them
        only what needs no loss can be measured.
    params
        The weights; not needed for models that carry theirs (nnx, Equinox, PyTorch). For PyTorch a state
        dict.
    loss
        "cross_entropy", "mse" or a function of (outputs, labels) in the model's framework that returns the
        mean over the points it is given. Chosen by the labels when left out.
    batch_size
        Points at a time; all at once when left out.
    memory_limit
        Bytes that a specimen may keep from one product with a matrix to the next. What does not fit is
        computed again each time.
    """
    from finitewidth.measure.checks import check_mode

    check_mode(model, params, x)
    if is_torch(model):
        from finitewidth.measure.torch.specimen import torch_specimen as make
    else:
        from finitewidth.measure.jax.specimen import jax_specimen as make
    return make(model, x, y, params=params, loss=loss, batch_size=batch_size, memory_limit=memory_limit)
