"""Compiled programs: kept on disk between runs, and let go when one process holds too many.

Compilation takes nine tenths of the time of a small job. JAX can keep what it compiles in a directory;
`keep_programs` chooses one in the user's cache directory, for the command line and for the tests. Users of
the library decide for themselves (the environment variable JAX_COMPILATION_CACHE_DIR).

Every program occupies about three memory maps of its process, and Linux allows 65,530 of them. A process
that runs out while it writes a program to disk is aborted by the compiler, so one that compiles
thousands of programs has to call `release_programs` now and then. A program also occupies one to two
megabytes, which the C library keeps after the program is forgotten unless it is told to return them.
"""

import ctypes
import gc
import hashlib
import math
import os
import platform
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_MOST_MAPS = Path("/proc/sys/vm/max_map_count")
_PAGES = Path("/proc/self/statm")
_CPU = Path("/proc/cpuinfo")
_MOST_BYTES = 2 * 2**30


def memory_maps() -> int | None:
    """Number of memory maps of this process; None where the system does not tell."""
    if not _MAPS.exists():
        return None
    with _MAPS.open("rb") as maps:
        return sum(1 for _ in maps)


def resident_bytes() -> int | None:
    """Bytes of memory that this process occupies; None where the system does not tell."""
    if not _PAGES.exists():
        return None
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def release_programs(share: float = 0.3, most_bytes: float = math.inf) -> bool:
    """Forget all compiled programs if their process uses too many memory maps or too much memory.

    Programs that are needed again are compiled again, or read from the directory of `keep_programs`.

    Parameters
    ----------
    share
        Of the memory maps that Linux allows.
    most_bytes
        Of memory that the whole process may occupy.

    Returns
    -------
    Whether anything was forgotten.
    """
    used, occupied = memory_maps(), resident_bytes()
    crowded = used is not None and _MOST_MAPS.exists() and used >= share * int(_MOST_MAPS.read_text())
    if not crowded and not (occupied is not None and occupied >= most_bytes):
        return False
    import jax

    jax.clear_caches()
    gc.collect()
    _return_memory()
    return True


def _return_memory() -> None:
    """Give freed memory back to the system, where the C library can (glibc)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def keep_programs(say: Callable[[str], None], most_bytes: int = _MOST_BYTES) -> Path | None:
    """Let JAX keep compiled programs on disk; call it before the first one is compiled.

    Parameters
    ----------
    say
        Called with one sentence when the directory cannot be used or holds damaged programs.
    most_bytes
        The programs that were not used for longest are deleted beyond this size.

    Returns
    -------
    The directory, or None where the user has chosen (JAX_COMPILATION_CACHE_DIR) or none can be used.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    directory = _directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
        _prune(directory, most_bytes)
    except OSError:
        usable = False
    if not usable:
        say(f"compiled programs cannot be kept in {directory}: it is not a directory to write to.")
        return None
    settings = {
        "jax_compilation_cache_dir": str(directory),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    # JAX reads the environment when it is imported; so do the processes started from here.
    os.environ.update({name.upper(): str(value) for name, value in settings.items()})
    if "jax" in sys.modules:
        import jax

        for name, value in settings.items():
            jax.config.update(name, value)
    _delete_damaged(directory, say)
    return directory


def _directory() -> Path:
    """A directory for this processor and this JAX: machine code does not run on every other processor."""
    flags = next((line for line in _lines(_CPU) if line.startswith(("flags", "Features"))), "")
    machine = "\n".join([platform.machine(), platform.processor(), flags, metadata.version("jaxlib")])
    name = hashlib.sha256(machine.encode()).hexdigest()[:12]
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "finitewidth" / f"programs-{name}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _prune(directory: Path, most_bytes: int) -> None:
    """Delete the files that were not used for longest, until the rest fits into half of the limit."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            known = entry.stat()
            found.append((max(known.st_atime, known.st_mtime), known.st_size, entry.path))
    if sum(size for _, size, _ in found) <= most_bytes:
        return
    kept = 0
    for _, size, path in sorted(found, reverse=True):
        kept += size
        if kept > most_bytes / 2:
            # Another process may have deleted it already.
            Path(path).unlink(missing_ok=True)


def _delete_damaged(directory: Path, say: Callable[[str], None]) -> None:
    """Delete all programs when JAX warns about one of them, and say so once."""
    show = warnings.showwarning
    told = False

    def showwarning(message, category, filename, lineno, file=None, line=None):
        nonlocal told
        if "persistent compilation cache entry" not in str(message):
            show(message, category, filename, lineno, file, line)
        elif not told:
            told = True
            _prune(directory, -1)
            say(f"damaged programs in {directory} were deleted; they are compiled again.")

    warnings.showwarning = showwarning
