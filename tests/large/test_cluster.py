"""A real Dask cluster of two processes on this machine: the same matrix, also when a worker is killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.engines import DaskCluster
from finitewidth.cli import main
from finitewidth.cli.lab_job import run_all
from finitewidth.course._lab.registry import claim
from finitewidth.large.gram import gram
from large.kernels_of_points import NET, TILE, points

# One that draws networks, and one that does not.
CLAIMS = ("conditional-gaussian-layer", "linear-critical")

# A client that is killed in the middle of its run; workers end the tiles they have by then, so they are many.
CLIENT = """
import os, signal, sys
from pathlib import Path
import numpy as np
import finitewidth as fw

x, store = np.random.default_rng(5).normal(size=(400, 3)), Path(sys.argv[1])

def progress(done, total):
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)

fw.large.gram(fw.MLP((1, 1), "relu", 0.1, 2.0), x, store, tile=16, scheduler=sys.argv[2], progress=progress)
"""


class Cluster:
    """A scheduler and workers, each a process; all are ended with the tests."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.wait_for(self.file.exists)
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, kind: str, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-W", "ignore", "-m", "dask", kind, *arguments, "--no-dashboard"]
        with (self.folder / f"{kind}-{len(self.processes)}.log").open("w") as log:
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(self.file)], stdout=log, stderr=log, cwd=self.folder
            )
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen:
        return self.start("worker", "--nthreads", "1", "--no-nanny", "--memory-limit", "2GB")

    def wait_for(self, met, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while not met():
            if time.monotonic() > until:
                logs = "".join(p.read_text()[-800:] for p in self.folder.glob("*.log"))
                raise TimeoutError(f"the cluster did not come up: {logs}")
            time.sleep(0.05)

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.worker()
        cluster.worker()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory):
    return gram(NET, points(), tmp_path_factory.mktemp("threads") / "k", tile=TILE)


def _workers(address: str) -> int:
    with DaskCluster(address) as engine:
        return engine.count


def test_a_cluster_computes_the_same_bits_as_threads(cluster, by_threads, tmp_path):
    cluster.wait_for(lambda: _workers(cluster.address) == 2)
    kept = gram(NET, points(), tmp_path / "k", tile=TILE, scheduler=cluster.address)
    for name in ("nngp", "ntk"):
        assert (np.asarray(getattr(kept, name)) == np.asarray(getattr(by_threads, name))).all()


def test_a_client_that_is_killed_goes_on_where_it_ended(cluster, tmp_path):
    words = [sys.executable, "-c", textwrap.dedent(CLIENT), str(tmp_path / "k"), cluster.address]
    assert subprocess.run(words).returncode == -signal.SIGKILL
    # Workers may still write tiles that they had begun; then nobody does.
    cluster.wait_for(lambda: not _busy(cluster.address))
    written = _times(tmp_path / "k")
    assert 8 <= len(written) < 325
    calls = []
    kept = gram(
        NET, points(400), tmp_path / "k",
        tile=TILE, scheduler=cluster.address, progress=lambda *done: calls.append(done),
    )  # fmt: skip
    assert calls[0] == (len(written), 325)
    assert len(calls) == 1 + 325 - len(written)
    assert {p: at for p, at in _times(tmp_path / "k").items() if p in written} == written
    assert kept.missing() == []
    local = gram(NET, points(400), tmp_path / "here", tile=TILE)
    for name in ("nngp", "ntk"):
        assert (np.asarray(getattr(kept, name)) == np.asarray(getattr(local, name))).all()


def _times(store: Path) -> dict[str, int]:
    """When each tile that is whole in both arrays was written."""
    files = [p for p in (store / "ntk" / "c").glob("*/*") if p.suffix != ".partial"]
    both = [p for p in files if (store / "nngp" / "c" / p.parent.name / p.name).exists()]
    return {f"{p.parent.name}/{p.name}": p.stat().st_mtime_ns for p in both}


def _busy(address: str) -> int:
    """Tasks that the scheduler knows of, and those that workers are at although it does not any more."""

    def of_worker(dask_worker) -> int:
        state = dask_worker.state
        return len(state.all_running_tasks) + len(state.ready) + len(state.tasks)

    with DaskCluster(address) as engine:
        known = engine._client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        return known + sum(engine._client.run(of_worker).values())


