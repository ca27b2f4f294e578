"""A network at its weights, with data and a loss: the one thing that every measurement takes."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from finitewidth.measure.sites import Site

Vector = Float[np.ndarray, " parameters"]
Loss = str | Callable[[Any, Any], Any]


class Specimen(abc.ABC):
    """A network at its weights theta (p numbers in a row), on points x with labels y, with a loss.

    The objective is L(theta) = Avg_i l(f(x_i), y_i): the MEAN over the points. "cross_entropy" is
    l = -log softmax(f)_y for whole-number labels y, "mse" is l = |f - y|^2 / 2. Vectors are NumPy arrays,
    whatever the framework.
    """

    x: np.ndarray
    y: np.ndarray | None
    loss: Loss | None

    @property
    @abc.abstractmethod
    def weights(self) -> Vector:
        """All trained parameters in a row."""

    @property
    @abc.abstractmethod
    def groups(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """Where in the row each parameter stands, and its shape, by its name in the model."""

    @abc.abstractmethod
    def at(self, weights: Vector) -> "Specimen":
        """The same network, data and loss at other weights."""

    @abc.abstractmethod
    def on(self, x: np.ndarray, y: np.ndarray | None) -> "Specimen":
        """The same network and loss on other data."""

    @abc.abstractmethod
    def outputs(self) -> Float[np.ndarray, "points out"]:
        """f at every point."""

    @abc.abstractmethod
    def value(self) -> float:
        """The objective L."""

    @abc.abstractmethod
    def gradient(self) -> Vector:
        """dL / dtheta."""

    @abc.abstractmethod
    def hessian_product(self, v: Vector) -> Vector:
        """H v with H = d2L / dtheta2."""

    @abc.abstractmethod
    def gauss_newton_product(self, v: Vector) -> Vector:
        """G v with G = Avg_i J_i^T (d2l / df2) J_i and J_i = df(x_i) / dtheta."""

    @abc.abstractmethod
    def jacobian_product(self, v: Vector) -> Float[np.ndarray, "points out"]:
        """J v at every point."""

    @abc.abstractmethod
    def transposed_jacobian_product(self, u: Float[np.ndarray, "points out"]) -> Vector:
        """sum_i J_i^T u_i."""

    @abc.abstractmethod
    def look(self, cotangent: Float[np.ndarray, "points out"]) -> tuple[Site, ...]:
        """What enters and leaves every contraction with a parameter, and what flows back to it."""


def specimen(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    params: PyTree | None = None,
    loss: Loss | None = None,
    batch_size: int | None = None,
) -> Specimen:
    """A specimen of any model.

    Parameters
    ----------
    model
        A network of finitewidth's layers, any function of (params, x), a Flax module (linen or nnx), an
        Equinox module (of one input), or a PyTorch module.
    x
        Inputs (points, ...).
    y
        Labels: whole numbers (points,) for "cross_entropy", numbers (points, out) for "mse". Without them
        only what needs no loss can be measured.
    params
        The weights; not needed for models that carry theirs (nnx, Equinox, PyTorch).
    loss
        "cross_entropy", "mse" or a function of (outputs, labels) in the model's framework that returns the
        mean over the points it is given. Chosen by the labels when left out.
    batch_size
        Points at a time; all at once when left out.
    """
    from finitewidth.measure.jax_specimen import jax_specimen
    from finitewidth.measure.torch_specimen import is_torch, torch_specimen

    if is_torch(model):
        return torch_specimen(model, x, y, params=params, loss=loss, batch_size=batch_size)
    return jax_specimen(model, x, y, params=params, loss=loss, batch_size=batch_size)
