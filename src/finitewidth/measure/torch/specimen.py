"""Specimens of PyTorch modules."""

from typing import Any

import jax
import numpy as np
import torch
from jaxtyping import PyTree

from finitewidth.measure.labels import Data, Loss, as_data, check_weights
from finitewidth.measure.sites import Site, joined
from finitewidth.measure.specimen import MEMORY_LIMIT, Groups, Specimen, Vector
from finitewidth.measure.torch.batch import Tensors, TorchBatch, as_array, as_parts, as_row, called

MEAN_LOSSES = {
    "cross_entropy": torch.nn.functional.cross_entropy,
    "mse": lambda outputs, y: 0.5 * ((outputs - y) ** 2).sum() / len(outputs),
}


class TorchSpecimen(Specimen):
    """A PyTorch module at its own weights, or at others.

    `constants` are its buffers and the parameters that are not trained.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        weights: Tensors,
        constants: Tensors,
        data: Data,
        batch_size: int | None,
        memory_limit: int,
    ):
        super().__init__(data, batch_size, memory_limit)
        self.module, self._weights, self._constants = module, weights, constants
        check_weights({name: as_array(weight) for name, weight in weights.items()})

    @property
    def weights(self) -> Vector:
        return as_row(self._weights.values())

    @property
    def groups(self) -> Groups:
        found, start = {}, 0
        for name, weight in self._weights.items():
            found[name] = slice(start, start + weight.numel()), tuple(weight.shape)
            start += weight.numel()
        return found

    @property
    def state(self) -> Tensors:
        """Weights, buffers and parameters that are not trained, by name."""
        return self._constants | self._weights

    def at(self, weights: Vector) -> "TorchSpecimen":
        # A copy: whoever gave the row may go on changing it.
        return self._like(as_parts(np.array(weights), self._weights), self.data)

    def on(self, x: Any, y: Any = None) -> "TorchSpecimen":
        return self._like(
            self._weights, torch_data(self.module, self._weights, self._constants, x, y, self.loss)
        )

    def look(self, cotangent: np.ndarray) -> tuple[Site, ...]:
        from finitewidth.measure.torch.sites import look

        return joined(
            look(self.module, self.state, self._inputs(rows), cotangent[rows]) for rows in self._rows
        )

    def _like(self, weights: Tensors, data: Data) -> "TorchSpecimen":
        return TorchSpecimen(self.module, weights, self._constants, data, self.batch_size, self.memory_limit)

    def _batch(self, rows: slice) -> TorchBatch:
        x = self._inputs(rows)
        y = None if self.y is None else _tensors(self.y[rows], self._weights)
        loss = MEAN_LOSSES[self.loss] if isinstance(self.loss, str) else self.loss
        return TorchBatch(called(self.module, self._constants), loss, self._weights, x, y)

    def _inputs(self, rows: slice) -> Any:
        return _tensors(jax.tree.map(lambda part: part[rows], self.x), self._weights)


def torch_specimen(
    module: torch.nn.Module,
    x: Any,
    y: Any,
    *,
    params: PyTree | None,
    loss: Loss | None,
    batch_size: int | None,
    memory_limit: int = MEMORY_LIMIT,
) -> TorchSpecimen:
    """A specimen of a PyTorch module, at its own weights or at a state dict."""
    trained = [name for name, weight in module.named_parameters() if weight.requires_grad]
    if not trained:
        raise ValueError("the module has no parameter with requires_grad: nothing is trained.")
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if params is not None:
        own = _fitting(params, own)
    # Copies: whoever trains the module further, or calls it, does not change the specimen, nor the reverse.
    constants = {name: tensor.detach().clone() for name, tensor in own.items()}
    weights = {name: constants.pop(name) for name in trained}
    data = torch_data(module, weights, constants, x, y, loss)
    return TorchSpecimen(module, weights, constants, data, batch_size, memory_limit)


def torch_data(
    module: torch.nn.Module, weights: Tensors, constants: Tensors, x: Any, y: Any, loss: Loss | None
) -> Data:
    """Data that fit a module; one point is enough to see its outputs."""

    def shape_of(x: Any) -> tuple[int, ...]:
        one = _tensors(jax.tree.map(lambda part: part[:1], x), weights)
        with torch.no_grad():
            found = called(module, constants)(weights, one)
        return (len(jax.tree.leaves(x)[0]), *found.shape[1:])

    return as_data(x, y, loss, as_array(next(iter(weights.values()))).dtype, shape_of)


def _fitting(params: Any, own: Tensors) -> Tensors:
    """The tensors of a state dict that a module has, in its order."""
    if not hasattr(params, "items"):
        raise ValueError(f"params of a PyTorch module must be a state dict, got {type(params).__name__}.")
    for name, tensor in own.items():
        if name not in params:
            raise ValueError(f"params lacks {name!r}, which the module has.")
        if params[name].shape != tensor.shape:
            raise ValueError(
                f"params[{name!r}] has shape {tuple(params[name].shape)}; "
                f"the module's is {tuple(tensor.shape)}."
            )
    return {name: params[name] for name in own}


def _tensors(arrays: Any, weights: Tensors) -> Any:
    device = next(iter(weights.values())).device
    return jax.tree.map(lambda part: torch.tensor(part, device=device), arrays)
