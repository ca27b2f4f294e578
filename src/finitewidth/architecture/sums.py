"""The sum of branches."""

import functools
import operator

from jaxtyping import Array

from finitewidth.architecture.branches import Branches
from finitewidth.architecture.vocabulary import word


@word("Sum")
class Sum(Branches):
    """Adds the outputs of its branches, each a layer or a list of layers, channel by channel."""

    def joined(self, outputs: list[Array]) -> Array:
        return functools.reduce(operator.add, outputs)
