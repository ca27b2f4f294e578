r"""What each layer does to the kernels of an infinitely wide network.

A rule has two halves. `own` turns the moments of every input with itself below the layer into those above
it, and returns the features: whatever `cross` must know about each input alone. `cross` does the same for
every pair of a tile, given the features of its rows and of its columns. Work that depends on one input is
therefore done once per input, not once per pair.

A layer of your own gets its rule by

    @rules.own.register(MyLayer)
    @rules.cross.register(MyLayer)

Features are trees of arrays whose first axis counts the inputs. Where inputs have positions, arithmetic on
the kernels works as it is, and `pointwise(own_rule, cross_rule)` registers a rule with features; see
`positions`.
"""

from finitewidth.statistics.rules import (
    activate,
    attention,
    convolution,
    dense,
    mlp,
    pooling,
    repeat,
    sequential,
)
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.rules.positions import pointwise, reads_pairs

__all__ = ["Kernels", "PairLaws", "cross", "own", "pointwise", "reads_pairs"]
