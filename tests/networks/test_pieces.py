"""Ensembles in pieces: the networks of `train_ensemble`, and loops that are left early."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from compilations import count_compilations
from finitewidth.networks.training.ensembles import log_spaced
from finitewidth.networks.training.training import DivergenceError
from tolerances import assert_close

X = jax.random.normal(jax.random.key(1), (5, 3))
Y = jnp.sin(2 * X[:, :1])
X_TEST = jax.random.normal(jax.random.key(2), (2, 3))
NET = fw.MLP(hidden=(6, 6), activation="tanh", C_b=0.1, C_W=1.2)
KEY = jax.random.key(0)


def pieces(size=6, steps=20, **changes):
    settings = {"learning_rate": 0.1, "together": 4, "record_at": log_spaced(steps), **changes}
    return fw.train_in_pieces(NET, KEY, size, X, Y, X_TEST, steps=steps, **settings)


def test_joined_pieces_are_the_ensemble():
    whole = fw.train_ensemble(
        NET, KEY, 6, X, Y, X_TEST, steps=20, learning_rate=0.1, record=["ntk"], record_at=[1, 2, 4, 8, 16]
    )
    last = [piece for piece in pieces(record=["ntk"]) if piece.finished]
    assert [piece.members for piece in last] == [range(4), range(4, 6)]
    assert last[0].times.tolist() == whole.times.tolist() == [0, 1, 2, 4, 8, 16, 20]
    for ours, theirs in (
        ([p.outputs for p in last], whole.outputs),
        ([p.losses for p in last], whole.losses),
        ([p.recorded["ntk"] for p in last], whole.recorded["ntk"]),
    ):
        assert_close(np.concatenate(ours), theirs, 1e-11)


def test_batches_do_not_depend_on_the_pieces():
    settings = {"batch_size": 2, "learning_rate": 0.05}
    whole = fw.train_ensemble(NET, KEY, 4, X, Y, X_TEST, steps=20, **settings)
    often = list(pieces(4, seconds=1e-9, record_at=None, record_every=3, **settings))
    assert len(often) > 3
    assert_close(often[-1].outputs, whole.outputs, 1e-11)


def test_a_loop_can_be_left_in_the_middle_of_training():
    piece = next(pieces(4, steps=10**9, seconds=1e-3, record_at=()))
    assert not piece.finished
    assert 0 < piece.step < 10**5
    assert piece.times.tolist() == [0]
    alone = fw.train_ensemble(NET, KEY, 4, X, Y, X_TEST, steps=piece.step, learning_rate=0.1)
    assert_close(piece.outputs, alone.outputs, 1e-9)


def test_other_numbers_of_steps_compile_nothing():
    fw.train_ensemble(NET, KEY, 4, X, Y, X_TEST, steps=20, learning_rate=0.1)
    list(pieces(4))
    with count_compilations() as programs:
        for steps in (1, 33, 700):
            fw.train_ensemble(NET, KEY, 4, X, Y, X_TEST, steps=steps, learning_rate=0.1)
            list(pieces(4, steps=steps))
        assert programs == []
        list(pieces(3))
    assert programs


def test_records_beyond_the_last_step_are_left_out():
    """Matrices of 200 kB each: the program has room for four of them, and three stretches of steps."""
    seen = {"large": lambda params: jnp.full((160, 160), params[0].bias[0])}
    run = fw.train_ensemble(
        NET, KEY, 2, X, Y, X_TEST, steps=5, learning_rate=0.1, record=seen, record_at=[1, 3]
    )
    assert run.recorded["large"].shape == (2, 4, 160, 160)
    assert run.times.tolist() == [0, 1, 3, 5]
    assert (run.recorded["large"] != 0).all()


def test_outputs_at_the_test_inputs_can_be_recorded():
    run = fw.train_ensemble(NET, KEY, 2, X, Y, X_TEST, steps=4, learning_rate=0.1, record=["test_outputs"])
    assert_close(run.recorded["test_outputs"][:, 0], run.initial_outputs)
    assert_close(run.recorded["test_outputs"][:, -1], run.outputs)
    two = fw.train_ensemble(NET, KEY, 2, X, Y, X_TEST, steps=2, learning_rate=0.1)
    assert_close(run.recorded["test_outputs"][:, 2], two.outputs)


def test_log_spaced():
    assert log_spaced(1).tolist() == [1]
    assert log_spaced(100).tolist() == [1, 2, 4, 8, 16, 32, 64, 100]
    assert log_spaced(16, 2).tolist() == [1, 2, 3, 4, 6, 8, 11, 16]


def test_a_network_that_runs_away_is_named():
    with pytest.raises(DivergenceError, match=r"member [0-3] of the ensemble: training diverged"):
        list(pieces(4, steps=200, learning_rate=50.0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"record_every": 2}, "record_every and record_at both say when to record"),
        ({"record_at": [21]}, "record_at has 21, which is after the last of 20 steps"),
        ({"record_at": [-1]}, "every number in record_at must be a whole number of at least 0, got -1"),
        ({"together": 0}, "together must be a whole number of at least 1"),
        ({"seconds": 0.0}, "seconds must be a positive number"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        pieces(**changes)
