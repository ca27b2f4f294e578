r"""Where training takes the neurons that start near a kink.

A neuron in the window of a kink is at $\zeta=\sqrt n\,(z-c)/|a|$; it moves by a displacement that depends on
the side it is on. Starts are uniform in $\zeta_0$, so that all of them are followed at once as segments: a
segment's neurons stay in order and on one side of the kink, and their positions are linear in $\zeta_0$. In a
step of gradient descent a segment moves as a whole and may end on both sides of the kink, where it is cut
unless it is too short to matter: where steps shrink fast, neurons that hop about the kink would be cut into
ever more pieces. In an interval of flow both velocities keep their ratio: a neuron that reaches the kink goes
on with the velocity of the other side for the rest of the interval, or is held at the kink if that velocity
points back.

Many small steps $d_{left},d_{right}$ are close to a flow, up to half a step: a neuron that crosses from the
left lands anywhere between 0 and $d_{left}$, so that on the average it is $(d_{left}-d_{right})/2$ ahead of
the flow, and as much behind coming from the right; a held neuron hops to and fro, anywhere between
$d_{right}$ and $d_{left}$.

The integrals over $\zeta_0$, everything less what the linearised network does, are

$$A=\int[\zeta-\zeta_0-V_{side}]\,d\zeta_0,\qquad
B=\int[\psi(\zeta)-\psi(\zeta_0)-\psi'_{side}V_{side}]\,d\zeta_0,$$

with $\psi(\zeta)=\alpha_{left}\zeta$ on the left, $\alpha_{right}\zeta$ on the right, the side being that of
the start, and V the displacement of a neuron that stays on its side.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

# Paths whose segments are followed together.
_PATHS_AT_ONCE = 20_000


class WindowIntegrals(NamedTuple):
    """A and B of every path, at every node that is looked at."""

    A: Float[np.ndarray, "nodes paths"]
    B: Float[np.ndarray, "nodes paths"]


class Paths(NamedTuple):
    """Displacements in every interval, of neurons on the left and on the right of the kink, and slopes there.

    `decay` is what a pull back to the start leaves of a displacement; `step` marks single steps, and `share`
    is the share of an interval that one of its steps has, zero for a flow.
    """

    left: Float[np.ndarray, "intervals paths"]
    right: Float[np.ndarray, "intervals paths"]
    slope_left: Float[np.ndarray, " paths"]
    slope_right: Float[np.ndarray, " paths"]
    decay: Float[np.ndarray, " intervals"]
    step: Bool[np.ndarray, " intervals"]
    share: Float[np.ndarray, " intervals"]


def window_integrals(paths: Paths, every_node: bool = False, shortest: float = 1e-3) -> WindowIntegrals:
    """A and B, at the end or after every interval; `shortest` is the share of a path's starts left uncut."""
    parts = []
    for start in range(0, paths.left.shape[1], _PATHS_AT_ONCE):
        now = slice(start, start + _PATHS_AT_ONCE)
        left, right, low, high = (a[..., now] for a in paths[:4])
        part = paths._replace(left=left, right=right, slope_left=low, slope_right=high)
        parts.append(_integrals(part, every_node, shortest))
    return WindowIntegrals(*(np.concatenate(both, axis=1) for both in zip(*parts, strict=True)))


class _Segments(NamedTuple):
    """Segments of starts: path, side of the start (0 left, 1 right), both ends at the start and now."""

    path: Int[np.ndarray, " segments"]
    side: Int[np.ndarray, " segments"]
    a0: Float[np.ndarray, " segments"]
    b0: Float[np.ndarray, " segments"]
    a: Float[np.ndarray, " segments"]
    b: Float[np.ndarray, " segments"]

    def take(self, which: np.ndarray) -> "_Segments":
        return _Segments(*(part[which] for part in self))

    def cut(self, share: Float[np.ndarray, " segments"], which: np.ndarray) -> "_Segments":
        """The segments in `which` cut in two at a share of their length, the others as they are."""
        some, t = self.take(which), share[which]
        middle0, middle = some.a0 + t * (some.b0 - some.a0), some.a + t * (some.b - some.a)
        whole = self.take(~which)
        return _Segments(
            *(
                np.concatenate(parts)
                for parts in zip(
                    whole,
                    some._replace(b0=middle0, b=middle),
                    some._replace(a0=middle0, a=middle),
                    strict=True,
                )
            )
        )


