"""Kernels larger than memory: tiles, streamed to disk."""

from finitewidth.scale.storage import write_kernels
from finitewidth.scale.tiles import KernelTile, kernel_tiles

__all__ = ["KernelTile", "kernel_tiles", "write_kernels"]
