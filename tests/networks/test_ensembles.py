import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import finitewidth as fw
from finitewidth.networks import members
from tolerances import assert_close

X = jax.random.normal(jax.random.key(1), (5, 3))
Y = jnp.sin(2 * X[:, :1])
X_TEST = jax.random.normal(jax.random.key(2), (2, 3))
NET = fw.MLP(hidden=(6, 6), activation="tanh", C_b=0.1, C_W=1.2)
SETTINGS = {"steps": 20, "learning_rate": 0.1}


@pytest.fixture(scope="module")
def whole():
    return fw.train_ensemble(NET, jax.random.key(0), 100, X, Y, X_TEST, **SETTINGS)


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a[:4], b[:4], strict=True))


def test_every_member_is_a_network_trained_alone(whole):
    for i in (0, 41, 99):
        draw_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), i))
        params = NET.init(draw_key, 3)
        run = fw.train(NET, params, X, Y, **SETTINGS)
        assert_close(whole.initial_outputs[i], NET.apply(params, X_TEST))
        assert_close(whole.outputs[i], NET.apply(run.params, X_TEST), 1e-11)
        assert_close(whole.losses[i, 0], run.losses[0])


def test_members_depend_on_neither_size_nor_memory(whole):
    few = fw.train_ensemble(NET, jax.random.key(0), 37, X, Y, X_TEST, memory_limit=10**6, **SETTINGS)
    assert np.array_equal(few.outputs, whole.outputs[:37])
    assert np.array_equal(few.losses, whole.losses[:37])


def test_another_key_gives_other_networks(whole):
    other = fw.train_ensemble(NET, jax.random.key(1), 4, X, Y, X_TEST, **SETTINGS)
    assert not np.allclose(other.outputs, whole.outputs[:4])


