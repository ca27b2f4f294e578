"""Equally correlated tokens that enter a stack of blocks, and what is asked of them behind every block."""

from typing import Any, NamedTuple

from finitewidth._base.checks import as_number, check_positive, check_whole
from finitewidth._base.estimate import Estimate
from finitewidth.architecture.layer import Layer


class TokenCorrelations(NamedTuple):
    """Tokens behind 0, 1, ..., blocks."""

    variance: Estimate
    """q, (blocks + 1,)."""
    correlation: Estimate
    """c, (blocks + 1,)."""
    difference: Estimate
    """1 - c, (blocks + 1,): zero if all tokens are equal."""


def check_tokens(blocks: Any, tokens: Any, variance: Any, correlation: Any) -> None:
    """Refuse tokens that cannot be."""
    check_whole("blocks", blocks)
    check_whole("tokens", tokens, least=2)
    check_positive("variance", variance)
    if not 0 <= as_number("correlation", correlation) <= 1:
        raise ValueError(f"correlation must be between 0 and 1, got {correlation!r}.")


def stream_width(block: Layer, tokens: int) -> int:
    """Channels of the stream that a block reads and writes."""
    width = block.channels(None) or 1
    leaving = block.leaving((tokens, width))
    if leaving != (tokens, width):
        raise ValueError(
            f"block turns inputs of shape {(tokens, width)} into {leaving}: blocks that follow each other "
            "must keep the shape."
        )
    return width
