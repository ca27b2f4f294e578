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
`positions`. A layer that makes Gaussian channels, or turns them into others, says so by
`rules.channels.register`.
"""

from finitewidth.statistics.wide.rules import (
    activate,
    attention,
    branches,
    convolution,
    dense,
    dropout,
    mlp,
    normalisation,
    pooling,
    repeat,
    residual,
    scale,
    sequential,
)
from finitewidth.statistics.wide.rules.channels import Channels, channels, check_limit
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.wide.rules.positions import pointwise, reads_pairs

__all__ = [
    "Channels",
    "Kernels",
    "PairLaws",
    "channels",
    "check_limit",
    "cross",
    "own",
    "pointwise",
    "reads_pairs",
]
