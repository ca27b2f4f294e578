"""Derivatives of a PyTorch module on some of the points.

A product with the Hessian differentiates the gradient once more; its graph is built once and kept. Products
with the Jacobian J take the same way: J^T u is linear in u, and its derivative by u, along v, is J v. So they
work for every layer that can be differentiated twice. Forward differentiation would be missing for some
layers, and wrong for others.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.backends import mha
from torch.nn.attention import SDPBackend, sdpa_kernel

from finitewidth.measure.batches import Batch
from finitewidth.measure.specimen import Vector

Tensors = dict[str, Tensor]


class Kept(NamedTuple):
    """Weights, and tensors that depend on them, with their graph and its size."""

    weights: tuple[Tensor, ...]
    tensors: tuple[Tensor, ...]
    size: int


class TorchBatch(Batch):
    """A function of named tensors and inputs, on some of the points."""

    def __init__(self, call: Callable, loss: Callable | None, weights: Tensors, x: Any, y: Any):
        self.call, self.loss, self.weights, self.x, self.y = call, loss, weights, x, y
        self._gradient: Kept | None = None
        self._outputs: tuple[Tensor, Tensor, Kept] | None = None

    def outputs(self) -> np.ndarray:
        with torch.no_grad():
            return as_array(self.call(self.weights, self.x))

    def value(self) -> np.ndarray:
        with torch.no_grad():
            return as_array(self._mean_loss(self.call(self.weights, self.x)))

    def gradient(self) -> Vector:
        if self._gradient is not None:
            return as_row(self._gradient.tensors)
        leaves = self._leaves()
        return as_row(derivatives([self._mean_loss(self.call(leaves, self.x))], tuple(leaves.values())))

    def loss_slope(self) -> np.ndarray:
        with torch.no_grad():
            outputs = self.call(self.weights, self.x)
        outputs.requires_grad_()
        return as_array(derivatives([self._mean_loss(outputs)], (outputs,))[0])

    def hessian_product(self, v: Vector) -> Vector:
        if self._gradient is None:
            leaves = self._leaves()
            loss = self._mean_loss(self.call(leaves, self.x))
            gradient = derivatives([loss], tuple(leaves.values()), create_graph=True)
            self._gradient = Kept(tuple(leaves.values()), gradient, _graph_bytes(gradient))
        return as_row(derivatives(self._gradient.tensors, self._gradient.weights, self._parts(v), keep=True))

    def gauss_newton_product(self, v: Vector) -> Vector:
        outputs, _, kept = self._graph()
        point = outputs.detach().requires_grad_()
        slope = derivatives([self._mean_loss(point)], (point,), create_graph=True)
        curved = derivatives(slope, (point,), [self._pushed(v)])
        return as_row(derivatives([outputs], kept.weights, curved, keep=True))

    def jacobian_product(self, v: Vector) -> np.ndarray:
        return as_array(self._pushed(v))

    def transposed_jacobian_product(self, u: np.ndarray) -> Vector:
        outputs, _, kept = self._graph()
        return as_row(derivatives([outputs], kept.weights, [torch.as_tensor(u).to(outputs)], keep=True))

    def jacobian(self) -> np.ndarray:
        points, out = self._graph()[0].shape
        units = np.eye(points * out).reshape(points, out, points, out)
        return np.array([[self.transposed_jacobian_product(unit) for unit in row] for row in units])

    def kept_bytes(self) -> int:
        kept = (self._gradient, self._outputs and self._outputs[2])
        return sum(part.size for part in kept if part is not None)

    def forget(self) -> None:
        self._gradient = self._outputs = None

    def _graph(self) -> tuple[Tensor, Tensor, Kept]:
        """Outputs, a place for u, and J^T u."""
        if self._outputs is None:
            leaves = self._leaves()
            outputs = self.call(leaves, self.x)
            u = torch.zeros_like(outputs).requires_grad_()
            pulled = derivatives([outputs], tuple(leaves.values()), [u], create_graph=True)
            self._outputs = outputs, u, Kept(tuple(leaves.values()), pulled, _graph_bytes(pulled))
        return self._outputs

    def _pushed(self, v: Vector) -> Tensor:
        _, u, kept = self._graph()
        return derivatives(kept.tensors, (u,), self._parts(v), keep=True)[0]

    def _mean_loss(self, outputs: Tensor) -> Tensor:
        assert self.loss is not None
        return self.loss(outputs, self.y)

    def _leaves(self) -> Tensors:
        return {name: weight.detach().requires_grad_() for name, weight in self.weights.items()}

    def _parts(self, v: Vector) -> Sequence[Tensor]:
        return tuple(as_parts(v, self.weights).values())


@contextlib.contextmanager
def twice_differentiable() -> Iterator[None]:
    """Attention by plain matrix products: its fused forms cannot be differentiated twice."""
    usual = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        mha.set_fastpath_enabled(usual)


def called(module: torch.nn.Module, constants: Tensors) -> Callable[[Tensors, Any], Tensor]:
    """Outputs (points, out) of a module as a function of its weights and of the inputs."""

    def call(weights: Tensors, x: Any) -> Tensor:
        with twice_differentiable():
            outputs = torch.func.functional_call(module, weights | constants, (x,))
        if not isinstance(outputs, Tensor) or outputs.ndim == 0:
            raise ValueError(f"the module must return a tensor (points, ...), got {type(outputs).__name__}.")
        return outputs.reshape(len(outputs), -1)

    return call


def derivatives(
    of: Sequence[Tensor],
    by: tuple[Tensor, ...],
    along: Sequence[Tensor] | None = None,
    *,
    create_graph: bool = False,
    keep: bool = False,
) -> tuple[Tensor, ...]:
    """d(sum along . of) / dby; zero where nothing depends on it."""
    pairs = [(t, s) for t, s in zip(of, along or [None] * len(of), strict=True) if t.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(tensor) for tensor in by)
    tensors, seeds = zip(*pairs, strict=True)
    return torch.autograd.grad(
        tensors,
        by,
        seeds,
        create_graph=create_graph,
        retain_graph=keep or create_graph,
        allow_unused=True,
        materialize_grads=True,
    )


def as_array(tensor: Tensor) -> np.ndarray:
    """The numbers of a tensor in NumPy."""
    return tensor.detach().cpu().numpy()


def as_row(parts: Iterable[Tensor]) -> Vector:
    """Numbers of several tensors in a row."""
    return np.concatenate([as_array(part).ravel() for part in parts])


def as_parts(row: Vector, like: Tensors) -> Tensors:
    """The tensors whose numbers stand in a row."""
    numbers = torch.as_tensor(row)
    sizes = [weight.numel() for weight in like.values()]
    return {
        name: part.reshape(weight.shape).to(weight)
        for (name, weight), part in zip(like.items(), numbers.split(sizes), strict=True)
    }


def _graph_bytes(tensors: Iterable[Tensor]) -> int:
    """Size of all that the graph of some tensors has saved."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen, saved = set(), {}
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            if isinstance(value, Tensor):
                saved[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        waiting += [following for following, _ in node.next_functions if following is not None]
    return sum(saved.values())
