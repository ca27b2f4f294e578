"""Several branches that read the same inputs."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import jax
from jaxtyping import Array, PRNGKeyArray, PyTree

from finitewidth.architecture.layer import Layer, Shape, Surroundings, replaced
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.scale import Scale
from finitewidth.architecture.sequential import Sequential
from finitewidth.architecture.vocabulary import Entry
from finitewidth.architecture.weights import Law, Precision


class Branches(Layer):
    """Branches side by side, each a layer or a list of layers; an empty list passes its inputs on.

    The parameters are a tuple with those of every branch.
    """

    branches: tuple[Layer, ...]

    def __init__(self, *branches: Layer | Sequence[Layer]):
        name = type(self).__name__
        if not branches:
            raise ValueError(f"{name} needs at least one branch.")
        self.branches = tuple(as_layer(name, number, branch) for number, branch in enumerate(branches))

    @abstractmethod
    def joined(self, outputs: list[Array]) -> Array:
        """What leaves, from the outputs of all branches."""

    @classmethod
    def from_entry(cls, entry: Entry):
        return cls(*entry.branches())

    def entry(self) -> dict[str, object]:
        return {"layer": type(self).__name__, "branches": [branch.spec for branch in self.branches]}

    def with_inner(self, change: Callable[[Layer], Layer]):
        return replaced(self, branches=tuple(change(branch) for branch in self.branches))

    def within(self, around: Surroundings):
        return self.with_inner(lambda branch: branch.within(around))

    def leaving(self, entering: Shape) -> Shape:
        return self.shape_of([branch.leaving(entering) for branch in self.branches], entering)

    def shape_of(self, shapes: list[Shape], entering: Shape) -> Shape:
        """The shape that leaves, from those of all branches; here they must be equal."""
        if len(set(shapes)) > 1:
            raise ValueError(
                f"the branches of a {type(self).__name__} turn inputs of shape {entering} into "
                f"{', '.join(map(str, shapes))}; they must be equal."
            )
        return shapes[0]

    def channels(self, entering: int | None) -> int | None:
        return self.branches[0].channels(entering)

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> tuple[PyTree, ...]:
        return tuple(
            branch.init(own, entering, weights=weights, dtype=dtype)
            for own, branch in zip(jax.random.split(key, len(self.branches)), self.branches, strict=True)
        )

    def apply(self, params: tuple[PyTree, ...], x: Array) -> Array:
        each = zip(self.branches, self._shares(params), strict=True)
        return self.joined([branch.apply(own, x) for branch, own in each])

    def training_pass(self, params: tuple[PyTree, ...], x: Array, key: PRNGKeyArray) -> Array:
        keys = jax.random.split(key, len(self.branches))
        each = zip(self.branches, self._shares(params), keys, strict=True)
        return self.joined([branch.training_pass(own, x, k) for branch, own, k in each])

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[PyTree, ...]:
        return tuple(branch.learning_rates(entering, geometry) for branch in self.branches)

    def _shares(self, params: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        if not isinstance(params, tuple | list) or len(params) != len(self.branches):
            count = f"{len(params)} entries" if isinstance(params, tuple | list) else type(params).__name__
            raise ValueError(
                f"params of a {type(self).__name__} has {count}; it has {len(self.branches)} branches."
            )
        return tuple(params)


def as_layer(name: str, number: int, branch: Layer | Sequence[Layer]) -> Layer:
    """A branch as one layer; an empty one is the identity."""
    if not isinstance(branch, Layer | list | tuple):
        raise TypeError(f"{name} takes layers or lists of layers; branch {number} is {branch!r}.")
    layers = Sequential.flat([branch] if isinstance(branch, Layer) else branch)
    if len(layers) == 1:
        return layers[0]
    return Sequential(*layers) if layers else Scale(1.0)
