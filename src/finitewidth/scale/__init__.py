"""Kernels larger than memory: tiles, streamed to disk, on the threads of one machine or on many machines."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.scale.gram import Gram, StoredKernel, gram
    from finitewidth.scale.storage import write_kernels
    from finitewidth.scale.store import DamagedTileError
    from finitewidth.scale.tiles import KernelTile, kernel_tiles

__all__, __getattr__ = exports(__name__, __file__)
