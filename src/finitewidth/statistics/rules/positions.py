"""Rules that are written for inputs without positions, and act on every position in the same way."""

from collections.abc import Callable

from finitewidth.statistics.rules.interface import cross, own


def pointwise(own_rule: Callable, cross_rule: Callable) -> None:
    """Register both halves of a rule; each names its layer's class in its first annotation."""
    own.register(own_rule)
    cross.register(cross_rule)
