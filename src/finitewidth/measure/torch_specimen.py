"""Specimens of PyTorch modules."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PyTree

from finitewidth.measure.labels import loss_name
from finitewidth.measure.sites import Site
from finitewidth.measure.specimen import Loss, Specimen, Vector

if TYPE_CHECKING:
    import torch


def is_torch(model: Any) -> bool:
    """Whether this is a PyTorch module, without importing PyTorch."""
    return any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)


class TorchSpecimen(Specimen):
    """A PyTorch module at its own weights, or at others."""

    def __init__(self, module: Any, weights: dict[str, Any], x: Any, y: Any, loss: Loss | None):
        self.module, self._weights, self.loss = module, weights, loss
        self._x, self._y = x, y
        self._graph: tuple | None = None

    @property
    def x(self) -> np.ndarray:
        return self._x.numpy()

    @property
    def y(self) -> np.ndarray | None:
        return None if self._y is None else self._y.numpy()

    @property
    def weights(self) -> Vector:
        return self._row(self._weights.values())

    @property
    def groups(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        found, start = {}, 0
        for name, weight in self._weights.items():
            found[name] = (slice(start, start + weight.numel()), tuple(weight.shape))
            start += weight.numel()
        return found

    def at(self, weights: Vector) -> "TorchSpecimen":
        return TorchSpecimen(self.module, self._parts(weights), self._x, self._y, self.loss)

    def on(self, x: np.ndarray, y: np.ndarray | None) -> "TorchSpecimen":
        import torch

        return TorchSpecimen(
            self.module,
            self._weights,
            torch.as_tensor(np.asarray(x)),
            None if y is None else torch.as_tensor(np.asarray(y)),
            self.loss,
        )

    def outputs(self) -> np.ndarray:
        import torch

        with torch.no_grad():
            return self._outputs(self._weights).numpy()

    def value(self) -> float:
        return float(self._objective(self._weights))

    def gradient(self) -> Vector:
        _, gradient = self._kept_graph()
        return self._row(gradient)

    def hessian_product(self, v: Vector) -> Vector:
        import torch

        leaves, gradient = self._kept_graph()
        inner = sum((g * part).sum() for g, part in zip(gradient, self._parts(v).values(), strict=True))
        product = torch.autograd.grad(inner, leaves, retain_graph=True, allow_unused=True)
        return self._row(
            torch.zeros_like(leaf) if part is None else part
            for part, leaf in zip(product, leaves, strict=True)
        )

    def gauss_newton_product(self, v: Vector) -> Vector:
        import torch

        outputs = torch.as_tensor(self.outputs()).requires_grad_()
        slope = torch.autograd.grad(self._mean_loss()(outputs, self._y), outputs, create_graph=True)[0]
        curved = torch.autograd.grad(slope, outputs, torch.as_tensor(self.jacobian_product(v)))[0]
        return self.transposed_jacobian_product(curved.numpy())

    def jacobian_product(self, v: Vector) -> np.ndarray:
        import torch

        return torch.func.jvp(self._outputs, (self._weights,), (self._parts(v),))[1].numpy()

    def transposed_jacobian_product(self, u: np.ndarray) -> Vector:
        import torch

        leaves = {name: weight.clone().requires_grad_() for name, weight in self._weights.items()}
        parts = torch.autograd.grad(self._outputs(leaves), tuple(leaves.values()), torch.as_tensor(u))
        return self._row(parts)

    def look(self, cotangent: np.ndarray) -> tuple[Site, ...]:
        from finitewidth.measure.torch_sites import look

        return look(self.module, self._weights, self._x, cotangent)

    def _kept_graph(self) -> tuple:
        """The weights and the gradient with its graph, kept for every product."""
        import torch

        if self._graph is None:
            leaves = {name: weight.clone().requires_grad_() for name, weight in self._weights.items()}
            gradient = torch.autograd.grad(self._objective(leaves), tuple(leaves.values()), create_graph=True)
            self._graph = tuple(leaves.values()), gradient
        return self._graph

    def _outputs(self, weights: dict[str, "torch.Tensor"]) -> "torch.Tensor":
        import torch

        return torch.func.functional_call(self.module, weights, (self._x,)).reshape(len(self._x), -1)

    def _objective(self, weights: dict[str, "torch.Tensor"]) -> "torch.Tensor":
        return self._mean_loss()(self._outputs(weights), self._y)

    def _mean_loss(self) -> Callable:
        import torch

        if not isinstance(self.loss, str):
            assert self.loss is not None
            return self.loss
        return {
            "cross_entropy": torch.nn.functional.cross_entropy,
            "mse": lambda outputs, y: 0.5 * ((outputs - y.reshape(outputs.shape)) ** 2).sum() / len(outputs),
        }[self.loss]

    def _parts(self, v: Vector) -> dict[str, "torch.Tensor"]:
        import torch

        row = torch.as_tensor(np.asarray(v))
        return {
            name: row[place].reshape(shape).to(self._weights[name].dtype)
            for name, (place, shape) in self.groups.items()
        }

    def _row(self, parts: Any) -> Vector:
        return np.concatenate([part.detach().numpy().ravel() for part in parts])


def torch_specimen(
    module: Any, x: Any, y: Any, *, params: PyTree | None, loss: Loss | None, batch_size: int | None
) -> TorchSpecimen:
    """A specimen of a PyTorch module, at its own weights or at a state dict."""
    import torch

    names = [name for name, weight in module.named_parameters() if weight.requires_grad]
    source = dict(module.named_parameters()) if params is None else params
    weights = {name: source[name].detach() for name in names}
    x = torch.as_tensor(np.asarray(x)) if not isinstance(x, torch.Tensor) else x.detach()
    y = None if y is None else torch.as_tensor(np.asarray(y))
    with torch.no_grad():
        outputs = module(x[:1])
    name = loss_name(loss, None if y is None else y.numpy(), outputs[0].numel())
    return TorchSpecimen(module, weights, x, y, name)
