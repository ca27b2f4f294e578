"""Kernels of residual, normalised, convolutional and attention networks, side by side with neural-tangents.

`python benchmarks/architectures.py` installs the peer, lets both programs compute the same networks in turns,
and prints a table. Both get the networks as the same plain data. Times are CPU seconds of the whole process,
which other programs on the machine hardly change, and seconds on the clock beside them. `--growth` runs this
library alone, on growing inputs.
"""

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import machine
import numpy as np
from peers import peer_python
from turns import Contestant, Timing, show_seconds


class Job(NamedTuple):
    """One network and its inputs; `shape` is that of one input."""

    name: str
    points: int
    shape: tuple
    spec: list
    goal: float


def dense(C_W=1.0, C_b=0.0):
    return {"layer": "Dense", "C_W": C_W, "C_b": C_b}


def activation(name):
    return {"layer": "Activation", "name": name}


def residual(beta, *body):
    return {"layer": "Residual", "alpha": 1.0, "beta": beta, "body": list(body), "shortcut": []}


def repeated(times, *body):
    return {"layer": "Repeat", "times": times, "body": list(body)}


def residual_mlp(name, blocks, norm=False):
    """A dense layer, residual blocks with branches of 1/sqrt(blocks), and a readout."""
    before = [{"layer": "LayerNorm"}] if norm else []
    block = residual(blocks**-0.5, *before, activation(name), dense(2.0))
    return [dense(), repeated(blocks, block), activation(name), dense()]


def conv(C_W=2.0, C_b=0.1):
    return {"layer": "Conv", "filter": [3, 3], "strides": [1, 1], "padding": "SAME", "C_W": C_W, "C_b": C_b}


def conv_net(head):
    """Three convolutions with ReLU, positions averaged or flattened, and a readout."""
    return [*[conv(), activation("relu")] * 3, {"layer": head}, dense()]


def attention_block():
    """A pre-norm block: attention, then two dense layers with GELU; the mean token is read."""
    attention = {"layer": "Attention", "kind": "softmax", "scaling": "linear", "C_QK": 1.0, "C_OV": 1.0}
    norm = {"layer": "LayerNorm"}
    return [
        dense(),
        residual(1.0, norm, {**attention, "C_b": 0.0}),
        residual(1.0, norm, dense(2.0, 0.1), activation("gelu"), dense(1.0, 0.1)),
        norm,
        {"layer": "GlobalAvgPool"},
        dense(),
    ]


JOBS = [
    Job("residual MLP, ReLU, 20 blocks", 1000, (32,), residual_mlp("relu", 20), 25),
    Job("residual MLP, GELU, 20 blocks", 1000, (32,), residual_mlp("gelu", 20), 15),
    Job("residual MLP, GELU, 20 blocks, pre-norm", 1000, (32,), residual_mlp("gelu", 20, norm=True), 15),
    Job("convolutions, 8 x 8, flattened", 100, (8, 8, 3), conv_net("Flatten"), 8),
    Job("convolutions, 8 x 8, pooled", 30, (8, 8, 3), conv_net("GlobalAvgPool"), 25),
    Job("attention block, 16 tokens", 50, (16, 8), attention_block(), 11),
]


class Row(NamedTuple):
    """One comparison; CPU seconds, clock seconds and the seconds of the first call."""

    job: Job
    ours: Timing
    theirs: Timing
    ours_clock: Timing
    theirs_clock: Timing
    first: tuple
    apart: float


def compare(ours, theirs, job, folder, turns):
    """Let both run one job in turns."""
    path = Path(folder) / "inputs.npy"
    np.save(path, np.random.default_rng(0).normal(size=(job.points, *job.shape)))
    both = (ours, theirs)
    for contestant in both:
        contestant.ask("prepare", spec=job.spec, x=str(path))
    first = tuple(contestant.ask("run")["clock"] for contestant in both)
    runs = [[contestant.ask("run") for contestant in both] for _ in range(turns)]
    cpu = [Timing(tuple(run[i]["cpu"] for run in runs)) for i in (0, 1)]
    clock = [Timing(tuple(run[i]["clock"] for run in runs)) for i in (0, 1)]
    row = Row(job, *cpu, *clock, first, apart(ours, theirs, folder))
    print(f"{job.name}: {cpu[1].median / cpu[0].median:,.1f}x", file=sys.stderr, flush=True)
    return row


def apart(ours, theirs, folder):
    """Largest difference of both kernels in units of their largest entry."""
    found = []
    for contestant in (ours, theirs):
        path = str(Path(folder) / "result.npz")
        contestant.ask("save", path=path)
        with np.load(path) as arrays:
            found.append([arrays["nngp"], arrays["ntk"]])
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(*found, strict=True))


