"""Compiled programs of a process that lives long.

Every program that JAX compiles occupies several memory maps, and Linux allows a process only so many
(65,530 unless told otherwise). The compiler does not survive running out of them, so a process that
compiles thousands of programs has to let go of those it has used.
"""

import gc
from pathlib import Path

import jax

_MAPS = Path("/proc/self/maps")
_MOST_MAPS = Path("/proc/sys/vm/max_map_count")


def memory_maps() -> int | None:
    """Number of memory maps of this process; None where the system does not tell."""
    if not _MAPS.exists():
        return None
    with _MAPS.open("rb") as maps:
        return sum(1 for _ in maps)


def release_programs(share: float = 0.3) -> bool:
    """Forget all compiled programs if their process uses more than a share of its memory maps.

    Programs that are needed again are compiled again. Returns whether anything was forgotten.
    """
    used = memory_maps()
    if used is None or not _MOST_MAPS.exists() or used < share * int(_MOST_MAPS.read_text()):
        return False
    jax.clear_caches()
    gc.collect()
    return True
