"""Where a network contracts its activations with weights: what enters, what leaves, what flows back."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Site(NamedTuple):
    """One contraction of activations with a parameter, at every point of a specimen.

    Arrays are (points, positions..., units): the channels of a convolution and the heads of an attention are
    units, and stand last whatever the framework; axes of length 1 between points and units are left out.
    """

    name: str
    """Where in the model, `block.0.conv`; the second use of a shared parameter is `name#2`, and a layer of a
    stack that is scanned over is `name[3]`."""
    kind: str
    """"dense", "convolution", "attention" (into or out of a product of activations), "embedding", or
    "recurrent": a gate of a layer of PyTorch that runs through a sequence."""
    entering: np.ndarray
    """What is multiplied with the parameter (points, positions..., channels); the indices of an embedding."""
    leaving: np.ndarray
    """The result with its bias (points, positions..., units): the preactivation z."""
    gradient: np.ndarray
    """d(sum_ia u_ia f_ia) / dz, of the same shape, for the cotangent u (points, out) that was asked for."""
    activation: str | None
    """The function that is applied next, entry by entry, if it is one that is known: "relu", "tanh", ..."""
    activated: np.ndarray | None = None
    """What the activation is applied to, where it is not z itself: after a normalisation or a sum."""
    parameter: str = ""
    """The name of the parameter in the groups of the specimen; "" when it is not one of them."""
    gate: bool = False
    """Whether the activated numbers do nothing but weigh others: factors of one sign, such as sigmoids."""

    @property
    def into_activation(self) -> np.ndarray:
        """What the activation is applied to (points, positions..., units)."""
        return self.leaving if self.activated is None else self.activated


# The last part of a parameter's name that says only what it is.
_WEIGHTS = {"kernel", "weight", "weights", "embedding", "w", "W", "in_proj_weight"}


def name_of_layer(parameter: str) -> str:
    """The layer that a parameter belongs to: `block.0.conv` for `block.0.conv.weight`."""
    parts = parameter.split(".")
    while len(parts) > 1 and parts[-1] in _WEIGHTS:
        parts.pop()
    return ".".join(parts)


def numbered(names: Iterable[str]) -> list[str]:
    """Names of which the second, third, ... occurrence has #2, #3, ... behind it."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


def joined(batches: Iterable[tuple[Site, ...]]) -> tuple[Site, ...]:
    """The sites of all points, from the same sites in batches of points."""
    alike = list(zip(*batches, strict=True))
    if alike and len(alike[0]) == 1:
        return tuple(parts[0] for parts in alike)
    return tuple(
        parts[0]._replace(
            entering=np.concatenate([site.entering for site in parts]),
            leaving=np.concatenate([site.leaving for site in parts]),
            gradient=np.concatenate([site.gradient for site in parts]),
            activated=None
            if parts[0].activated is None
            else np.concatenate([site.into_activation for site in parts]),
        )
        for parts in alike
    )
