"""All linear regions of a square: time against cells and neurons, and against regioncam.

    python benchmarks/regions.py

Networks are drawn with weights of variance 2/n and biases of variance 0.1; the square has half-side 3. Times
are CPU seconds of one thread, the fastest of three runs, so that a busy machine counts little.
"""

import itertools
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from peers import peer_python
from threadpoolctl import threadpool_limits

from finitewidth.course.linear_regions.networks.relu_regions import relu_gates, relu_program
from finitewidth.measure import regions

NETWORKS = {
    "3x16": (16,) * 3,
    "3x32": (32,) * 3,
    "3x64": (64,) * 3,
    "3x128": (128,) * 3,
    "8x32": (32,) * 8,
    "2x256": (256,) * 2,
}
HALF_SIDE, TURNS = 3.0, 3
PLANE = regions.as_plane([0.0, 0.0], np.eye(2), HALF_SIDE)


def drawn(hidden):
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=(m, n)) * np.sqrt(2 / n), np.sqrt(0.1) * rng.normal(size=m))
        for n, m in itertools.pairwise((2, *hidden, 1))
    ]


def own(layers):
    program, seconds = relu_program(layers), []
    for _ in range(TURNS):
        start = time.process_time()
        found = regions.plane_regions(program, PLANE)
        seconds.append(time.process_time() - start)
    assert abs(found.areas.sum() / (2 * HALF_SIDE) ** 2 - 1) < 1e-12
    wrong = int((relu_gates(layers, found.centroids) != found.patterns).any(axis=1).sum())
    return found.number, min(seconds), wrong


def peer(layers, folder):
    path = Path(folder) / "network.npz"
    parts = {
        f"{name}{i}": part for i, layer in enumerate(layers) for name, part in zip("wb", layer, strict=True)
    }
    np.savez(path, layers=len(layers), half_side=HALF_SIDE, **parts)
    script = Path(__file__).with_name("peer_regions.py")
    command = [peer_python("regioncam"), script, path]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return answer["cells"], answer["seconds"]


def line_seconds(hidden):
    layers = [(np.asarray(w)[:, :1] if i == 0 else w, b) for i, (w, b) in enumerate(drawn(hidden))]
    program = relu_program(layers)
    seconds = []
    for _ in range(TURNS):
        start = time.process_time()
        found = regions.line_regions(program, [0.0], [1.0], whole=True)
        seconds.append(time.process_time() - start)
    return found.number, min(seconds)


def main():
    rows = []
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        for name, hidden in NETWORKS.items():
            layers = drawn(hidden)
            cells, seconds, wrong = own(layers)
            peer_cells, peer_seconds = peer(layers, folder)
            rows.append((sum(hidden), cells, seconds))
            print(
                f"| {name} | {sum(hidden)} | {cells:,} | {seconds:.3f} s | {peer_seconds:.3f} s | "
                f"{peer_cells:,} | {wrong} |",
                flush=True,
            )
        neurons, cells, seconds = np.log(np.array(rows)).T
        print(f"time ~ cells^{np.polyfit(cells, seconds, 1)[0]:.2f}")
        print(f"time ~ neurons^{np.polyfit(neurons, seconds, 1)[0]:.2f}")
        print(f"cells ~ neurons^{np.polyfit(neurons, cells, 1)[0]:.2f}")
        for name, hidden in (("3x1000", (1000,) * 3), ("10x40", (40,) * 10)):
            intervals, taken = line_seconds(hidden)
            print(f"whole line, {name}: {intervals:,} intervals in {taken:.3f} s")


if __name__ == "__main__":
    main()
