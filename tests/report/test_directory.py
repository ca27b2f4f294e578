"""The three files of a study are replaced together or not at all."""

import os
from pathlib import Path

import pytest

from finitewidth.report.directory import FILES, check_directory, replace_files

OLD = {name: f"old {name}\n" for name in FILES}
NEW = {name: f"new {name}\n" for name in FILES}


def texts(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.fixture
def run(tmp_path) -> Path:
    replace_files(tmp_path / "run", OLD)
    return tmp_path / "run"


def test_new_files_replace_old_ones(run):
    assert texts(run) == OLD
    replace_files(run, NEW)
    assert texts(run) == NEW


@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_all_old_files(run, monkeypatch, failing, error):
    move = Path.replace
    moved = []

    def replace(self, target):
        if self.parent.name == "new":
            moved.append(target)
            if len(moved) == failing + 1:
                raise error
        return move(self, target)

    before = {path.name: path.read_bytes() for path in run.iterdir()}
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(type(error)):
        replace_files(run, NEW)
    assert len(moved) == failing + 1
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_failure_leaves_no_directory_that_was_not_there(tmp_path, monkeypatch):
    def replace(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="No space"):
        replace_files(tmp_path / "run", NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_the_place_of_a_file_stops_everything(run):
    (run / FILES[2]).unlink()
    (run / FILES[2]).mkdir()
    with pytest.raises(OSError, match="directory"):
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
