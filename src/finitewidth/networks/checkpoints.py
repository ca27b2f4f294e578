"""A directory that keeps the finished members of an ensemble, and the settings they belong to."""

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array

from finitewidth._base.whole_files import whole_file

Settings = dict[str, Any]
Results = dict[str, np.ndarray]

_SETTINGS = "settings.json"


def digest(array: np.ndarray | Array) -> str:
    """Shape, type and a hash of the contents of an array."""
    array = np.ascontiguousarray(array)
    return f"{array.dtype}{list(array.shape)} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


class Directory:
    """Finished members of one ensemble on disk.

    A process that dies at any moment leaves either a whole file or none.
    """

    def __init__(self, path: str | os.PathLike, settings: Settings):
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        known = self.path / _SETTINGS
        if known.exists():
            _refuse_other(self.path, _settings(known), json.loads(json.dumps(settings)))
        elif any(self.path.glob("*.npz")):
            raise ValueError(f"{self.path} holds results but no {_SETTINGS}: choose an empty directory.")
        else:
            with whole_file(known) as file:
                file.write(json.dumps(settings, indent=2).encode())

    def read(self) -> dict[int, Results]:
        """The first member's index of every stored piece, and the piece."""
        return {int(file.stem.split("-")[1]): _load(file) for file in sorted(self.path.glob("members-*.npz"))}

    def write(self, start: int, results: Results) -> None:
        """Store a piece that begins with member `start`."""
        with whole_file(self.path / f"members-{start:08d}.npz") as file:
            np.savez(file, allow_pickle=False, **results)


def _settings(file: Path) -> Settings:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ValueError(
            f"{file} is damaged and does not say what is stored beside it: use another directory."
        )
    return stored


def _load(file: Path) -> Results:
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return dict(stored)
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f"{file} is damaged ({error}): delete it and run again.") from None


def _refuse_other(path: Path, stored: Settings, asked: Settings) -> None:
    differing = [name for name in {**stored, **asked} if stored.get(name) != asked.get(name)]
    if differing:
        name = differing[0]
        others = f" (and {len(differing) - 1} more: {', '.join(differing[1:])})" if differing[1:] else ""
        raise ValueError(
            f"{path} belongs to another ensemble: its {name} is {stored.get(name)!r}, this one's is "
            f"{asked.get(name)!r}{others}. Choose another directory."
        )
