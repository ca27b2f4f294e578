"""Output files named on the command line."""

import os
from collections.abc import Sequence
from pathlib import Path


def check_output(path: Path, force: bool, option: str = "--out", inputs: Sequence[Path] = ()) -> Path:
    """Refuse an output that exists already, or that could not be written when the work is done."""
    folder = path.absolute().parent
    if any(path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise ValueError(f"{option} {path} is the input; choose another name.")
    if path.is_dir():
        raise ValueError(f"{option} {path} is a directory; name a file.")
    if not folder.is_dir():
        wrong = "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"the folder {path.parent} of {option} {path} {wrong}.")
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{option} {path} is a broken symbolic link; remove it or choose another name.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{option} {path} is not an ordinary file; choose another name.")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already; choose another {option}, or add --force to replace it.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"the folder {folder} of {option} {path} may not be written to.")
    return path


def check_folder(path: Path, option: str = "--out") -> Path:
    """Refuse a folder for results that cannot be made or written to; its parents are made as needed."""
    existing = path.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    if existing.is_symlink() and not existing.exists():
        raise ValueError(f"{option} {path}: {existing} is a broken symbolic link.")
    if not existing.is_dir():
        raise ValueError(f"{option} {path}: {existing} is a file, not a directory.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{option} {path}: {existing} may not be written to.")
    return path
