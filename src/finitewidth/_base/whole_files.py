"""Files that are either complete or absent, whatever interrupts the writing."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Open a binary file that gets its name, and replaces an older file, only when it is complete."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
