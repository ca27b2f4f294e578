"""The course of a training as arrays for sampling: how residuals decay, and the times of every kind."""

import jax.numpy as jnp
import numpy as np

from finitewidth.prediction.methods.first_order.sampled.decay import (
    Decay,
    EndOfDescent,
    EndOfFlow,
    HeldToTheStart,
    Powers,
    StoppedFree,
    TrainingTimes,
)
from finitewidth.prediction.methods.first_order.sampled.stopped_with_ridge import Pull, StoppedHeld
from finitewidth.prediction.methods.first_order.sampled.time_nodes import (
    ONCE,
    Held,
    Pairs,
    Parts,
    TimeStrata,
    time_strata,
)
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes


def training_course(modes: TrainingModes, dtype) -> tuple[Decay, TrainingTimes]:
    """How the residuals of a training problem decay, and its times."""
    train, ended = modes.train, modes.algorithm.converged
    values, vectors = np.linalg.eigh(modes.Kt)
    root = vectors * np.sqrt(np.maximum(values, 0))
    reach = modes.Theta_modes[train:]
    arrays = [jnp.asarray(a, dtype) for a in (modes.U, modes.t, modes.Y.T[None], root, reach)]
    if ended and modes.ridge > 0:
        return HeldToTheStart(*arrays), TrainingTimes(*(ONCE,) * 5)
    powers, clock = Powers.of(modes, dtype), modes.algorithm.clock()
    single = time_strata(np.asarray(modes.t), modes.algorithm, nested=False)
    if ended:
        kind, weights = (EndOfFlow, 1) if clock.continuous else (EndOfDescent, 2)
        changes = Parts((single,) * weights), Parts((single,) * weights**2)
        return kind(*arrays, powers=powers), TrainingTimes(ONCE, ONCE, ONCE, *changes)
    nested = time_strata(np.asarray(modes.t), modes.algorithm, nested=True)
    fluctuations, end = (single, nested, Pairs(single)), jnp.asarray(clock.end, dtype)
    if modes.ridge > 0:
        decay = StoppedHeld(*arrays, powers=powers, end=end, pull=Pull.of(modes, dtype))
        return decay, TrainingTimes(*fluctuations, *_held_changes(modes, single))
    first = Parts((single,) if clock.continuous else (single, single))
    second = Parts((nested,) if clock.continuous else (single, single, nested, nested))
    return StoppedFree(*arrays, powers=powers, end=end), TrainingTimes(*fluctuations, first, second)


def _held_changes(modes: TrainingModes, single: TimeStrata) -> tuple[Parts, Parts]:
    """Times of the changes with a ridge, in the order of `StoppedHeld.pair` and `StoppedHeld.triple`."""
    both = [
        time_strata(np.asarray(modes.t), modes.algorithm, nested=nested, held=True)
        for nested in (False, True)
    ]
    late, nested = map(Held, both)
    if modes.algorithm.clock().continuous:
        return Parts((single, late)), Parts((single, late, nested, nested))
    first = Parts((single, single, late))
    return first, Parts((single, late, single, single, late, nested, nested))
