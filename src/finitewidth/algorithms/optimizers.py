r"""Optimisers of real networks, a row each: all that has to be said to add another.

On a quadratic loss with curvature $\lambda$ an optimiser that is a linear recursion is stable while
$\eta\lambda$ is below a limit of its own, where position and velocity flip their signs at every step. With
momentum b:

| name | one step | limit of $\eta\lambda$ |
|---|---|---|
| "sgd" | $\theta-\eta g$ | $2$ |
| "momentum" | $m'=bm+g,\ \theta-\eta m'$ | $2+2b$ |
| "nesterov" | $m'=bm+g,\ \theta-\eta(bm'+g)$ | $(2+2b)/(1+2b)$ |
| "adam" | $m'=bm+(1-b)g,\ \theta-\eta m'/P$ | $(2+2b)/(1-b)$ of $P^{-1/2}HP^{-1/2}$ |

Adam's P is the root of its average of squared gradients, with its bias corrected; with b = 0 it is RMSProp.

JAX, Optax and PyTorch are imported when an optimiser is made, so that the command line can read the names.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from finitewidth.architecture.parametrisation import Geometry

if TYPE_CHECKING:
    import optax
    import torch

MOMENTUM = 0.9
SECOND_DECAY = 0.999
EPSILON = 1e-8


class OptimizerRow(NamedTuple):
    """One optimiser by name; `b` is its momentum, or Adam's beta 1."""

    geometry: Geometry
    """How its learning rates scale with width."""
    directions: Callable[[float], "optax.GradientTransformation"]
    """Directions from gradients, as a function of b; a step subtracts eta times a direction."""
    words: str
    """What one calls it, with {b} where the momentum belongs."""
    limit: Callable[[float], float] | None = None
    """The limit of eta times the curvature as a function of b; None where no linear recursion tells."""
    preconditioned: bool = False
    """Whether the limit is for the curvature preconditioned by the average of squared gradients."""
    torch: Callable[[list[dict[str, Any]], float], "torch.optim.Optimizer"] | None = None
    """PyTorch's own, from parameter groups with their rates and b."""


def _optax() -> Any:
    import optax

    return optax


def _torch() -> Any:
    import torch

    return torch.optim


def _muon() -> "optax.GradientTransformation":
    """Orthogonalised momentum for matrices, Adam for everything else."""
    import jax
    import jax.numpy as jnp
    import optax.contrib

    def kinds(params: Any) -> Any:
        return jax.tree.map(lambda leaf: "matrix" if jnp.ndim(leaf) == 2 else "other", params)

    def axes(params: Any) -> Any:
        return jax.tree.map(lambda _: optax.contrib.MuonDimensionNumbers(1, 0), params)

    matrix = optax.contrib.scale_by_muon(weight_dimension_numbers=axes)
    return optax.partition({"matrix": matrix, "other": optax.scale_by_adam()}, kinds)


OPTIMIZERS: dict[str, OptimizerRow] = {
    "sgd": OptimizerRow(
        "gradient",
        lambda b: _optax().identity(),
        "gradient descent",
        limit=lambda b: 2.0,
        torch=lambda groups, b: _torch().SGD(groups),
    ),
    "momentum": OptimizerRow(
        "gradient",
        lambda b: _optax().trace(b),
        "momentum with beta {b:g}",
        limit=lambda b: 2 + 2 * b,
        torch=lambda groups, b: _torch().SGD(groups, momentum=b),
    ),
    "nesterov": OptimizerRow(
        "gradient",
        lambda b: _optax().trace(b, nesterov=True),
        "Nesterov momentum with beta {b:g}",
        limit=lambda b: (2 + 2 * b) / (1 + 2 * b),
        # PyTorch refuses Nesterov's rule without momentum, which is plain descent.
        torch=lambda groups, b: _torch().SGD(groups, momentum=b, nesterov=b > 0),
    ),
    "adam": OptimizerRow(
        "entrywise",
        lambda b: _optax().scale_by_adam(b, SECOND_DECAY, EPSILON),
        "Adam with beta {b:g}",
        limit=lambda b: (2 + 2 * b) / (1 - b),
        preconditioned=True,
        torch=lambda groups, b: _torch().Adam(groups, betas=(b, SECOND_DECAY), eps=EPSILON),
    ),
    "sign": OptimizerRow("entrywise", lambda b: _optax().scale_by_sign(), "sign descent"),
    "muon": OptimizerRow("spectral", lambda b: _muon(), "Muon"),
}

OPTIMIZER_NAMES: tuple[str, ...] = tuple(OPTIMIZERS)
LIMITED: tuple[str, ...] = tuple(name for name, row in OPTIMIZERS.items() if row.limit is not None)
