"""Branches side by side in their channels."""

import jax.numpy as jnp
from jaxtyping import Array

from finitewidth.architecture.branches import Branches
from finitewidth.architecture.layer import Shape
from finitewidth.architecture.vocabulary import word


@word("Concat")
class Concat(Branches):
    """Puts the channels of its branches, each a layer or a list of layers, one behind the other."""

    def joined(self, outputs: list[Array]) -> Array:
        return jnp.concatenate(outputs, axis=-1)

    def shape_of(self, shapes: list[Shape], entering: Shape) -> Shape:
        if len({shape[:-1] for shape in shapes}) > 1:
            raise ValueError(
                f"the branches of a Concat turn inputs of shape {entering} into "
                f"{', '.join(map(str, shapes))}; all but the last number, the channels, must be equal."
            )
        return (*shapes[0][:-1], sum(shape[-1] for shape in shapes))

    def channels(self, entering: int | None) -> int | None:
        each = [branch.channels(entering) for branch in self.branches]
        return None if None in each else sum(filter(None, each))

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of every branch in the channels; refuses a branch whose width is that of the inputs."""
        each = [branch.channels(None) for branch in self.branches]
        known = [channels for channels in each if channels is not None]
        if len(known) < len(each):
            raise ValueError(
                f"branch {each.index(None)} of a Concat has as many channels as enter it: its share at "
                "infinite width is not known; put a Dense layer into it."
            )
        return tuple(channels / sum(known) for channels in known)
