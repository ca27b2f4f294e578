"""The engine: one loop for everything that moves in steps.

What moves is an object with arrays as fields, so that a second call finds the program of the first. Numbers
of steps are data: one program serves them all.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, PyTree


class Path(NamedTuple):
    """What was seen along the way, and the last state; axes of `seen`: ([copies,] times, ...)."""

    times: Int[np.ndarray, " times"]
    seen: PyTree
    end: PyTree


class Moving(eqx.Module):
    """Something that moves in steps.

    `own` is what one of several copies has for itself: a key, a rate, a start; None where there is one alone.
    """

    @abstractmethod
    def begin(self, own: Any) -> PyTree:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: PyTree, t: Int[Array, ""], own: Any) -> PyTree:
        """The state after step number t."""

    @abstractmethod
    def look(self, state: PyTree, own: Any) -> PyTree:
        """What is seen of a state."""

    def record(self, state: PyTree, own: Any) -> tuple[PyTree, PyTree]:
        """The state to go on from, and what is seen: for looks that keep something for the next one."""
        return state, self.look(state, own)


def follow(
    moving: Moving,
    *,
    steps: int,
    every: int = 1,
    copies: PyTree = None,
    together: bool = True,
    path: Path | None = None,
) -> Path:
    """Take steps, and look at the start, after every so many steps, and at the end.

    Parameters
    ----------
    moving
        What moves.
    steps, every
        Number of steps, and of steps between two looks.
    copies
        What each of several copies has for itself, first axis the copy; one without any by default.
    together
        Whether copies move side by side, or one after the other. Side by side a copy may differ in its last
        bit from what it is alone.
    path
        Where to go on from: steps, and times of looks, count on from its end.
    """
    first = 0 if path is None else int(path.times[-1])
    times = first + np.unique([*range(0, steps + 1, every), steps])
    lengths = jnp.asarray(np.diff(times, append=times[-1]))
    begun = None if path is None else path.end
    seen, end = _followed(moving, copies, begun, jnp.asarray(first), lengths, together)
    return Path(times, jax.tree.map(np.asarray, seen), end)


@eqx.filter_jit
def _followed(
    moving: Moving,
    copies: PyTree,
    begun: PyTree,
    first: Int[Array, ""],
    lengths: Int[Array, " times"],
    together: bool,
) -> tuple[PyTree, PyTree]:
    """A look comes before its steps: the program has one of each, and their numbers are data."""

    def one(given: tuple[Any, PyTree]) -> tuple[PyTree, PyTree]:
        own, state = given

        def stretch(carry: tuple[PyTree, Array], length: Int[Array, ""]):
            state, t = carry
            state, seen = moving.record(state, own)
            moved = lax.fori_loop(0, length, lambda i, state: moving.step(state, t + i, own), state)
            return (moved, t + length), seen

        state = moving.begin(own) if state is None else state
        (end, _), seen = lax.scan(stretch, (state, first), lengths)
        return seen, end

    if copies is None:
        return one((None, begun))
    return jax.vmap(one)((copies, begun)) if together else lax.map(one, (copies, begun))
