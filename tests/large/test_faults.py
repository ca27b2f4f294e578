"""Runs that are killed, files that are damaged, disks that are full: the right matrix or a clear sentence."""

import errno
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.engines import DaskCluster
from finitewidth.large import store
from finitewidth.large.gram import gram
from finitewidth.large.store import DamagedTileError
from large.kernels_of_points import NET, TILE, points
from tolerances import assert_close

KILLED = """
import os, signal, sys
import numpy as np
import finitewidth as fw

x = np.random.default_rng(5).normal(size=(90, 3))

def progress(done, total):
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)

fw.large.gram(fw.MLP((1, 1), "relu", 0.1, 2.0), x, sys.argv[1], tile=16, progress=progress)
"""


@pytest.fixture
def whole():
    return np.asarray(fw.kernels(NET, points()).ntk)


def test_a_killed_run_goes_on_where_it_ended(tmp_path, whole):
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "k")])
    assert ended.returncode == -signal.SIGKILL
    written = {p: p.stat().st_mtime_ns for p in (tmp_path / "k" / "ntk" / "c").glob("*/*")}
    (tmp_path / "k" / "ntk" / "c" / "0" / "5.abc.partial").write_bytes(b"half a tile")
    calls = []
    kept = gram(NET, points(), tmp_path / "k", tile=TILE, progress=lambda *done: calls.append(done))
    assert calls[0][0] >= 8
    assert len(calls) == 1 + 21 - calls[0][0]
    assert_close(np.asarray(kept.ntk), whole)
    unchanged = [p for p, at in written.items() if p.exists() and p.stat().st_mtime_ns == at]
    assert len(unchanged) >= 8
    assert not list((tmp_path / "k").rglob("*.partial"))


@pytest.mark.parametrize("damage", ["flip", "halve", "empty", "delete"])
def test_a_damaged_tile_is_noticed_and_computed_again(tmp_path, whole, damage):
    kept = gram(NET, points(), tmp_path / "k", tile=TILE)
    file = tmp_path / "k" / "ntk" / "c" / "1" / "3"
    content = file.read_bytes()
    broken = bytearray(content)
    broken[1000] ^= 4
    new = {"flip": bytes(broken), "halve": content[: len(content) // 2], "empty": b""}
    file.unlink()
    if damage != "delete":
        file.write_bytes(new[damage])
    words = {"flip": "checksum is wrong", "delete": "is missing"}.get(damage, "is cut short")
    with pytest.raises(DamagedTileError, match=rf"tile \(1, 3\) of ntk in .* {words}"):
        kept.verify()
    assert kept.missing() == [(1, 3)]
    calls = []
    again = gram(NET, points(), tmp_path / "k", tile=TILE, progress=lambda *done: calls.append(done))
    assert calls == [(20, 21), (21, 21)]
    assert file.read_bytes() == content
    assert_close(np.asarray(again.ntk), whole)


def test_a_disk_that_is_full_ends_the_run_and_loses_nothing(tmp_path, whole, monkeypatch):
    room = 9
    honest = store.Store.write

    def write(self, name, tile, values):
        nonlocal room
        room -= 1
        if room < 0:
            # Half of the file is written when the disk is full.
            monkeypatch.setattr(store, "_checksum", _full)
        honest(self, name, tile, values)

    def _full(block):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.Store, "write", write)
        with pytest.raises(OSError, match="is full; finished tiles are kept: make room") as raised:
            gram(NET, points(), tmp_path / "k", tile=TILE)
    monkeypatch.undo()
    assert raised.value.errno == errno.ENOSPC
    assert not list((tmp_path / "k").rglob("*.partial"))
    calls = []
    kept = gram(NET, points(), tmp_path / "k", tile=TILE, progress=lambda *done: calls.append(done))
    assert 0 < calls[0][0] < 21
    assert_close(np.asarray(kept.ntk), whole)


def test_a_disk_without_room_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6, 1000))
    with pytest.raises(OSError, match=r"needs 0.0862 MB more for 21 tiles, and its disk has 0.001 MB free"):
        gram(NET, points(), tmp_path / "k", tile=TILE)


def _mounted(folder) -> bool:
    """Whether a disk of 150 kB could be mounted there: root may, outside of most containers."""
    command = ["mount", "-t", "tmpfs", "-o", "size=150k", "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


def test_a_disk_that_is_full_keeps_whole_files_only(tmp_path, monkeypatch):
    """A real disk where one can be mounted, otherwise a system that says the same after some bytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = _mounted(disk)
    try:
        if not mounted:
            left, real = 40, store._checksum

            def checksum(block):
                nonlocal left
                left -= 1
                if left < 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real(block)

            monkeypatch.setattr(store, "_checksum", checksum)
        monkeypatch.setattr(store.Store, "check_space", lambda self, tiles: None)
        with pytest.raises(OSError, match="is full; finished tiles are kept"):
            gram(NET, points(190), disk / "k", tile=TILE)
        files = list((disk / "k" / "ntk" / "c").glob("*/*"))
        assert files
        assert {p.stat().st_size for p in files} == {TILE**2 * 8 + 4}
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_store_that_cannot_be_written_to(tmp_path, monkeypatch, code):
    gram(NET, points(40), tmp_path / "k", tile=TILE)
    real = os.open

    def refuse(path, flags, *mode, **more):
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, flags, *mode, **more)

    monkeypatch.setattr(os, "open", refuse)
    # A finished store is read without writing.
    assert gram(NET, points(40), tmp_path / "k", tile=TILE).missing() == []
    (tmp_path / "k" / "ntk" / "c" / "0" / "0").unlink()
    with pytest.raises(PermissionError, match="cannot be written to: name a store of your own"):
        gram(NET, points(40), tmp_path / "k", tile=TILE)


def test_a_scheduler_that_does_not_answer_is_said_within_fifteen_seconds(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    started = time.monotonic()
    with pytest.raises(ConnectionError, match=f"no Dask scheduler answers at '{address}' within 2 seconds"):
        DaskCluster(address, seconds=2)
    assert time.monotonic() - started < 7


@pytest.mark.parametrize("address", ["nonsense", "nonsense://here", "tcp://127.0.0.1"])
def test_what_is_no_address_leaves_no_client_behind(address):
    # A client that could not be made waits for 20 seconds when it is deleted, and then prints a traceback.
    lines = f"from finitewidth._base.engines import check_scheduler\ncheck_scheduler({address!r})"
    started = time.monotonic()
    run = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert time.monotonic() - started < 15
    assert run.stderr.splitlines()[-1].startswith(
        f"ConnectionError: no Dask scheduler answers at {address!r}"
    )
    assert "__del__" not in run.stderr


def test_a_server_that_is_no_scheduler_is_told_apart():
    with socketserver.TCPServer(("127.0.0.1", 0), _Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = "tcp://{}:{}".format(*server.server_address)
        started = time.monotonic()
        with pytest.raises(ConnectionError, match="no Dask scheduler answers"):
            DaskCluster(address, seconds=2)
        assert time.monotonic() - started < 7
        server.shutdown()


class _Web(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
