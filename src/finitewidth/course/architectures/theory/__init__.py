"""Correlations between the tokens of random attention networks at infinite width."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.architectures.theory.token_correlations import token_correlations

__all__, __getattr__ = exports(__name__, __file__)
