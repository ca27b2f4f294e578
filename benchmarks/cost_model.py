"""What tiles on a cluster cost: fitted to runs with one and two workers, simulated to a thousand.

    python benchmarks/cost_model.py                    # measures, fits and simulates
    python benchmarks/cost_model.py --bandwidth 2e9    # another bandwidth of the shared directory

A task is a tile: the scheduler hands it out (one at a time), a worker computes it, and writes both kernels
to a directory that all share (one file system, whose bandwidth they divide among them). Costs are CPU seconds
of the processes, so that other work on the machine does not count.
"""

import heapq
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scale import cluster, cpu_of, relu_network, standardised

from finitewidth._base.engines import DaskCluster

SIZES, TILES = (512, 1024, 2048), 21
WORKERS = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)


class Costs(NamedTuple):
    """Seconds for each pair of rows, for each task in the worker and in the scheduler; bytes per second."""

    pair: float
    task: float
    dispatch: float
    bandwidth: float


def measured(count: int, folder: Path) -> tuple[list[tuple[int, float]], float]:
    """Sizes of tiles with CPU seconds in a worker for one of each; and CPU seconds to hand a task out."""
    import finitewidth as fw

    found, net = [], relu_network()
    with cluster(count, folder) as (address, processes):
        for size in SIZES:
            x, _ = standardised(6 * size)
            fw.large.gram(net, x[: 2 * size], folder / f"warm-{count}-{size}", tile=size, scheduler=address)
            before = [cpu_of(process) for process in processes]
            fw.large.gram(net, x, folder / f"k-{count}-{size}", tile=size, scheduler=address)
            spent = [cpu_of(process) - at for process, at in zip(processes, before, strict=True)]
            found.append((size, sum(spent[1:]) / TILES))
            print(f"| {count} | {size} | {1e3 * found[-1][1]:.0f} ms |", flush=True)
        return found, _dispatch(address, processes[0])


def _dispatch(address: str, scheduler: subprocess.Popen) -> float:
    """CPU seconds that the scheduler or the client, whichever is slower, spends on a task without work."""
    with DaskCluster(address) as engine:
        list(engine.map(abs, range(200)))
        before, own = cpu_of(scheduler), time.process_time()
        list(engine.map(abs, range(2000)))
        return max(cpu_of(scheduler) - before, time.process_time() - own) / 2000


def write_bandwidth(folder: Path) -> float:
    """Bytes per second that this disk takes from one writer, with fsync."""
    block, started = np.random.default_rng(0).bytes(2**26), time.perf_counter()
    with (folder / "block").open("wb") as file:
        for _ in range(8):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return 8 * len(block) / (time.perf_counter() - started)


def fitted(runs: list[tuple[int, float]], dispatch: float, bandwidth: float) -> Costs:
    """Least squares, relative: worker seconds of a tile = task + pair * size^2."""
    size, seconds = np.array(runs).T
    design = np.stack([size**2, np.ones_like(size)], axis=1) / seconds[:, None]
    pair, task = np.linalg.lstsq(design, np.ones_like(seconds))[0]
    error = np.abs(design @ [pair, task] - 1).max()
    print(f"fit: {1e9 * pair:.1f} ns a pair + {1e3 * task:.1f} ms a task, off by at most {100 * error:.0f} %")
    return Costs(pair, max(task, 0.0), dispatch, bandwidth)


def simulated(costs: Costs, rows: int, workers: int, size: int = 2048, itemsize: int = 4) -> float:
    """Seconds until all tiles of both kernels are written, event by event."""
    count = -(-rows // size)
    tiles, volume = count * (count + 1) // 2, 2 * itemsize * size**2
    free = [0.0] * min(workers, tiles)
    scheduler = disk = end = 0.0
    for _ in range(tiles):
        scheduler = max(scheduler, heapq.heappop(free)) + costs.dispatch
        computed = scheduler + costs.task + costs.pair * size**2
        disk = max(disk, computed) + volume / costs.bandwidth
        heapq.heappush(free, disk)
        end = max(end, disk)
    return end


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("| workers | tile | CPU in the worker, a tile |\n|---|---|---|")
        (one, first), (two, second) = (measured(count, folder) for count in (1, 2))
        given = [float(b) for a, b in zip(sys.argv, sys.argv[1:], strict=False) if a == "--bandwidth"]
        bandwidth = given[0] if given else write_bandwidth(folder)
    costs = fitted(one + two, max(first, second), bandwidth)
    print(f"dispatch {1e3 * costs.dispatch:.1f} ms a task, disk {bandwidth / 1e9:.2f} GB/s")
    for shared in (bandwidth, 10 * bandwidth, np.inf):
        name = "no bound by the disk" if np.isinf(shared) else f"{shared / 1e9:.2f} GB/s"
        print(
            f"\n{name}\n| workers | 60,000 rows | efficiency | 1,000,000 rows | efficiency |"
            "\n|---|---|---|---|---|"
        )
        alone = {}
        for workers in WORKERS:
            cells = []
            for rows in (60_000, 1_000_000):
                seconds = simulated(costs._replace(bandwidth=shared), rows, workers)
                alone.setdefault(rows, seconds)
                cells += [f"{seconds:,.0f} s", f"{alone[rows] / seconds / workers:.2f}"]
            print(f"| {workers:,} | {' | '.join(cells)} |")
    tile = costs.task + costs.pair * 2048**2
    print(f"\nthe scheduler keeps {tile / costs.dispatch:,.0f} workers busy", end="; ")
    print(f"a disk of {bandwidth / 1e9:.2f} GB/s keeps {tile * bandwidth / (8 * 2048**2):,.1f}")


if __name__ == "__main__":
    main()