def test_members_are_independent(whole):
    """Outputs before training of members 1, 2, 32 and 33 apart: five standard errors of a correlation."""
    assert len(np.unique(whole.initial_outputs[:, 0, 0])) == 100
    many = fw.train_ensemble(NET, jax.random.key(3), 3000, X, Y, X_TEST, steps=1, learning_rate=1e-3)
    z = many.initial_outputs[:, 0, 0]
    for apart in (1, 2, 32, 33):
        correlation = np.corrcoef(z[:-apart], z[apart:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(len(z)), apart


def test_mean_and_standard_error_by_hand(whole):
    outputs = np.arange(12.0).reshape(3, 2, 2) ** 2
    ensemble = whole._replace(outputs=outputs)
    mean = (outputs[0] + outputs[1] + outputs[2]) / 3
    squares = sum((member - mean) ** 2 for member in outputs)
    assert_close(ensemble.mean, mean)
    assert_close(ensemble.sem, np.sqrt(squares / 2 / 3))


def test_mini_batches_and_records(whole):
    ensemble = fw.train_ensemble(
        NET, jax.random.key(0), 3, X, Y, steps=7, learning_rate=0.05, batch_size=2, optimizer="adam",
        record=["ntk"], record_every=3,
    )  # fmt: skip
    assert ensemble.times.tolist() == [0, 3, 6, 7]
    assert ensemble.recorded["ntk"].shape == (3, 4, 1, 1, 5, 5)
    draw_key, batch_key = jax.random.split(jax.random.fold_in(jax.random.key(0), 2))
    params = NET.init(draw_key, 3)
    run = fw.train(
        NET, params, X, Y, steps=7, learning_rate=0.05, batch_size=2, optimizer="adam", key=batch_key
    )
    assert_close(ensemble.outputs[2], NET.apply(run.params, X), 1e-10)
    assert_close(ensemble.recorded["ntk"][2, 0], fw.empirical_ntk(NET, params, X))


def test_a_second_run_reads_what_the_first_left(whole, tmp_path, monkeypatch):
    arguments = (NET, jax.random.key(0))
    first = fw.train_ensemble(
        *arguments, 64, X, Y, X_TEST, directory=tmp_path, checkpoint_every=32, **SETTINGS
    )
    assert np.array_equal(first.outputs, whole.outputs[:64])
    computed = []
    block = members._block
    monkeypatch.setattr(members, "_block", lambda *a: computed.append(int(a[2])) or block(*a))
    second = fw.train_ensemble(*arguments, 100, X, Y, X_TEST, directory=tmp_path, **SETTINGS)
    assert same(second, whole)
    assert min(computed) == 64


def test_lost_pieces_are_computed_again(whole, tmp_path):
    arguments = (NET, jax.random.key(0), 100, X, Y, X_TEST)
    fw.train_ensemble(*arguments, directory=tmp_path, checkpoint_every=32, **SETTINGS)
    pieces = sorted(tmp_path.glob("members-*.npz"))
    assert len(pieces) == 4
    pieces[1].unlink()
    (tmp_path / ".unfinished-abc").write_bytes(b"half a file")
    assert same(fw.train_ensemble(*arguments, directory=tmp_path, **SETTINGS), whole)


def test_a_directory_of_another_ensemble_is_refused(tmp_path):
    def run(net=NET, y=Y, **changes):
        return fw.train_ensemble(
            net, jax.random.key(0), 4, X, y, X_TEST, directory=tmp_path, **{**SETTINGS, **changes}
        )

    run()
    with pytest.raises(
        ValueError, match=r"its learning_rate is 0.1, this one's is 0.2. Choose another directory"
    ):
        run(learning_rate=0.2)
    with pytest.raises(ValueError, match="its optimizer is 'sgd', this one's is 'adam'"):
        run(optimizer="adam")
    with pytest.raises(ValueError, match=r"its hidden is \[6, 6\], this one's is \[7, 6\]"):
        run(net=fw.MLP(hidden=(7, 6), activation="tanh", C_b=0.1, C_W=1.2))
    with pytest.raises(ValueError, match="its y is 'float64"):
        run(y=Y + 1)
    with pytest.raises(ValueError, match="optimizer must be a name or a number, not"):
        run(optimizer=optax.sgd(0.1), learning_rate=None)


def test_a_damaged_piece_is_named(tmp_path):
    arguments = (NET, jax.random.key(0), 4, X, Y, X_TEST)
    fw.train_ensemble(*arguments, directory=tmp_path, **SETTINGS)
    (piece,) = tmp_path.glob("members-*.npz")
    piece.write_bytes(piece.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"{piece.name} is damaged .*: delete it and run again"):
        fw.train_ensemble(*arguments, directory=tmp_path, **SETTINGS)


SCRIPT = """
import sys, jax, numpy as np, finitewidth as fw
directory, out = sys.argv[1:]
x = jax.random.normal(jax.random.key(1), (5, 3))
net = fw.MLP(hidden=(6, 6), activation="tanh", C_b=0.1, C_W=1.2)
print("ready", flush=True)
result = fw.train_ensemble(
    net, jax.random.key(0), 4_000, x, x[:, :1], steps=20, learning_rate=0.1, directory=directory or None,
    checkpoint_every=64,
)
np.save(out, result.outputs)
"""


def start(directory: Path | str, out: Path) -> subprocess.Popen:
    optimised = {"XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(directory), str(out)], env=os.environ | optimised
    )


def test_killed_in_the_middle_and_run_again(tmp_path):
    directory = tmp_path / "ensemble"
    process = start(directory, tmp_path / "killed.npy")
    deadline = time.monotonic() + 120
    while len(list(directory.glob("members-*.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed.npy").exists()
    left = {p.name: p.stat().st_mtime_ns for p in directory.glob("members-*.npz")}
    assert 3 <= len(left) < 4_000 // 64
    assert start(directory, tmp_path / "resumed.npy").wait() == 0
    assert start("", tmp_path / "undisturbed.npy").wait() == 0
    assert np.array_equal(np.load(tmp_path / "resumed.npy"), np.load(tmp_path / "undisturbed.npy"))
    assert all((directory / name).stat().st_mtime_ns == written for name, written in left.items())


def test_a_saved_ensemble_holds_its_settings(whole, tmp_path):
    path = tmp_path / "result.npz"
    whole.save(path)
    read = fw.Ensemble.load(path)
    assert same(read, whole)
    assert read.settings == json.loads(json.dumps(whole.settings))
    assert read.settings["learning_rate"] == 0.1
    assert read.settings["size"] == 100


def test_a_diverging_member_is_named():
    with pytest.raises(ValueError, match="member 0 of the ensemble: training diverged with learning_rate=50"):
        fw.train_ensemble(NET, jax.random.key(0), 2, X, Y, steps=200, learning_rate=50.0)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="size must be a whole number of at least 1, got 0"):
        fw.train_ensemble(NET, jax.random.key(0), 0, X, Y, **SETTINGS)
    with pytest.raises(ValueError, match="memory_limit=100 bytes is too small: 32 networks at a time"):
        fw.train_ensemble(NET, jax.random.key(0), 2, X, Y, memory_limit=100, **SETTINGS)
