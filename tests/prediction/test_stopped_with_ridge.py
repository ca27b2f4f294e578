"""Training with a ridge that stops, by sampled times: against transfer matrices, and in its limits."""

import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.prediction.methods.first_order.projector_weights import ARRANGEMENTS
from finitewidth.prediction.methods.first_order.sampled.decay import StoppedFree
from finitewidth.prediction.methods.first_order.sampled.stopped_with_ridge import Pull, StoppedHeld
from finitewidth.prediction.methods.first_order.sampled.time_nodes import Times
from finitewidth.prediction.methods.first_order.sampled.training_course import training_course
from finitewidth.prediction.methods.first_order.source_weights import source_weights
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from tolerances import assert_close

EIGENVALUES, RIDGE, DRAWS = np.array([0.02, 0.7, 2.0]), 0.3, 500
ALGORITHMS = [GradientFlow(3.0), GradientDescent(0.2, 11), GradientDescent(0.75, 25)]


def modes_of(algorithm, ridge=RIDGE):
    Theta = np.diag([*EIGENVALUES, 1.0])
    return TrainingModes.of(Theta, Theta, np.ones((3, 1)), algorithm, ridge)


def sampled(decay, strata, factors, enters):
    """Mean and error of every weight: of the source, then of what is unlearnt of it in every mode."""
    times = strata.draw(np.random.default_rng(0), np.repeat(np.arange(strata.count), DRAWS))
    column = Times(*(jnp.asarray(a)[:, None, None] for a in times))
    legs = "klm"[: len(next(iter(factors(column).values())))]
    kept = np.broadcast_to(np.asarray(decay.kept(column)), (len(times.late), 1, 1))
    unlearnt = np.asarray(decay.unlearnt(jnp.ones((1, 1, 3)), column))
    starts = np.concatenate([kept, unlearnt], axis=2)[:, 0] * times.weight[:, None]
    found = []
    for arrangement in range(len(next(iter(enters.values())))):
        total = 0.0
        for part, (name, parts) in enumerate(factors(column).items()):
            rows = [np.asarray(a)[:, 0] * np.ones((len(times.late), 3)) for a in parts]
            weight = enters[name][arrangement] * (times.part == part)
            chosen = ",".join(f"s{leg}" for leg in legs)
            total = total + np.einsum(f"s,sz,{chosen}->sz{legs}", weight, starts, *rows)
        grouped = total.reshape(strata.count, DRAWS, *total.shape[1:])
        error = np.sqrt((grouped.var(axis=1) / DRAWS).sum(axis=0))
        found.append((grouped.mean(axis=1).sum(axis=0), error))
    return found


def assert_within_noise(found, expected):
    (value, error), scale = found, np.abs(expected).max()
    assert (np.abs(value - expected) <= 5 * error + 1e-9 * scale).all()
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(expected)


def symmetric(weight, axes):
    """The mean over the orders of labels that the tensor does not tell apart."""
    return np.mean([weight.transpose(0, *(1 + a for a in order)) for order in axes], axis=0)


PAIRS, TRIPLES = [(0, 1), (1, 0)], [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sampled_times_give_the_weights_of_the_transfer_matrices(algorithm):
    modes = modes_of(algorithm)
    decay, times = training_course(modes, jnp.float64)
    assert isinstance(decay, StoppedHeld)
    exact, rate = source_weights(modes.t, algorithm, RIDGE), algorithm.clock().rate
    scaled = lambda w: np.concatenate([w[:1], rate * w[1:]])
    fixed, moved = sampled(decay, times.first, decay.pair, decay.first_enters)
    mean, error = (symmetric(a, PAIRS) for a in fixed)
    assert_within_noise((mean, error), scaled(exact.dH_Dab))
    assert_within_noise(moved, scaled(exact.dH_aDb))
    found = dict(
        zip(ARRANGEMENTS, sampled(decay, times.second, decay.triple, decay.second_enters), strict=True)
    )
    mean, error = (symmetric(a, TRIPLES) for a in found["I_Dabc"])
    # The legs of the ddNTK are z(0) - y.
    assert_within_noise((-mean, error), scaled(exact.I_Dabc))
    assert_within_noise((-found["I_aDbc"][0], found["I_aDbc"][1]), scaled(exact.I_aDbc))
    assert_within_noise((-found["J_abDc"][0], found["J_abDc"][1]), scaled(exact.J_abDc))
    # J_Dabc is J_Dbac with other names for its labels.
    swapped = [a.transpose(0, 2, 1, 3) for a in found["J_Dabc"]]
    mean = swapped[0] + found["J_Dbac"][0]
    error = np.hypot(swapped[1], found["J_Dbac"][1])
    assert_within_noise((-mean, error), scaled(exact.J_Dbac))
    assert not found["J_aDbc"][0].any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_ridge_of_zero_is_none(algorithm):
    """The same times have other terms, and the same sums over the arrangements."""
    modes = modes_of(algorithm, ridge=0.0)
    free, _ = training_course(modes, jnp.float64)
    assert isinstance(free, StoppedFree)
    arrays = (free.U, free.t, free.labels, free.root, free.reach)
    held = StoppedHeld(*arrays, powers=free.powers, end=free.end, pull=Pull.of(modes, jnp.float64))
    late = np.arange(3.0)[:, None, None]
    times = Times(*(jnp.asarray(a) for a in (late, late, late % 2, late % 2, late, late, late * 0 + 1)))
    assert_close(held.kept(times), np.ones((3, 1, 1)))
    on_modes = jnp.ones((3, 1, 3))
    assert_close(held.unlearnt(on_modes, times), free.unlearnt(on_modes, times))
    for one, other in zip(held.pair(times)["q"], free.pair(times)["b2"], strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("eta", [None, 0.2, 0.42, 1.2])
def test_what_is_unlearnt_meanwhile_is_a_sum_over_steps(eta):
    """A mode without a kernel, negative factors of the modes, and of the ridge."""
    ridge, steps = (1.5 if eta == 1.2 else 0.3), np.array([0.0, 1.0, 2.0, 7.0])
    eigenvalues = np.array([0.0, 1e-6, 0.1]) if eta == 1.2 else np.array([0.0, 1e-6, 3.0])
    algorithm = GradientFlow(9.0) if eta is None else GradientDescent(eta, 9)
    Theta = np.diag([*eigenvalues, 1.0])
    modes = TrainingModes.of(Theta, Theta, np.ones((3, 1)), algorithm, ridge)
    found = np.asarray(Pull.of(modes, jnp.float64).unlearnt(jnp.asarray(steps)[:, None, None]))[:, 0]
    if eta is None:
        fine = (np.arange(20_000) + 0.5) / 20_000
        later = steps[:, None] * fine
        weight = np.exp(-ridge * later)[:, None] * np.exp(
            -modes.t[:, None] * (steps[:, None] - later)[:, None]
        )
        expected = steps[:, None] * weight.mean(axis=2)
        assert_close(found, expected, 1e-6)
        return
    x, rho = 1 - eta * modes.t, 1 - eta * ridge
    expected = [sum((eta * x ** (n - 1 - j) * rho**j for j in range(n)), 0 * x) for n in map(int, steps)]
    assert_close(found, np.array(expected), 1e-10)