TRAIN = ("train-ensemble", "table.csv", "--hidden", "4", "--size", "6", "--steps", "3", "--quiet")
PREDICT = (
    "predict", "table.csv", "--target", "y", "--hidden", "4", "--order", "0", "--steps", "3", "--verify", "3"
)  # fmt: skip
TILED = ("predict", "table.csv", "--target", "y", "--hidden", "4", "--order", "0", "--solver", "iterative")
LAB = ("lab", "run", "linear-critical")


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """`finitewidth` in this process, in a directory with a table; its code and what it said."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(2).normal(size=(20, 3))
    np.savetxt("table.csv", rows, delimiter=",", header="a,b,y", comments="")

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["finitewidth", *words])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        return code, "".join(capfd.readouterr())

    return run


@pytest.mark.parametrize("words", [TRAIN, PREDICT, LAB], ids=["train-ensemble", "predict", "lab"])
def test_a_command_on_a_cluster_writes_what_it_writes_without(cluster, command, words, monkeypatch):
    used, connect = [], DaskCluster.map

    def noted(self, *arguments):
        used.append(self.address)
        return connect(self, *arguments)

    monkeypatch.setattr(DaskCluster, "map", noted)
    name = "{}.npz" if words is TRAIN else "{}"
    code, said = command(*words, "--out", name.format("here"))
    assert (code, used) == (0, []), said
    code, said = command(*words, "--out", name.format("there"), "--scheduler", cluster.address)
    assert (code, set(used)) == (0, {cluster.address}), said
    here, there = (_results(words, name.format(place)) for place in ("here", "there"))
    assert here == there


def _results(words: tuple[str, ...], place: str) -> object:
    """What a command found, without its times."""
    if words is TRAIN:
        with np.load(place) as found:
            return found["outputs"].tolist()
    if words is PREDICT:
        return json.loads(Path(place, "summary.json").read_text())["verification"]
    return json.loads(Path(place, "linear-critical.json").read_text())["checks"]


@pytest.mark.parametrize(
    "words", [TRAIN, PREDICT, TILED, LAB], ids=["train-ensemble", "predict", "tiles", "lab"]
)
def test_a_command_without_a_scheduler_that_answers_ends_soon(command, words):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    started = time.monotonic()
    code, said = command(*words, "--out", "run.npz" if words is TRAIN else "run", "--scheduler", address)
    assert code == 2
    assert time.monotonic() - started < 15
    told = " ".join(said.split())
    assert f"no Dask scheduler answers at '{address}' within 10 seconds" in told
    assert "Traceback" not in said
    assert not Path("run", "summary.json").exists()


def test_ensembles_of_a_cluster_are_those_of_threads(cluster, tmp_path):
    x = np.random.default_rng(1).normal(size=(6, 2))
    net = fw.MLP((4,), "tanh", 0.0, 1.0)
    law = fw.predict(net, x, x[:, 0] * x[:, 1], x[:2], fw.GradientDescent(steps=5), ridge=0.1)
    local, there = (
        fw.verify(law, 40, scheduler=scheduler, y_test=x[:2, :1]) for scheduler in (None, cluster.address)
    )
    assert (local.outputs == there.outputs).all()
    assert (local.loss.test == there.loss.test).all()
    settings = {"steps": 5, "learning_rate": 0.1, "size": 70, "x": x, "y": x[:, :1]}
    key = jax.random.key(3)
    kept = fw.train_ensemble(net, key, **settings, scheduler=cluster.address, directory=tmp_path / "kept")
    assert (kept.outputs == fw.train_ensemble(net, key, **settings).outputs).all()
    # What the cluster finished is not trained again here, nor the other way round.
    assert (
        fw.train_ensemble(net, key, **settings, directory=tmp_path / "kept").outputs == kept.outputs
    ).all()


def test_claims_of_a_cluster_are_those_of_one_process(cluster, tmp_path):
    chosen = [claim(id) for id in CLAIMS]
    local, there = (
        run_all(chosen, "quick", 0, tmp_path / name, 1, scheduler)
        for name, scheduler in (("here", None), ("there", cluster.address))
    )
    assert [record["id"] for record in there] == list(CLAIMS)
    untimed = {"seconds": 0, "cpu_seconds": 0}
    for a, b in zip(local, there, strict=True):
        assert a | untimed == b | untimed
    written = {p.name for p in (tmp_path / "there").iterdir()}
    assert {f"{id}.{kind}" for id in CLAIMS for kind in ("json", "png")} <= written


def test_a_worker_that_is_killed_loses_nothing(cluster, by_threads, tmp_path):
    victim = cluster.processes[1]

    def progress(done: int, total: int) -> None:
        if done == 7:
            os.kill(victim.pid, signal.SIGKILL)

    kept = gram(NET, points(), tmp_path / "k", tile=TILE, scheduler=cluster.address, progress=progress)
    assert victim.wait() == -signal.SIGKILL
    assert kept.missing() == []
    assert (np.asarray(kept.ntk) == np.asarray(by_threads.ntk)).all()


def test_an_error_in_a_worker_is_the_error_of_the_run(cluster, tmp_path):
    with DaskCluster(cluster.address) as engine:
        assert sorted(engine.map(abs, [-3, 2, -1])) == [1, 2, 3]
        with pytest.raises(ZeroDivisionError):
            list(engine.map((1).__truediv__, [1, 0, 2]))


def test_a_scheduler_that_is_lost_is_said_and_the_tiles_stay(cluster, tmp_path):
    def progress(done: int, total: int) -> None:
        if done == 3:
            os.kill(cluster.processes[0].pid, signal.SIGKILL)

    with pytest.raises(ConnectionError, match=r"scheduler at tcp://127.0.0.1:\d+ was lost"):
        gram(NET, points(), tmp_path / "k", tile=TILE, scheduler=cluster.address, progress=progress)
    calls = []
    kept = gram(NET, points(), tmp_path / "k", tile=TILE, progress=lambda *done: calls.append(done))
    assert calls[0][0] >= 3
    assert kept.missing() == []
