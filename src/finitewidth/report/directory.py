"""The directory of a study: its files are those of one run, whatever interrupts the writing.

They are written into a folder beside it, which then takes its name at once. A directory that holds files of
somebody else, or that cannot be renamed, gets the new files one by one after all old ones are gone. A process
that is killed in between leaves some files of one run, never a mixture; the next run puts the old ones back.
"""

import contextlib
import ctypes
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from finitewidth._base.whole_files import KEPT, naming, only_folder, sweep

PREDICTIONS, SUMMARY, REPORT = FILES = ("predictions.csv", "summary.json", "report.html")

Write = Callable[[Mapping[str, str]], None]

# In the scratch folder: the new files; the old ones when all is done; the mark that all old ones are there.
_NEW, _DONE, _ALL = "new", "done", "all"
# Of Linux: names are relative to the working directory; two names are exchanged.
_HERE, _EXCHANGE = -100, 2


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
    _refuse_folders(directory)
    found = [name for name in FILES if os.path.lexists(directory / name)]
    if found and not force:
        raise ValueError(
            f"{directory} already holds another run ({', '.join(found)}): choose another --out, "
            "or add --force to replace it."
        )


@contextlib.contextmanager
def held_directory(directory: Path, force: bool) -> Iterator[Write]:
    """Keep other runs away from a directory; what it gives writes the files of this run, all or none."""
    with _held(directory) as write:
        # Another run may have written while this one waited for its data.
        check_directory(directory, force)
        yield write


def replace_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write the files of one run; a failure or an interruption leaves what was there before."""
    with _held(directory) as write:
        write(texts)


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[Write]:
    real = directory.resolve()
    _refuse_folders(directory)
    beside = not real.exists() or (os.access(real.parent, os.W_OK | os.X_OK) and not os.path.ismount(real))
    parent = real.parent if beside else real
    sweep(parent)
    with contextlib.ExitStack() as stack:
        try:
            with naming(directory):
                scratch = stack.enter_context(only_folder(parent, _token(real), mode=0o700))
        except BlockingIOError:
            raise ValueError(
                f"another run is writing to {directory}: wait for it, or choose another --out."
            ) from None
        _put_back(scratch, real)
        for rest in scratch.iterdir():
            shutil.rmtree(rest)

        def write(texts: Mapping[str, str]) -> None:
            with naming(directory):
                _write(scratch / _NEW, texts)
                if not _renamed(scratch / _NEW, real):
                    _one_by_one(scratch, real, texts)

        yield write


def _refuse_folders(directory: Path) -> None:
    for path in (directory / name for name in FILES):
        if path.is_dir():
            raise ValueError(f"{path} is a directory; move it away or choose another --out.")


def _token(directory: Path) -> str:
    return hashlib.sha256(os.fsencode(directory.name)).hexdigest()[:16]


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in texts.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def _renamed(new: Path, directory: Path) -> bool:
    """Give a folder the name of the directory at once; False where the directory has to stay what it is."""
    if not directory.exists():
        new.rename(directory)
        return True
    ours, theirs = new.stat(), directory.stat()
    if (
        {entry.name for entry in directory.iterdir()} - set(FILES)
        or (ours.st_dev, ours.st_uid, ours.st_gid) != (theirs.st_dev, theirs.st_uid, theirs.st_gid)
        or directory in (Path.cwd(), *Path.cwd().parents)
    ):
        return False
    shutil.copymode(directory, new)
    return _exchanged(new, directory)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders exchange their names, where the system can do that in one step."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    names = os.fsencode(one), os.fsencode(other)
    return exchange is not None and exchange(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0


def _one_by_one(scratch: Path, directory: Path, names: Mapping[str, str]) -> None:
    """Move all old files aside, then the new ones in."""
    try:
        (scratch / KEPT).mkdir()
        _move(FILES, directory, scratch / KEPT)
        (scratch / KEPT / _ALL).touch()
        _move(names, scratch / _NEW, directory)
        (scratch / KEPT).rename(scratch / _DONE)
    except BaseException:
        _put_back(scratch, directory)
        raise


def _put_back(scratch: Path, directory: Path) -> None:
    """Undo what `_one_by_one` did before it was stopped; this may be stopped, too, and done again."""
    kept = scratch / KEPT
    if (kept / _ALL).exists():
        _move(FILES, directory, scratch / _NEW)
        (kept / _ALL).unlink()
    if kept.exists():
        _move(FILES, kept, directory)
        kept.rmdir()


def _move(names: Iterable[str], source: Path, target: Path) -> None:
    for name in names:
        if os.path.lexists(source / name):
            (source / name).replace(target / name)
