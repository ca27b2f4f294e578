"""The files of a study are those of one run, whatever interrupts the writing."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from finitewidth.report.directory import FILES, check_directory, held_directory, replace_files

OLD = {name: f"old {name}\n" for name in FILES}
NEW = {name: f"new {name}\n" for name in FILES}


def texts(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.fixture
def run(tmp_path) -> Path:
    replace_files(tmp_path / "run", OLD)
    return tmp_path / "run"


@pytest.fixture(params=["renamed", "exchanged", "one by one"])
def way(request, run) -> str:
    """The ways in which a directory gets its files."""
    if request.param == "renamed":
        for name in FILES:
            (run / name).unlink()
        run.rmdir()
    if request.param == "one by one":
        (run / "notes.txt").write_text("of the user")
    return request.param


def test_new_files_replace_old_ones(run, way):
    replace_files(run, NEW)
    found = texts(run)
    assert found.pop("notes.txt", "of the user") == "of the user"
    assert found == NEW
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_fewer_files_leave_none_of_the_run_before(run, way):
    """A diagnosis has no predictions: those of a study would be taken for its own."""
    fewer = {name: NEW[name] for name in FILES[1:]}
    replace_files(run, fewer)
    assert {name: text for name, text in texts(run).items() if name in FILES} == fewer


def test_a_directory_keeps_who_may_read_it(run):
    run.chmod(0o750)
    replace_files(run, NEW)
    assert run.stat().st_mode & 0o777 == 0o750


def test_a_directory_in_which_somebody_works_stays_the_same_one(run, monkeypatch):
    monkeypatch.chdir(run)
    before = run.stat().st_ino
    replace_files(Path(), NEW)
    assert (run.stat().st_ino, texts(run)) == (before, NEW)


@pytest.mark.parametrize("failing", range(6))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_all_old_files(run, monkeypatch, failing, error):
    """In the directory of a user, whose files stay: three moves aside, and three in."""
    move = Path.replace
    moved = []

    def replace(self, target):
        moved.append(target)
        if len(moved) == failing + 1:
            raise error
        return move(self, target)

    (run / "notes.txt").write_text("of the user")
    before = texts(run)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(type(error)):
        replace_files(run, NEW)
    assert len(moved) > failing
    assert texts(run) == before
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_failure_leaves_no_directory_that_was_not_there(tmp_path, monkeypatch):
    def rename(self, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match=r"No space left on device: '.*run'"):
        replace_files(tmp_path / "run", NEW)
    assert list(tmp_path.iterdir()) == []


# Runs that are killed before their 1st, 2nd, ... operation on files, until one gets to its end.
KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from finitewidth.report.directory import FILES, replace_files

# What a killed process has written is not lost; waiting for the disk takes a minute.
os.fsync = lambda number: None
folder, way = Path(sys.argv[1]), sys.argv[2]
run = folder / "run"
old, new = ({name: f"{age} {name}" for name in FILES} for age in ("old", "new"))
states = []
while True:
    if way != "renamed":
        replace_files(run, old)
    if way == "one by one":
        (run / "notes.txt").write_text("of the user")
    child = os.fork()
    if child == 0:
        left = len(states)

        def count(event, arguments):
            global left
            if event == "open" or event.startswith(("os.", "shutil.")):
                left -= 1
                if left == -1:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        replace_files(run, new)
        os._exit(0)
    killed = os.waitpid(child, 0)[1] != 0
    found = {name: (run / name).read_text() for name in FILES if (run / name).exists()}
    rest = sorted({path.name for path in run.iterdir()} - set(FILES)) if run.exists() else []
    # Another run in the same place clears up, and ends before it writes.
    try:
        from finitewidth.report.directory import held_directory
        with held_directory(run, force=True):
            after = {name: (run / name).read_text() for name in FILES if (run / name).exists()}
    finally:
        left = [path.name for path in folder.iterdir()]
    states.append((found, rest, after, left))
    if run.exists():
        shutil.rmtree(run)
    if not killed:
        break
print(json.dumps(states))
"""


@pytest.mark.parametrize("way", ["renamed", "exchanged", "one by one"])
def test_a_process_killed_anywhere_leaves_files_of_one_run(tmp_path, way):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path, way], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ages = {age: {name: f"{age} {name}" for name in FILES} for age in ("old", "new")}
    before = {} if way == "renamed" else ages["old"]
    states = json.loads(done.stdout)
    assert len(states) > 8
    assert states[0][0] == before
    assert states[-1][0] == ages["new"]
    for found, rest, after, left in states:
        assert rest == (["notes.txt"] if way == "one by one" else [])
        # In the directory of a user some of the files may be gone until the next run, never of two runs.
        whole = [before, ages["new"]]
        assert found in whole or (way == "one by one" and any(found.items() <= age.items() for age in whole))
        assert after in whole
        assert left == (["run"] if after else [])


def test_a_second_run_in_the_same_place_is_told_so(tmp_path):
    with held_directory(tmp_path / "run", force=False) as write:
        for force in (False, True):
            with (
                pytest.raises(ValueError, match=r"another run is writing to .*run: wait for it, or choose"),
                held_directory(tmp_path / "run", force),
            ):
                pass
        with held_directory(tmp_path / "other", force=False):
            pass
        write(NEW)
    assert texts(tmp_path / "run") == NEW


def test_a_run_that_ended_meanwhile_is_not_replaced(tmp_path):
    check_directory(tmp_path / "run", force=False)
    replace_files(tmp_path / "run", OLD)
    with (
        pytest.raises(ValueError, match="already holds another run"),
        held_directory(tmp_path / "run", force=False),
    ):
        pass
    assert texts(tmp_path / "run") == OLD


def test_a_directory_in_the_place_of_a_file_stops_everything(run):
    (run / FILES[2]).unlink()
    (run / FILES[2]).mkdir()
    with pytest.raises(ValueError, match=r"report\.html is a directory"):
        replace_files(run, NEW)
    assert (run / FILES[0]).read_text() == OLD[FILES[0]]
    assert (run / FILES[1]).read_text() == OLD[FILES[1]]
    assert sorted(path.name for path in run.iterdir()) == sorted(FILES)
    with pytest.raises(ValueError, match=r"report\.html is a directory; move it away"):
        check_directory(run, force=True)


def test_a_link_counts_as_a_file_of_another_run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / FILES[0]).symlink_to("nowhere")
    with pytest.raises(ValueError, match="already holds another run"):
        check_directory(tmp_path / "run", force=False)
    check_directory(tmp_path / "run", force=True)
    replace_files(tmp_path / "run", NEW)
    assert texts(tmp_path / "run") == NEW
    assert not os.path.islink(tmp_path / "run" / FILES[0])
