"""The directory of a study: its three files are replaced together or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

PREDICTIONS, SUMMARY, REPORT = FILES = ("predictions.csv", "summary.json", "report.html")


def check_directory(directory: Path, force: bool) -> None:
    """Refuse a directory that holds another run, or a path that cannot become one."""
    parent = directory.absolute().parent
    if directory.is_symlink() and not directory.exists():
        raise ValueError(f"--out {directory} is a broken symbolic link; remove it or name another directory.")
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"--out {directory} is a file; name a directory.")
    if not directory.exists() and not parent.is_dir():
        raise ValueError(f"the folder {directory.parent} of --out {directory} does not exist.")
    if not os.access(directory if directory.exists() else parent, os.W_OK | os.X_OK):
        raise ValueError(f"--out {directory} may not be written to.")
    for path in (directory / name for name in FILES):
        if path.is_dir():
            raise ValueError(f"{path} is a directory; move it away or choose another --out.")
    found = [name for name in FILES if os.path.lexists(directory / name)]
    if found and not force:
        raise ValueError(
            f"{directory} already holds another run ({', '.join(found)}): choose another --out, "
            "or add --force to replace it."
        )


def replace_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write several files of one directory; a failure or an interruption leaves what was there before.

    Every name holds a whole file at any moment. The old files are copied first, and put back unless all the
    new ones arrive.
    """
    made = not directory.exists()
    directory.mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".unfinished-") as scratch:
            new, old = Path(scratch) / "new", Path(scratch) / "old"
            new.mkdir()
            old.mkdir()
            for name, text in texts.items():
                (new / name).write_text(text, encoding="utf-8")
                if os.path.lexists(directory / name):
                    shutil.copy2(directory / name, old / name, follow_symlinks=False)
            _move(texts, new, old, directory)
    except BaseException:
        if made:
            directory.rmdir()
        raise


def _move(names: Mapping[str, str], new: Path, old: Path, directory: Path) -> None:
    moved: list[str] = []
    try:
        for name in names:
            moved.append(name)
            (new / name).replace(directory / name)
    except BaseException:
        for name in moved:
            if os.path.lexists(old / name):
                (old / name).replace(directory / name)
            elif not (new / name).exists():
                (directory / name).unlink()
        raise