class _Totals:
    """Sums over the segments that cannot come back to the kink: they only move with their side."""

    def __init__(self, paths: int):
        # By the side where they are and the side where they started.
        self.mass = np.zeros((2, 2, paths))
        self.start = np.zeros((2, 2, paths))
        self.ahead = np.zeros((2, 2, paths))

    def add(self, s: _Segments, now: Int[np.ndarray, " segments"], V: Float[np.ndarray, "2 paths"]) -> None:
        w = s.b0 - s.a0
        places = (now, s.side, s.path)
        np.add.at(self.mass, places, w)
        np.add.at(self.start, places, w * (s.a0 + s.b0) / 2)
        np.add.at(self.ahead, places, w * ((s.a + s.b - s.a0 - s.b0) / 2 - V[now, s.path]))

    def integrals(self, V: Float[np.ndarray, "2 paths"], slopes: Float[np.ndarray, "2 paths"]):
        A = np.sum(self.ahead + self.mass * (V[:, None] - V[None]), axis=(0, 1))
        there = self.start + self.ahead + self.mass * V[:, None]
        alone = self.start + self.mass * V[None]
        return A, np.sum(slopes[:, None] * there - slopes[None] * alone, axis=(0, 1))


def _integrals(paths: Paths, every_node: bool, shortest: float) -> WindowIntegrals:
    moves = np.stack([paths.left, paths.right])
    slopes = np.stack([paths.slope_left, paths.slope_right])
    V = _displacements(moves, paths.decay)
    segments = _reached(V)
    short = shortest * np.abs(V).max(axis=(0, 1))
    pulled = bool(np.any(paths.decay != 1))
    least = _least(V)
    totals = _Totals(V.shape[-1])
    last, found = len(paths.decay) - 1, []
    for k, (decay, step, share) in enumerate(zip(paths.decay, paths.step, paths.share, strict=True)):
        if step:
            segments = _stepped(segments, moves[:, k], decay, short)
        else:
            segments = _flowed(segments, moves[:, k], decay, share)
        totals.ahead *= decay
        segments = segments if pulled else _gathered(segments)
        segments = _retired(segments, totals, least[:, k + 1], V[:, k + 1])
        if every_node or k == last:
            A, B = totals.integrals(V[:, k + 1], slopes)
            hop = np.zeros_like(moves[:, k]) if step else share * moves[:, k]
            dA, dB = _of_segments(segments, V[:, k + 1], slopes, hop, share * (1 - decay))
            found.append((A + dA, B + dB))
    return WindowIntegrals(*(np.stack(both) for both in zip(*found, strict=True)))


def _displacements(moves: Float[np.ndarray, "2 intervals paths"], decay: Float[np.ndarray, " intervals"]):
    """V at every node, the first included."""
    V = np.zeros((2, len(decay) + 1, moves.shape[-1]))
    for k, left in enumerate(decay):
        V[:, k + 1] = left * V[:, k] + moves[:, k]
    return V


def _reached(V: Float[np.ndarray, "2 nodes paths"]) -> _Segments:
    """All starts whose neurons meet the kink."""
    left, right = V[0].max(axis=0), -V[1].min(axis=0)
    from_left, from_right = np.flatnonzero(left > 0), np.flatnonzero(right > 0)
    path = np.concatenate([from_left, from_right])
    side = np.concatenate([np.zeros_like(from_left), np.ones_like(from_right)])
    a0 = np.concatenate([-left[from_left], np.zeros(len(from_right))])
    b0 = np.concatenate([np.zeros(len(from_left)), right[from_right]])
    return _Segments(path, side, a0, b0, a0, b0)


def _least(V: Float[np.ndarray, "2 nodes paths"]) -> Float[np.ndarray, "2 nodes paths"]:
    """The displacement nearest to the kink, on either side, that is still to come."""
    return np.stack(
        [np.maximum.accumulate(V[0, ::-1], axis=0)[::-1], np.minimum.accumulate(V[1, ::-1], axis=0)[::-1]]
    )


def _side(s: _Segments) -> Int[np.ndarray, " segments"]:
    return ((s.a + s.b) > 0).astype(int)


