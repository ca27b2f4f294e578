"""Files and folders that are either complete or absent, whatever interrupts the writing.

What is being written is called `.finitewidth-TOKEN.unfinished`, and its process holds a lock on it that goes
with the process, however that ends. What nobody holds was left behind by a process that was killed: the next
one that writes into the same folder removes it.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

# In a folder: older files that were moved aside; it stays for whoever holds it next.
KEPT = "before"

_UNFINISHED = re.compile(r"\.finitewidth-\w{1,40}\.unfinished")
# Whoever sweeps holds a lock for a moment.
_PATIENCE = 1.0


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Open a binary file that gets its name, and replaces an older file, only when it is complete."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not an ordinary file; choose another name.")
    sweep(path.parent)
    place = _place(path.parent, uuid.uuid4().hex)
    with naming(path):
        number = _held(place, lambda: os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        try:
            with open(number, "wb") as file:
                yield file
                file.flush()
                os.fsync(number)
                place.replace(path)
        except BaseException:
            place.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder for as long as the block lasts, in `parent` or where the system keeps such things."""
    parent = Path(tempfile.gettempdir() if parent is None else parent)
    sweep(parent)
    with only_folder(parent, uuid.uuid4().hex, mode=0o700) as place:
        yield place


@contextlib.contextmanager
def only_folder(parent: Path, token: str, mode: int = 0o777) -> Iterator[Path]:
    """A folder for as long as the block lasts, which one process at a time can hold.

    It may have contents: what a process that was killed left in it. Raises BlockingIOError while another
    process holds it.
    """
    place = _place(parent, token)

    def opened() -> int:
        place.mkdir(mode, exist_ok=True)
        return os.open(place, os.O_RDONLY | os.O_CLOEXEC)

    number = _held(place, opened)
    try:
        yield place
    finally:
        if not (place / KEPT).exists():
            shutil.rmtree(place, ignore_errors=True)
        os.close(number)


def sweep(folder: Path) -> None:
    """Remove what processes that were killed left half written in a folder, as far as this process may."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _UNFINISHED.fullmatch(entry.name) and not entry.is_symlink():
                _remove_abandoned(Path(entry.path))


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was to be written: a full disk knows no names."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and (error.filename is None or _UNFINISHED.search(str(error.filename))):
            error.filename = str(path)
        raise


def _place(folder: Path, token: str) -> Path:
    return folder / f".finitewidth-{token}.unfinished"


def _held(place: Path, opened: Callable[[], int]) -> int:
    """Make and open what is at a place, until this process is the one that holds it."""
    end = time.monotonic() + _PATIENCE
    while True:
        number = opened()
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between making and locking it may have been swept away.
            if place.exists() and os.path.samestat(os.fstat(number), place.stat()):
                return number
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(number)
                raise
            time.sleep(0.02)
        except OSError:
            # A file system without locks: nobody is kept away, and nothing is swept.
            return number
        os.close(number)


def _remove_abandoned(place: Path) -> None:
    with contextlib.suppress(OSError):
        number = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not place.is_dir():
                place.unlink()
            elif not (place / KEPT).exists():
                shutil.rmtree(place)
        finally:
            os.close(number)
