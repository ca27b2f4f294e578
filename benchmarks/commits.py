"""Kernels of two commits, in turns: `python benchmarks/commits.py COMMIT [COMMIT]`.

Each commit (the second is the working tree, unless named) runs in a process of its own with the same
interpreter. A turn is one call in each, so that another load on the machine meets both alike; the table has
medians of CPU seconds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "ReLU, depth 10, N = 2,000, float32": ("relu", 9, 2000, "float32"),
    "ReLU, depth 30, N = 1,000, float64": ("relu", 29, 1000, "float64"),
    "tanh, depth 4, N = 1,000, float32": ("tanh", 3, 1000, "float32"),
    "tanh, depth 4, N = 500, float64": ("tanh", 3, 500, "float64"),
    "GELU, depth 24, N = 500, float64": ("gelu", 23, 500, "float64"),
}
WORKER = """
import json, sys, time
import jax, numpy as np
import finitewidth as fw
def run(activation, hidden, n, dtype):
    x = np.random.default_rng(0).normal(size=(n, 20)).astype(dtype)
    net = fw.MLP((64,) * hidden, activation, 0.1, 1.5)
    start = time.process_time()
    jax.block_until_ready(fw.kernels(net, x))
    return time.process_time() - start
for line in sys.stdin:
    print(json.dumps(run(*json.loads(line))), flush=True)
"""


def worker(source: Path) -> subprocess.Popen:
    """A process that times one call of `kernels` for every line it reads."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKER], env=os.environ | {"PYTHONPATH": str(source / "src")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def ask(process: subprocess.Popen, case: tuple) -> float:
    """CPU seconds of one call."""
    process.stdin.write(json.dumps(case) + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def checked_out(commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder of their own."""
    target = folder / commit
    target.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive, check=True)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="+", help="one or two; the second is the working tree by default")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trees = [checked_out(commit, Path(folder)) for commit in options.commits[:2]]
        pair = [worker(tree) for tree in [*trees, ROOT][:2]]
        print("| kernels | first call, CPU s | later calls, CPU s | later, ratio |\n|---|---|---|---|")
        for name, case in CASES.items():
            first = [ask(process, case) for process in pair]
            turns = [[ask(process, case) for process in pair] for _ in range(options.turns)]
            later = [statistics.median(column) for column in zip(*turns, strict=True)]
            ratio = statistics.median(new / old for old, new in turns)
            cells = [" / ".join(f"{value:.3f}" for value in values) for values in (first, later)]
            print(f"| {name} | {cells[0]} | {cells[1]} | {ratio:.3f} |", flush=True)
        for process in pair:
            process.stdin.close()
            process.wait()


if __name__ == "__main__":
    main()
