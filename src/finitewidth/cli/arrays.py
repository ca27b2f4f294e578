"""Arrays and output files named on the command line."""

from pathlib import Path

import numpy as np


def load_array(path: Path) -> np.ndarray:
    """A two-dimensional array of numbers from a .npy file or a .csv file."""
    if not path.exists():
        raise ValueError(f"{path} does not exist.")
    if path.is_dir():
        raise ValueError(f"{path} is a directory, not an array file.")
    try:
        if path.suffix == ".csv":
            array = np.atleast_2d(np.genfromtxt(path, delimiter=",", skip_header=_has_header(path)))
        else:
            array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError):
        raise ValueError(f"{path} is not an array of numbers in .npy or .csv form.") from None
    if not isinstance(array, np.ndarray):
        names = ", ".join(array.files)
        raise ValueError(f"{path} holds several arrays ({names}); save the inputs alone as .npy.")
    if not np.issubdtype(array.dtype, np.number):
        raise ValueError(f"{path} holds {array.dtype} values, not numbers.")
    return array


def _has_header(path: Path) -> int:
    with path.open() as file:
        first = file.readline().split(",")
    try:
        [float(cell) for cell in first]
    except ValueError:
        return 1
    return 0


def check_output(path: Path, force: bool) -> Path:
    """Refuse an output that exists already or whose folder does not."""
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of the output {path.name} does not exist.")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already; choose another --out, or add --force to replace it.")
    return path
