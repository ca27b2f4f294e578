"""Every breakpoint of a network on a line or a segment."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer, PyTree

from finitewidth.measure.regions.execution import execute
from finitewidth.measure.regions.network import piecewise_linear
from finitewidth.measure.regions.segments import Segments

_SAME = 1e-9


class LineRegions(NamedTuple):
    """The intervals of a line x = start + t (end - start) on which the network is affine.

    Attributes
    ----------
    breakpoints
        Where the activation pattern changes, in the coordinate t, in rising order.
    visible
        Whether the output has a kink at each breakpoint: a neuron may change where no output sees it.
    patterns
        Activation pattern (intervals, neurons) between each two breakpoints.
    slopes, offsets
        f = slopes (intervals, out) t + offsets (intervals, out).
    """

    breakpoints: Float[np.ndarray, " breakpoints"]
    visible: Bool[np.ndarray, " breakpoints"]
    patterns: Integer[np.ndarray, "intervals neurons"]
    slopes: Float[np.ndarray, "intervals out"]
    offsets: Float[np.ndarray, "intervals out"]

    @property
    def number(self) -> int:
        """How many intervals there are, each with one pattern."""
        return len(self.patterns)

    @property
    def pieces(self) -> int:
        """How many affine pieces the output has: one more than its kinks."""
        return 1 + int(self.visible.sum())


def line_regions(
    model: Any, start: Any, end: Any, *, whole: bool = False, params: PyTree | None = None
) -> LineRegions:
    """Every breakpoint of a network on the segment from one input to another, exactly and without a grid.

    Parameters
    ----------
    model
        Any piecewise-linear network, as `piecewise_linear` takes it.
    start, end
        Two inputs, at t = 0 and t = 1.
    whole
        Look at the whole line through them, t from minus to plus infinity.
    params
        The weights of a model that does not carry them.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.MLP(hidden=(12,), activation="relu", C_b=1.0, C_W=2.0)
    >>> params = net.init(jax.random.key(0), 1)
    >>> fw.measure.regions.line_regions(net, [0.0], [1.0], whole=True, params=params).pieces
    13
    """
    start, end = np.asarray(start, float), np.asarray(end, float)
    if start.shape != end.shape or not start.ndim:
        raise ValueError(f"start and end must be two inputs of one shape, got {start.shape} and {end.shape}.")
    if not (np.isfinite(start).all() and np.isfinite(end).all()):
        raise ValueError("start and end must be finite.")
    if np.array_equal(start, end):
        raise ValueError("start and end are the same input: there is no line through them.")
    program = piecewise_linear(model, start.shape, params=params)
    ends = [[(-1, 0), (0, 1)], [(0, 1), (1, 0)]] if whole else [[(0, 1), (1, 1)]]
    inputs = np.stack([(end - start).reshape(-1), start.reshape(-1)])
    found = execute(program, Segments(np.array(ends, float)), np.repeat(inputs[None], len(ends), axis=0))
    assert isinstance(found.cells, Segments)
    return _in_order(found.cells.ends, found.patterns, found.maps)


def _in_order(ends: np.ndarray, patterns: np.ndarray, maps: np.ndarray) -> LineRegions:
    """Intervals from left to right; two beside each other with one pattern are one."""
    with np.errstate(divide="ignore"):
        begin = ends[:, 0, 0] / ends[:, 0, 1]
    order = np.argsort(begin)
    begin, patterns, maps = begin[order], patterns[order], maps[order]
    new = np.concatenate([[True], (patterns[1:] != patterns[:-1]).any(axis=1)])
    begin, patterns, maps = begin[new], patterns[new], maps[new]
    scale = np.abs(maps[:, 0]).max(initial=np.finfo(float).tiny)
    visible = (np.abs(np.diff(maps[:, 0], axis=0)) > _SAME * scale).any(axis=1)
    return LineRegions(begin[1:], visible, patterns, maps[:, 0], maps[:, 1])