def table(rows):
    """The comparison in Markdown."""
    lines = [
        "| network (float64) | points | finitewidth | neural-tangents | ratio of CPU | of fastest "
        "| on the clock | goal | first call | differ by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = row.theirs.median / row.ours.median
        fastest = row.theirs.fastest / row.ours.fastest
        clock = statistics.median(row.theirs_clock.seconds) / statistics.median(row.ours_clock.seconds)
        verdict = "met" if ratio >= row.job.goal else "missed"
        calls = " / ".join(map(show_seconds, row.first))
        cells = (
            row.job.name, row.job.points, row.ours, row.theirs, f"{ratio:.1f}x",
            f"{fastest:.1f}x", f"{clock:.1f}x", f"{row.job.goal}x {verdict}", calls, f"{row.apart:.0e}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


class Growth(NamedTuple):
    """One network on growing inputs; `work` counts the entries of all layers with an activation."""

    name: str
    varied: str
    sizes: tuple
    jobs: list
    work: tuple


def growths():
    """Networks whose points or positions grow."""
    pairs = lambda n: n * (n + 1) // 2
    points, sides, tokens = (500, 1000, 2000), (4, 8, 12), (8, 16, 32)
    relu, flat = residual_mlp("relu", 20), conv_net("Flatten")
    pooled, attention = conv_net("GlobalAvgPool"), attention_block()
    squares = tuple(side**2 for side in sides)
    return [
        Growth("residual MLP, ReLU, 20 blocks", "points", points,
               [Job("", n, (32,), relu, 0) for n in points], tuple(21 * pairs(n) for n in points)),
        Growth("convolutions, 8 x 8, flattened", "points", (50, 100, 200),
               [Job("", n, (8, 8, 3), flat, 0) for n in (50, 100, 200)],
               tuple(3 * 64 * pairs(n) for n in (50, 100, 200))),
        Growth("convolutions, 30 points, pooled", "positions", squares,
               [Job("", 30, (side, side, 3), pooled, 0) for side in sides],
               tuple(3 * p**2 * pairs(30) for p in squares)),
        Growth("attention block, 50 points", "tokens", tokens,
               [Job("", 50, (t, 8), attention, 0) for t in tokens],
               tuple(t**2 * pairs(50) for t in tokens)),
    ]  # fmt: skip


def fastest(ours, job, folder, turns):
    """CPU seconds of the fastest of several runs."""
    path = Path(folder) / "inputs.npy"
    np.save(path, np.random.default_rng(0).normal(size=(job.points, *job.shape)))
    ours.ask("prepare", spec=job.spec, x=str(path))
    return min([ours.ask("run")["cpu"] for _ in range(turns + 1)][1:])


def growth_table(ours, folder, turns):
    """How CPU time grows, and its distance to one polynomial and one root per entry and layer."""
    limit = ours.ask("limit")
    lines = [
        f"One polynomial of degree 22 and one root take {1e9 * limit:.2f} ns an entry.",
        "",
        "| network (float64) | growing | fastest CPU times | time ~ size^ "
        "| ns per entry and layer | times the limit |",
        "|---|---|---|---|---|---|",
    ]
    for growth in growths():
        seconds = [fastest(ours, job, folder, turns) for job in growth.jobs]
        power = np.polyfit(np.log(growth.sizes), np.log(seconds), 1)[0]
        each = [s / work for s, work in zip(seconds, growth.work, strict=True)]
        cells = (
            growth.name,
            f"{growth.varied} {', '.join(map(str, growth.sizes))}",
            ", ".join(map(show_seconds, seconds)),
            f"{power:.2f}",
            ", ".join(f"{1e9 * e:.1f}" for e in each),
            f"{each[-1] / limit:.1f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7, help="turns of each contestant")
    parser.add_argument("--only", default="", help="jobs whose name contains this")
    parser.add_argument("--growth", action="store_true", help="growth of this library's time instead")
    options = parser.parse_args()
    if options.growth:
        with (
            tempfile.TemporaryDirectory() as folder,
            Contestant(sys.executable, "own_architectures.py") as ours,
        ):
            lines = growth_table(ours, folder, options.turns)
        print(f"{datetime.date.today()}, {machine.description()}; load average {os.getloadavg()[1]:.1f}.")
        print("\n".join(lines))
        return
    jobs = [job for job in JOBS if options.only in job.name]
    if not jobs:
        parser.error(f"no job is called {options.only!r}; there are {', '.join(job.name for job in JOBS)}")
    python = peer_python("neural-tangents")
    with (
        tempfile.TemporaryDirectory() as folder,
        Contestant(sys.executable, "own_architectures.py") as ours,
        Contestant(python, "peer_architectures.py") as theirs,
    ):
        versions = [ours.ask("versions"), theirs.ask("versions")]
        rows = [compare(ours, theirs, job, folder, options.turns) for job in jobs]
    used = "; against ".join(", ".join(f"{k} {v}" for k, v in side.items()) for side in versions)
    lines = [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}; {used}.",
        f"Load average {os.getloadavg()[1]:.1f}. Times are medians (fastest to slowest) in CPU seconds.",
        "",
        *table(rows),
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
