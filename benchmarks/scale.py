"""Beyond one machine's memory: tiles, workers, iterations, and a command on 60,000 images.

Each part runs by its name, all of them without one:

    python benchmarks/scale.py tiles        # time per tile against the product over features alone
    python benchmarks/scale.py workers      # a cluster of two workers over one, the kernel program compiled
    python benchmarks/scale.py iterations   # sweeps against rows, with and without the preconditioner
    python benchmarks/scale.py memory       # a bound on the memory, and what was used
    python benchmarks/scale.py library      # `fw.predict` on all of Fashion-MNIST
    python benchmarks/scale.py fashion      # `finitewidth predict` on all of Fashion-MNIST
    python benchmarks/scale.py sizes        # the same on 500, 5,000 and 20,000 images
    python benchmarks/scale.py tables       # the same on tables of 500, 2,000 and 5,000 training rows

Fashion-MNIST comes from Debian's package dataset-fashion-mnist, which is installed with apt if it is missing.
Times are CPU seconds of the process and its threads, unless they say wall.
"""

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path("/usr/share/datasets/fashion-mnist")
HIDDEN, SEED = 3, 0


def images(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (rows, 784) and labels of the part "train" or "t10k"."""
    if not DATA.exists():
        subprocess.run(["apt-get", "install", "-y", "-qq", "dataset-fashion-mnist"], check=True)
    pixels, labels = (
        np.frombuffer(gzip.decompress((DATA / f"{part}-{name}-ubyte.gz").read_bytes()), np.uint8, offset=skip)
        for name, skip in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return pixels.reshape(-1, 784).astype(np.float32), labels


def standardised(rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    x, labels = images("train")
    x = (x - x.mean(axis=0)) / x.std()
    return x[:rows], labels[:rows]


def relu_network():
    import finitewidth as fw

    return fw.MLP((1,) * HIDDEN, "relu")


def tiles() -> None:
    """One tile of both kernels, its product over features alone, and all with the store."""
    import jax

    import finitewidth as fw
    from finitewidth.large.store import Tile
    from finitewidth.large.tile_program import KernelProgram

    x, _ = standardised(8192)
    net, size = relu_network(), 2048
    program = KernelProgram.of(net, x, size)
    alone = jax.jit(lambda a, b: a @ b.T)
    a, b = jax.numpy.asarray(x[:size]), jax.numpy.asarray(x[size : 2 * size])
    contestants = {
        "tile program": lambda: jax.block_until_ready(program.tile(Tile(0, 1))),
        "product over 784 features alone": lambda: jax.block_until_ready(alone(a, b)),
    }
    for run in contestants.values():
        run()
    for name, run in contestants.items():
        print(f"{name}: {_cpu(run, 6) / size**2 * 1e9:.1f} ns per pair")
    with tempfile.TemporaryDirectory() as folder:
        seconds = _cpu(lambda: fw.large.gram(net, x, Path(folder) / f"k{time.time_ns()}"), 1)
    print(f"with Zarr's files and checksums: {seconds / (10 * size**2) * 1e9:.1f} ns per pair (10 tiles)")


def _cpu(run, turns: int) -> float:
    started = time.process_time()
    for _ in range(turns):
        run()
    return (time.process_time() - started) / turns


@contextmanager
def cluster(count: int, folder: Path):
    """A scheduler and `count` workers of one thread, each a process: the address, and the processes."""
    file = folder / f"scheduler-{count}.json"
    command = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    shared = ["--scheduler-file", str(file), "--no-dashboard"]
    single = os.environ | {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    processes = [
        subprocess.Popen([*command, "scheduler", "--host", "127.0.0.1", "--port", "0", *shared], **quiet)
    ]
    try:
        while not file.exists():
            time.sleep(0.1)
        processes += [
            subprocess.Popen(
                [*command, "worker", "--nthreads", "1", "--no-nanny", *shared], env=single, **quiet
            )
            for _ in range(count)
        ]
        address = json.loads(file.read_text())["address"]
        _wait_for_workers(address, count)
        yield address, processes
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def _wait_for_workers(address: str, count: int) -> None:
    from finitewidth._base.engines import DaskCluster

    while True:
        with DaskCluster(address, 60) as engine:
            if engine.count >= count:
                return
        time.sleep(0.5)


def cpu_of(process: subprocess.Popen) -> float:
    """CPU seconds of another process so far."""
    parts = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def workers() -> None:
    """The same store by one worker and by two, each with one thread, after a warm-up."""
    import finitewidth as fw

    x, _ = standardised(12288)
    walls, used = [], []
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder, cluster(count, Path(folder)) as (address, processes):
            net = relu_network()
            fw.large.gram(net, x[:4096], Path(folder) / "warm", scheduler=address)
            before = [cpu_of(process) for process in processes]
            started = time.perf_counter()
            fw.large.gram(net, x, Path(folder) / "k", scheduler=address)
            walls.append(time.perf_counter() - started)
            spent = [cpu_of(process) - at for process, at in zip(processes, before, strict=True)]
            used.append(sum(spent[1:]))
            print(
                f"{count} workers: {walls[-1]:.2f} s wall, {used[-1]:.2f} CPU s in workers, {spent[0]:.2f} "
                f"in the scheduler, for 21 tiles of 2048, both kernels (load {os.getloadavg()[0]:.0f})",
                flush=True,
            )
    print(
        f"efficiency of 2 over 1: {walls[0] / walls[1] / 2:.2f} by the clock, {used[0] / used[1]:.2f} by CPU"
    )


def iterations() -> None:
    """Sweeps to a true residual of 1e-3, ridge 1e-3 of the mean diagonal."""
    from finitewidth.large.solvers.pcg import conjugate_gradients
    from finitewidth.prediction.methods.large.system import LargeSystem

    print("| rows | rank | with | without |\n|---|---|---|---|")
    for rows in (2_500, 5_000, 10_000):
        x, labels = standardised(rows)
        y = np.eye(10)[labels] - 0.1
        net = relu_network()
        with LargeSystem(net, x, "ntk", 1.0, outputs=10, memory=4 * 10**9) as system:
            diagonal = float(np.mean(system.program.diagonal.ntk))
            system.ridge = 1e-3 * diagonal
            found = system.solve(y, np.full(10, 1e-3), "coefficients")
            plain = conjugate_gradients(system.product, y, lambda r: r, 1e-3, most=400)
        counts = [f"{run.iterations}{'' if run.converged else ', not converged'}" for run in (found, plain)]
        print(f"| {rows:,} | {system.rank:,} | {' | '.join(counts)} |", flush=True)


def memory() -> None:
    """A bound of 700 MB on 8,000 rows: anonymous memory of the process beyond what Python and JAX take."""
    import finitewidth as fw

    x, labels = standardised(8_000)
    y, net = np.eye(10)[labels] - 0.1, relu_network()
    fw.predict(net, x[:600], y[:600], x[:64], ridge=1.0, solver="iterative")
    before, most, ended = _anonymous(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            most[0] = max(most[0], _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    law = fw.predict(net, x, y, x[:64], ridge=1.0, solver="iterative", memory=700 * 10**6)
    ended.set()
    watcher.join()
    used = (most[0] - before) / 1e6
    print(f"bound 700 MB, rank {law.solve.rank}: {used:.0f} MB of anonymous memory beyond the start")


def _anonymous(process: int | str = "self") -> int:
    """Resident memory without the pages of files."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


class Spent(NamedTuple):
    """What a command took: seconds, and the most anonymous memory in bytes."""

    code: int
    wall: float
    cpu: float
    anonymous: int


def watched(words: list[str], **options) -> Spent:
    """Run a command and watch its memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process, most = subprocess.Popen(words, **options), 0
    while process.poll() is None:
        try:
            most = max(most, _anonymous(process.pid))
        except (FileNotFoundError, StopIteration):
            break
        time.sleep(0.02)
    code = process.wait()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(code, wall, used, most)


def command(rows: int | None = None) -> None:
    """The command on the first training images and 10,000 test images, with its anonymous memory watched."""
    folder = Path(tempfile.mkdtemp(prefix="fashion-"))
    for part, name, most in (("train", "train", rows), ("t10k", "test", None)):
        x, labels = images(part)
        np.savez(folder / f"{name}.npz", x=x[:most], y=labels[:most])
    words = [sys.executable, "-m", "finitewidth", "predict", str(folder / "train.npz"), "--test"]
    words += [str(folder / "test.npz"), "--activation", "relu", "--hidden", f"128x{HIDDEN}", "--order", "0"]
    words += ["--scale", "common", "--task", "classification", "--out", str(folder / "out"), *sys.argv[2:]]
    spent = watched(words)
    print(f"{spent.wall:.0f} s wall, {spent.cpu:.0f} CPU seconds, {spent.anonymous / 1e9:.2f} GB anonymous")
    if spent.code == 0:
        summary = json.loads((folder / "out" / "summary.json").read_text())
        if "solver" in summary:
            print(json.dumps(summary["solver"] | {"rows with variances": None, "variances": None}, indent=1))
        print("accuracy", summary["scores"]["accuracy"], "ridge", summary["training"]["ridge"], flush=True)
    shutil.rmtree(folder)


def fashion() -> None:
    """The command on all 60,000 images."""
    command()


def sizes() -> None:
    """The command on fewer images."""
    for rows in (500, 5_000, 20_000):
        print(f"{rows:,} rows", flush=True)
        command(rows)


def tables() -> None:
    """The command on tables of ten columns and a number to predict, a fifth more rows as a test.

    Each runs twice, so that its programs are compiled. Memory is that beyond the command of order 0 on 100
    rows, in float64 matrices of the training rows.
    """
    folder = Path(tempfile.mkdtemp(prefix="tables-"))
    rng = np.random.default_rng(SEED)
    words = [sys.executable, "-m", "finitewidth", "predict"]
    print("| training rows | options | wall, s | CPU s | memory, GB | matrices | load |")
    print("|---|---|---|---|---|---|---|")
    least = None
    for rows in (100, 500, 2_000, 5_000):
        for name, count in (("train", rows), ("test", rows // 5)):
            x = rng.normal(size=(count, 10))
            y = np.sin(x[:, 0] * x[:, 1]) + x[:, 2] + 0.3 * rng.normal(size=count)
            head = ",".join([*"abcdefghij", "y"])
            np.savetxt(
                folder / f"{name}.csv", np.c_[x, y], delimiter=",", header=head, comments="", fmt="%.9g"
            )
        files = [str(folder / "train.csv"), "--test", str(folder / "test.csv"), "--target", "y"]
        for options in (["--order", "0"], []):
            out = ["--out", str(folder / "out"), "--force", *options, *sys.argv[2:]]
            for _ in range(2):
                spent = watched([*words, *files, *out], stdout=subprocess.DEVNULL)
            least = least or spent.anonymous
            matrices = (spent.anonymous - least) / (8 * rows**2)
            print(
                f"| {rows:,} | {' '.join(options) or 'none'} | {spent.wall:.1f} | {spent.cpu:.1f} | "
                f"{spent.anonymous / 1e9:.2f} | {matrices:.1f} | {os.getloadavg()[0]:.1f} |",
                flush=True,
            )
    shutil.rmtree(folder)


def library(rows: int | None = None) -> None:
    """`fw.predict` on 60,000 images with a ridge of 1e-3 of the kernel's diagonal: the split of the time."""
    import finitewidth as fw

    pixels, _ = images("train")
    centre, unit = pixels.mean(axis=0), pixels.std()
    x, labels = standardised(rows)
    x_test, known = images("t10k")
    net = relu_network()
    ridge = 1e-3 * float(np.mean(fw.trajectory(net, x[:256]).ntk[-1]))
    started = time.perf_counter(), time.process_time()
    law = fw.predict(
        net, x, np.eye(10)[labels] - 0.1, (x_test - centre) / unit, ridge=ridge, solver="iterative"
    )
    wall, used = time.perf_counter() - started[0], time.process_time() - started[1]
    accuracy = float(np.mean(np.argmax(np.asarray(law.mean), axis=1) == known))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{len(x):,} rows: accuracy {accuracy:.4f}, {wall:.0f} s wall, {used:.0f} CPU s, "
        f"load {os.getloadavg()[0]:.0f}, peak {peak:.2f} GB with mapped tiles"
    )
    split = ", ".join(f"{name} {seconds:.0f}" for name, seconds in law.solve.cpu_seconds.items())
    solve = law.solve
    print(f"CPU s: {split}; {solve.iterations} sweeps, rank {solve.rank}, residual {solve.residual:.1g}")


def main() -> None:
    parts = {
        part.__name__: part for part in (tiles, workers, iterations, memory, library, fashion, sizes, tables)
    }
    for name in sys.argv[1:2] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
