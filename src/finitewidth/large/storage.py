"""Kernel matrices written to disk without ever being whole in memory."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from finitewidth._base.whole_files import naming, scratch_folder
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import settings_of
from finitewidth.large.tiles import KernelTile, kernel_tiles

_NAMES = ("nngp", "ntk")


def write_kernels(
    path: Path,
    net: Layer,
    x1: np.ndarray,
    x2: np.ndarray | None = None,
    *,
    tolerance: float | None = None,
    on_tile: Callable[[KernelTile], None] = lambda _: None,
) -> None:
    """Write `kernels(net, x1, x2)` to an uncompressed .npz file with entries nngp, ntk, settings.

    Tiles go to scratch files beside `path`, which are packed and renamed at the end: an interrupted
    run leaves nothing behind. `on_tile` is called after each tile.
    """
    shape = (len(x1), len(x1 if x2 is None else x2))
    dtype = np.dtype(np.float32 if x1.dtype == np.float32 else np.float64)
    _check_space(path, 4 * shape[0] * shape[1] * dtype.itemsize)
    with naming(path), scratch_folder(path.parent) as scratch:
        files = {name: scratch / f"{name}.npy" for name in _NAMES}
        for file in files.values():
            np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)
            _reserve(file)
        for tile in kernel_tiles(net, x1, x2, tolerance=tolerance):
            for name in _NAMES:
                # Mapped anew for each tile, so that written pages leave this process's memory.
                matrix = np.lib.format.open_memmap(files[name], mode="r+")
                block = getattr(tile, name)
                matrix[tile.rows, tile.columns] = block
                if x2 is None:
                    matrix[tile.columns, tile.rows] = block.T
                del matrix
            on_tile(tile)
        np.save(scratch / "settings.npy", np.array(json.dumps(settings_of(net))))
        packed = scratch / "kernels.npz"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in (*files.values(), scratch / "settings.npy"):
                archive.write(file, file.name)
        os.replace(packed, path)


def _reserve(file: Path) -> None:
    """Take the room of a file on its disk: a mapped page for which there is none would end the process."""
    with file.open("r+b") as opened:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)


def _check_space(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise OSError(
            f"writing {path.name} needs {needed / 1e9:.2g} GB of scratch space in {path.parent}, "
            f"only {free / 1e9:.2g} GB are free."
        )
