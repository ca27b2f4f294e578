"""Many random networks at once: blocks of members, each a function of its own key.

Member i is drawn from ``fold_in(key, i)`` and always computed in the same place of a block of the same
size, so that its result depends neither on how many members there are nor on how they are grouped.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from finitewidth._base.checks import check_whole
from finitewidth._base.engines import DaskCluster
from finitewidth.networks.checkpoints import Directory, Results, Settings

Member = Callable[[PRNGKeyArray], dict[str, Array]]

# Trained at a thousand a second, so many take three hours; their mean is known to 1/3000 of their spread.
MOST_MEMBERS = 10_000_000
_CACHE_BYTES = 2**21
_LARGEST_BLOCK = 32


def block_size(bytes_each: int) -> int:
    """Members computed together: a power of two whose working memory fits the cache."""
    fitting = max(1, min(_LARGEST_BLOCK, _CACHE_BYTES // max(1, bytes_each)))
    return 2 ** (fitting.bit_length() - 1)


def check_members(name: str, size: int, least: int = 1) -> None:
    """Refuse a number of networks that nobody means, before anything is computed."""
    check_whole(name, size, least)
    if size > MOST_MEMBERS:
        raise ValueError(f"{name} must be at most {MOST_MEMBERS:,}, got {size:,}: so much work is not begun.")


def map_members(
    member: Member,
    key: PRNGKeyArray,
    size: int,
    bytes_each: int,
    *,
    memory_limit: int = 2**30,
    directory: str | os.PathLike | None = None,
    settings: Settings | None = None,
    checkpoint_every: int | None = None,
    progress: bool = False,
    side_by_side: bool = True,
    finish: Callable[[Results], Results] = lambda results: results,
    scheduler: str | None = None,
) -> Results:
    """Results of `member` for `size` members, first axis the member.

    Members that factorise matrices must not run `side_by_side`: two programs that call LAPACK on batches can
    wait for each other for ever.

    With a `directory`, finished members are stored there every `checkpoint_every` members (rounded up to
    whole blocks) and read back instead of computed again. `finish` makes of the results of a block what is
    kept of them.

    With the address of a Dask `scheduler`, its workers compute the blocks, and this process stores them.
    """
    check_members("size", size)
    check_whole("memory_limit", memory_limit)
    block = block_size(bytes_each)
    if block * bytes_each > memory_limit:
        raise ValueError(
            f"memory_limit={memory_limit} bytes is too small: {block} networks at a time take about "
            f"{block * bytes_each} bytes."
        )
    store = None if directory is None else Directory(directory, {**(settings or {}), "block": block})
    done = {} if store is None else _by_block(store.read(), block)
    starts = range(0, size, block)
    missing = [start for start in starts if start not in done]
    per_file = max(1, -(-(checkpoint_every or 8 * block) // block))

    # The operations on a block are too small to be split among cores, so whole blocks are.
    cores = (os.cpu_count() or 1) if side_by_side else 1
    workers = max(1, min(cores, memory_limit // max(1, block * bytes_each)))
    with contextlib.ExitStack() as stack:
        if scheduler is None:
            pool = stack.enter_context(_workers(workers))
            compute = functools.partial(_computed, member=member, key=key, block=block)
            run = lambda piece: zip(piece, pool.map(compute, piece), strict=True)
        else:
            cluster = DaskCluster(scheduler)
            stack.callback(cluster.close)
            packed = _packed(member, key)
            run = lambda piece: cluster.map(_computed_there, piece, packed, block)
            per_file = max(per_file, 2 * cluster.count)
        advance = stack.enter_context(_bar(progress, size, min(size, block * len(done))))
        for piece in _pieces(missing, per_file, block):
            found = {}
            for start, result in run(piece):
                found[start] = finish(result)
                advance(block)
            done.update(found)
            if store is not None:
                store.write(piece[0], _joined([found[start] for start in piece]))
    return {name: values[:size] for name, values in _joined([done[start] for start in starts]).items()}


def _computed(start: int, member: Member, key: PRNGKeyArray, block: int) -> Results:
    return jax.tree.map(np.asarray, _block(member, key, jnp.asarray(start), block))


def _packed(member: Member, key: PRNGKeyArray) -> bytes:
    """A member and a key as they travel to workers; functions without a name travel too."""
    import cloudpickle

    return cloudpickle.dumps((member, jax.random.key_data(key), str(jax.random.key_impl(key))))


@functools.lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> tuple[Member, PRNGKeyArray]:
    """Once in each worker, so that its blocks share one compiled program."""
    import cloudpickle

    member, data, law = cloudpickle.loads(packed)
    return member, jax.random.wrap_key_data(data, impl=law)


def _computed_there(start: int, packed: bytes, block: int) -> tuple[int, Results]:
    member, key = _unpacked(packed)
    return start, _computed(start, member, key, block)


@contextlib.contextmanager
def _workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that an interruption does not wait for."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


@contextlib.contextmanager
def _bar(wanted: bool, total: int, completed: int) -> Iterator[Callable[[int], None]]:
    """Draw a bar on a terminal, if rich is there to draw it; yields what moves it on."""
    try:
        from rich import console, progress
    except ImportError:
        console = progress = None
    if not wanted or console is None or progress is None:
        yield lambda count: None
        return
    terminal = console.Console(stderr=True)
    with progress.Progress(console=terminal, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("networks", total=total, completed=completed)
        yield lambda count: bar.advance(task, count)


@eqx.filter_jit
def _block(member: Member, key: PRNGKeyArray, start: Int[Array, ""], size: int) -> dict[str, Array]:
    indices = start + jnp.arange(size)
    return jax.vmap(lambda i: member(jax.random.fold_in(key, i)))(indices)


def _pieces(missing: list[int], per_file: int, block: int) -> Iterator[list[int]]:
    """Runs of consecutive blocks, at most `per_file` long."""
    piece: list[int] = []
    for start in missing:
        if piece and (len(piece) == per_file or start != piece[-1] + block):
            yield piece
            piece = []
        piece.append(start)
    if piece:
        yield piece


def _by_block(stored: dict[int, Results], block: int) -> dict[int, Results]:
    blocks = {}
    for first, results in stored.items():
        for offset in range(0, len(next(iter(results.values()))), block):
            blocks[first + offset] = {
                name: values[offset : offset + block] for name, values in results.items()
            }
    return blocks


def _joined(results: list[Results]) -> Results:
    return {name: np.concatenate([r[name] for r in results]) for name in results[0]}
