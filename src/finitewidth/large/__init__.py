"""Kernels larger than memory: tiles, streamed to disk, on the threads of one machine or on many machines."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.large.gram import Gram, StoredKernel, gram
    from finitewidth.large.storage import write_kernels
    from finitewidth.large.store import DamagedTileError
    from finitewidth.large.tiles import KernelTile, kernel_tiles

__all__, __getattr__ = exports(__name__, __file__)
