r"""How deep a residual network of a given width may be, from its fluctuations of order 1/width.

Networks of width n differ between initialisations by the relative variances $V/(nK^2)$ of their signal and
$\mathrm{Var}(H)/\Theta^2$ of their tangent kernel. With branches of a fixed scale both grow like
depth/width; with the scale $1/\sqrt L$ of L blocks they tend to a constant over the width.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.first_order.corrections import corrections
from finitewidth.statistics.first_order.residual_corrections import ResidualCorrections

# Relative variance up to which networks count as alike.
MOST_FLUCTUATION = 0.2
# Deeper networks are extrapolated from this many blocks and half as many.
_DEEPEST = 64


class ResidualDepth(NamedTuple):
    """Fluctuations of a residual network between initialisations, and what depth they leave room for.

    Attributes
    ----------
    signal, ntk
        Relative variances of the signal, V/(nK^2), and of the NTK at one input.
    most_blocks
        Blocks up to which both stay below 0.2 at this width and with this rule for the branch scale;
        infinite where no depth reaches it, 0 where one block is too many.
    most_blocks_of_scale_one
        The same with branches of scale one.
    least_width
        Width from which both are below 0.2 with this number of blocks.
    """

    signal: float
    ntk: float
    most_blocks: float
    most_blocks_of_scale_one: float
    least_width: int

    @property
    def verdict(self) -> str:
        """What the numbers mean for depth and width, in words."""
        largest = max(self.signal, self.ntk)
        if largest > 1:
            start = "too narrow: two draws differ by order one"
        elif largest > MOST_FLUCTUATION:
            start = "visible: networks differ between initialisations"
        else:
            start = "wide: networks differ little between initialisations"
        one = _blocks(self.most_blocks_of_scale_one)
        if math.isinf(self.most_blocks):
            room = f"at this width any number of blocks keeps it so, with branches of scale one {one}"
        elif largest <= MOST_FLUCTUATION:
            room = f"at this width up to {_blocks(self.most_blocks)} keep it so"
        else:
            room = f"take a width of {self.least_width} rather than fewer blocks"
        return f"{start}; {room}."

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain numbers; None in place of any number of blocks."""
        finite = lambda blocks: None if math.isinf(blocks) else int(blocks)
        return {
            "signal": self.signal,
            "ntk": self.ntk,
            "most_blocks": finite(self.most_blocks),
            "most_blocks_of_scale_one": finite(self.most_blocks_of_scale_one),
            "least_width": self.least_width,
        }


def residual_depth(
    network: Callable[[int, float], Sequential], blocks: int, scale: float | None, width: int, square: float
) -> ResidualDepth:
    r"""Judge `network(blocks, scale)` for inputs of the given mean square; a scale of None is $1/\sqrt L$."""

    def coefficients(number: int, fixed: float | None) -> tuple[float, float]:
        tensors = corrections(
            network(number, number**-0.5 if fixed is None else fixed), np.full((1, 1), np.sqrt(square))
        )
        assert isinstance(tensors, ResidualCorrections)
        V = tensors.V.item() / tensors.K.item() ** 2
        return V, tensors.width * tensors.ntk_variance.item() / tensors.Theta.item() ** 2

    allowed = MOST_FLUCTUATION * width
    signal, ntk = coefficients(blocks, scale)
    most, most_of_one = (
        _most_blocks(lambda number, fixed=fixed: max(coefficients(number, fixed)), allowed, fixed is None)
        for fixed in (scale, 1.0)
    )
    least = max(math.ceil(max(signal, ntk) / MOST_FLUCTUATION), 2)
    return ResidualDepth(signal / width, ntk / width, most, most_of_one, least)


def _most_blocks(fluctuation: Callable[[int], float], allowed: float, saturates: bool) -> float:
    """Largest number of blocks whose fluctuation, which grows with it, is allowed."""
    fits, fails = 0, 1
    while fails <= _DEEPEST and fluctuation(fails) <= allowed:
        fits, fails = fails, 2 * fails
    if fits < _DEEPEST:
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if fluctuation(middle) <= allowed else (fits, middle)
        return float(fits)
    half, whole = fluctuation(_DEEPEST // 2), fluctuation(_DEEPEST)
    if saturates:
        limit = 2 * whole - half
        return math.inf if limit <= allowed else _DEEPEST * (limit - whole) // (limit - allowed)
    growth = (whole - half) / (_DEEPEST - _DEEPEST // 2)
    return math.inf if growth <= 0 else _DEEPEST + (allowed - whole) // growth


def _blocks(number: float) -> str:
    if math.isinf(number):
        return "any number"
    return f"{int(number)} block{'' if number == 1 else 's'}" if number else "not even one block"
