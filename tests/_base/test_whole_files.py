"""A file with its final name is complete."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from finitewidth._base.whole_files import only_folder, scratch_folder, sweep, whole_file


def test_the_name_appears_with_the_last_byte(tmp_path):
    path = tmp_path / "a[b] é.bin"
    with whole_file(path) as file:
        file.write(b"12")
        assert not path.exists()
        file.write(b"3")
    assert path.read_bytes() == b"123"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write():
        with whole_file(path) as file:
            file.write(b"ne")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


# A process that is killed while it holds a file and a folder.
KILLED = """
import os, signal, sys
from pathlib import Path
from finitewidth._base.whole_files import scratch_folder, whole_file
with scratch_folder(Path(sys.argv[1])) as folder, whole_file(Path(sys.argv[1]) / "a.bin") as file:
    (folder / "tile").write_bytes(b"1")
    file.write(b"2")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_swept(tmp_path):
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path])
    left = list(tmp_path.iterdir())
    assert (ended.returncode, len(left)) == (-9, 2)
    (tmp_path / ".finitewidth.unfinished").write_bytes(b"of somebody else")
    (tmp_path / ".finitewidth-abc.unfinished").symlink_to(tmp_path / "c.bin")
    (tmp_path / "c.bin").write_bytes(b"3")
    with whole_file(tmp_path / "b.bin"):
        pass
    kept = {".finitewidth.unfinished", ".finitewidth-abc.unfinished", "b.bin", "c.bin"}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_what_is_being_written_is_not_swept(tmp_path):
    with scratch_folder(tmp_path) as folder, whole_file(tmp_path / "a.bin") as file:
        sweep(tmp_path)
        file.write(b"1")
        assert folder.is_dir()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.bin": b"1"}


def test_a_folder_has_one_holder(tmp_path):
    with only_folder(tmp_path, "one") as folder:
        with only_folder(tmp_path, "two") as other:
            assert folder != other
        with pytest.raises(BlockingIOError), only_folder(tmp_path, "one"):
            pass
        assert folder.is_dir()
    with only_folder(tmp_path, "one") as again:
        assert again == folder
    assert list(tmp_path.iterdir()) == []


def test_scratch_is_for_nobody_else(tmp_path):
    with scratch_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o077 == 0


@pytest.fixture
def small_disk():
    """A limit on the size of files, in the place of a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_error_of_the_system_names_the_file(tmp_path, small_disk):
    path = tmp_path / "a.bin"
    with pytest.raises(OSError, match="File too large") as raised, whole_file(path) as file:
        file.write(bytes(100_000))
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    with pytest.raises(FileNotFoundError) as raised, whole_file(tmp_path / "no" / "a.bin"):
        pass
    assert raised.value.filename == str(tmp_path / "no" / "a.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_not_replaced(tmp_path):
    """Root could: the device would become a file."""
    os.mkfifo(tmp_path / "fifo")
    for path in ("/dev/full", tmp_path / "fifo", tmp_path):
        with pytest.raises(OSError, match="is not an ordinary file"), whole_file(path):
            pass
    assert (tmp_path / "fifo").is_fifo()
