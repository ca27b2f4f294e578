"""Training of a PyTorch module in full batches, with the sharpness that its optimiser meets on the way."""

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from finitewidth._base.checks import is_number
from finitewidth.algorithms.optimizers import EPSILON, OPTIMIZERS, SECOND_DECAY
from finitewidth.measure.checks import check_mode
from finitewidth.measure.loss.operators import SymmetricOperator
from finitewidth.measure.loss.spectrum import eigenpairs
from finitewidth.measure.torch.batch import (
    Tensors,
    as_array,
    as_parts,
    as_row,
    derivatives,
    twice_differentiable,
)

_TOLERANCE = 1e-4
# Products at every record but the first, which takes at least 20.
_LEAST_PRODUCTS = 5
# Of the last eigenvector and of a random direction, in the first guess for the next.
_RANDOM = 0.1


def train(
    loss: Callable[[Any], Tensor],
    module: torch.nn.Module,
    *,
    learning_rate: float,
    records: int,
    every: int,
    optimizer: str,
    momentum: float,
    rates: Any,
) -> tuple[dict[str, Tensor], list[tuple[float, float, float]]]:
    """The state dict at the end, and (loss, sharpness, its error) before training and every so many steps.

    `loss` is a function of the module; the module itself is left as it was.
    """
    check_mode(module, None, None)
    module = copy.deepcopy(module)
    weights: Tensors = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    if not weights:
        raise ValueError("the module has no parameter with requires_grad: nothing is trained.")
    factors = _factors(rates, weights)
    groups = [{"params": [weights[name]], "lr": learning_rate * rate} for name, rate in factors.items()]
    row = OPTIMIZERS[optimizer]
    assert row.torch is not None, "what has a limit is known to PyTorch"
    rule = row.torch(groups, momentum)
    rng, found, start = np.random.default_rng(0), [], None
    with torch.enable_grad(), twice_differentiable():
        for record in range(records + 1):
            value, gradient = _gradient(loss, module, weights)
            scale = np.sqrt(as_row(torch.full_like(weights[name], rate) for name, rate in factors.items()))
            if row.preconditioned:
                scale = scale / np.sqrt(_adam_root(rule, weights, gradient) + EPSILON)
            if not math.isfinite(value):
                found.append((value, math.nan, math.nan))
            else:
                top, error, vector = _largest(gradient, weights, scale, start)
                found.append((value, top, error))
                start = vector + _RANDOM * rng.normal(size=len(vector)) / np.sqrt(len(vector))
            if record < records:
                for _ in range(every):
                    rule.zero_grad()
                    loss(module).backward()
                    rule.step()
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}, found


def _factors(rates: Any, weights: Tensors) -> dict[str, float]:
    """One number for every parameter, by which its steps are multiplied."""
    given: dict[str, Any] = dict(rates) if isinstance(rates, Mapping) else {name: rates for name in weights}
    if set(given) != set(weights) or not all(is_number(rate) and rate >= 0 for rate in given.values()):
        raise ValueError(
            "rates of a PyTorch module must be one number, or a dictionary with one for each parameter: "
            f"{', '.join(weights)}."
        )
    return {name: float(given[name]) for name in weights}


def _gradient(loss: Callable, module: torch.nn.Module, weights: Tensors) -> tuple[float, tuple[Tensor, ...]]:
    value = loss(module)
    if not isinstance(value, Tensor) or value.ndim:
        shape = tuple(getattr(value, "shape", ())) or type(value).__name__
        raise ValueError(f"loss must return one number, a tensor without axes, got {shape}.")
    return float(value.detach()), derivatives([value], tuple(weights.values()), create_graph=True)


def _adam_root(rule: torch.optim.Optimizer, weights: Tensors, gradient: tuple[Tensor, ...]) -> np.ndarray:
    """The root of Adam's average of squared gradients, with its bias corrected."""
    squares = []
    for weight, slope in zip(weights.values(), gradient, strict=True):
        state = rule.state.get(weight)
        squares.append(
            state["exp_avg_sq"] / (1 - SECOND_DECAY ** float(state["step"])) if state else slope**2
        )
    return np.sqrt(as_row(squares))


def _largest(
    gradient: tuple[Tensor, ...], weights: Tensors, scale: np.ndarray, start: np.ndarray | None
) -> tuple[float, float, np.ndarray]:
    """The largest eigenvalue of S H S, its error and its vector."""

    def product(v: np.ndarray) -> np.ndarray:
        along = tuple(as_parts(scale * v, weights).values())
        return scale * as_row(derivatives(gradient, tuple(weights.values()), along, keep=True))

    operator = SymmetricOperator(product, len(scale), as_array(next(iter(weights.values()))).dtype)
    with warnings.catch_warnings():
        # The error stands beside the value.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = eigenpairs(
            operator, 1, tolerance=_TOLERANCE, start=start,
            least_products=20 if start is None else _LEAST_PRODUCTS,
        )  # fmt: skip
    return float(found.values[0]), float(found.residuals[0]), found.vectors[:, 0]