def _gathered(s: _Segments) -> _Segments:
    """Neurons that are held at the kink, in one segment for each path and side of the start.

    Without a pull back to the start only their number and the sum of their starts matter.
    """
    held = (s.a == 0) & (s.b == 0)
    if not held.any():
        return s
    some = s.take(held)
    key, number = np.unique(2 * some.path + some.side, return_inverse=True)
    w = some.b0 - some.a0
    mass = np.bincount(number, w)
    middle = np.bincount(number, w * (some.a0 + some.b0) / 2) / np.where(mass > 0, mass, 1.0)
    none = np.zeros(len(key))
    lumps = (key // 2, key % 2, middle - mass / 2, middle + mass / 2, none, none)
    return _Segments(*(np.concatenate(parts) for parts in zip(s.take(~held), lumps, strict=True)))


def _retired(
    s: _Segments, totals: _Totals, least: Float[np.ndarray, "2 paths"], V: Float[np.ndarray, "2 paths"]
) -> _Segments:
    """Move what will not meet the kink again to the totals.

    A neuron will be at its start plus V plus what it is ahead of V now, which a pull can only make smaller.
    """
    side = _side(s)
    sign = 2 * side - 1
    nearest, now = sign * least[side, s.path], V[side, s.path]
    clear = lambda z, z0: sign * z0 + nearest + np.minimum(sign * (z - z0 - now), 0.0) >= 0
    held = (s.a == 0) & (s.b == 0)
    gone = clear(s.a, s.a0) & clear(s.b, s.b0) & ~held
    totals.add(s.take(gone), side[gone], V)
    return s.take(~gone)


def _of_segments(
    s: _Segments,
    V: Float[np.ndarray, "2 paths"],
    slopes: Float[np.ndarray, "2 paths"],
    hop: Float[np.ndarray, "2 paths"],
    pull: float,
):
    """A and B of segments; `hop` and `pull` times the start are the next step of a neuron at the kink."""
    w, middle0 = s.b0 - s.a0, (s.a0 + s.b0) / 2
    left, right = (h + pull * middle0 for h in hop[:, s.path])
    hops = (s.a == 0) & (s.b == 0) & (left > 0) & (right < 0)
    a, b = np.where(hops, right, s.a), np.where(hops, left, s.b)
    middle, alone = (a + b) / 2, middle0 + V[s.side, s.path]
    low, high = slopes[:, s.path]
    A = w * (middle - alone)
    B = w * (low * middle + (high - low) * _mean_positive(a, b) - slopes[s.side, s.path] * alone)
    paths = V.shape[-1]
    return np.bincount(s.path, A, paths), np.bincount(s.path, B, paths)


def _mean_positive(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The mean of max(z, 0) over z between a and b."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    astride = (low < 0) & (high > 0)
    return np.where(
        astride, high**2 / (2 * np.where(astride, high - low, 1.0)), np.maximum(low + high, 0) / 2
    )


def _stepped(
    s: _Segments, move: Float[np.ndarray, "2 paths"], decay: float, short: Float[np.ndarray, " paths"]
) -> _Segments:
    """One step: every neuron moves by the displacement of the side it is on; cut what is then on both."""
    d = move[_side(s), s.path]
    moved = s._replace(a=s.a0 + decay * (s.a - s.a0) + d, b=s.b0 + decay * (s.b - s.b0) + d)
    astride = (moved.a * moved.b < 0) & (np.abs(moved.b - moved.a) > short[s.path])
    return moved.cut(_zero_between(moved.a, moved.b), astride)


def _zero_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The share of the way from a to b at which zero is passed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / (a - b)


def _flowed(s: _Segments, move: Float[np.ndarray, "2 paths"], decay: float, share: float) -> _Segments:
    """An interval of flow: what crosses the kink goes on with the other side's velocity, or is held there."""
    side = _side(s)
    sign = 2 * side - 1
    ends = [z + (decay - 1) * (z - z0) + move[side, s.path] for z, z0 in ((s.a, s.a0), (s.b, s.b0))]
    apart = (sign * ends[0] < 0) != (sign * ends[1] < 0)
    apart &= (s.a != 0) | (s.b != 0)
    s = s.cut(_zero_between(*ends), apart)
    side = _side(s)
    held = (s.a == 0) & (s.b == 0)
    middle = (s.a + s.b) / 2
    middle = middle + (decay - 1) * (middle - (s.a0 + s.b0) / 2) + move[side, s.path]
    crosses = ((2 * side - 1) * middle < 0) & ~held
    a, b = (
        _arrived(z, z0, side, crosses, held, move[:, s.path], decay, share)
        for z, z0 in ((s.a, s.a0), (s.b, s.b0))
    )
    return s._replace(a=a, b=b)


def _arrived(
    z: Float[np.ndarray, " ends"],
    z0: Float[np.ndarray, " ends"],
    side: Int[np.ndarray, " ends"],
    crosses: Bool[np.ndarray, " ends"],
    held: Bool[np.ndarray, " ends"],
    move: Float[np.ndarray, "2 ends"],
    decay: float,
    share: float,
) -> Float[np.ndarray, " ends"]:
    """Where the ends of segments are after an interval of flow."""
    ahead = share * (move[0] - move[1]) / 2
    own, other = np.where(side == 1, move[::-1], move)
    away = 1 - 2 * side
    d = (decay - 1) * (z - z0) + own
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.clip(np.where(d == 0, 0.0, 1 + z / d), 0.0, 1.0)
    beyond = rest * ((1 - decay) * z0 + other)
    # Where there is no velocity beyond the kink, a neuron stays where its last step took it.
    passes = (beyond * away > 0) | ((1 - decay) * z0 + other == 0)
    across = np.where(passes, beyond + away * ahead, 0.0)
    stays = np.where(side == 1, np.maximum(z + d, 0.0), np.minimum(z + d, 0.0))
    left, right = (1 - decay) * z0 + move[0], (1 - decay) * z0 + move[1]
    # A neuron that came from one side and has no velocity on the other is dead: it does not come back.
    resting = ((left >= 0) & (right <= 0)) | (left == 0) | (right == 0)
    leaves = np.where(resting, 0.0, np.where(left + right > 0, right + ahead, left - ahead))
    return np.where(held, leaves, np.where(crosses, across, stays))
