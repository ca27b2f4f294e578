"""Whole predictions with covariance, side by side with neural-tangents.

`python benchmarks/predict.py` lets both programs predict the same test points in turns, from inputs to
mean and covariance, prints the ratios and the time of each stage, and stores the table of the run in
`benchmarks/README.md`.
"""

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

import machine
import numpy as np
from peers import peer_python
from turns import Contestant, show_seconds, take_turns

_README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- predict: begin -->", "<!-- predict: end -->"
_FEATURES, _GOAL = 64, 5


def data(folder, train, test, dtype):
    """Standard normal inputs and a noisy target, stored where both contestants read them."""
    rng = np.random.default_rng(0)
    x, x_test = (rng.normal(size=(n, _FEATURES)) for n in (train, test))
    y = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(train, 1))
    path = Path(folder) / f"{train}-{dtype}.npz"
    np.savez(path, **{name: a.astype(dtype) for name, a in {"x": x, "y": y, "x_test": x_test}.items()})
    return str(path)


def compare(folder, options, dtype):
    """Rows of the table against the peer as documented and with its kernel compiled, and the stages."""
    job = {"depth": options.depth, "data": data(folder, options.train, options.test, dtype)}
    peer = peer_python("neural-tangents")
    with (
        Contestant(sys.executable, "own_predict.py") as ours,
        Contestant(peer, "peer_predict.py") as documented,
        Contestant(peer, "peer_predict.py") as compiled,
    ):
        ours.ask("prepare", **job)
        documented.ask("prepare", **job, compiled=False)
        compiled.ask("prepare", **job, compiled=True)
        contestants = (ours, documented, compiled)
        laws = [first_law(contestant, folder) for contestant in contestants]
        timings = take_turns(*contestants, turns=options.turns)
        stages = [ours.ask("stages") for _ in range(options.turns)]
        memory = [contestant.ask("memory") / 2**30 for contestant in contestants]
        versions = [contestant.ask("versions") for contestant in (ours, compiled)]
    rows = []
    for i, name in ((1, "as documented"), (2, "kernel compiled")):
        ratio = timings[i].median / timings[0].median
        verdict = "met" if ratio >= _GOAL else "missed"
        rows.append(
            f"| {dtype}, peer {name} | {timings[0]} | {timings[i]} | {ratio:.1f}x | {_GOAL}x {verdict} "
            f"| {memory[0]:.1f} GB against {memory[i]:.1f} GB | agree to {distance(laws[0], laws[i]):.0e} |"
        )
    typical = {name: statistics.median(s[name] for s in stages) for name in stages[0]}
    line = f"- Stages in {dtype}: " + ", ".join(f"{n} {show_seconds(s)}" for n, s in typical.items()) + "."
    return rows, line, versions


def first_law(contestant, folder):
    """What the contestant predicts; this run also compiles."""
    path = str(Path(folder) / "result.npz")
    contestant.ask("run")
    contestant.ask("save", path=path)
    with np.load(path) as arrays:
        return {name: np.squeeze(arrays[name].astype(float)) for name in ("mean", "covariance")}


def distance(one, other):
    """Largest difference of means and covariances, in units of their largest entry."""
    return max(np.abs(one[name] - other[name]).max() / np.abs(other[name]).max() for name in one)


def store(lines):
    """Put the lines between the markers of the README."""
    text = _README.read_text()
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    _README.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dry", action="store_true", help="print only, leave the README alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [compare(folder, options, dtype) for dtype in ("float64", "float32")]
    used = "; against ".join(", ".join(f"{k} {v}" for k, v in side.items()) for side in runs[0][2])
    lines = [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}; {used}.",
        f"{options.train:,} training points, {options.test:,} test points, ReLU, depth {options.depth}. "
        f"Load average {os.getloadavg()[1]:.1f}. Times are medians (fastest to slowest).",
        "",
        "| | finitewidth | neural-tangents | ratio | goal | peak memory | |",
        "|---|---|---|---|---|---|---|",
        *(row for rows, _, _ in runs for row in rows),
        "",
        *(line for _, line, _ in runs),
    ]
    print("\n".join(lines))
    if not options.dry:
        store(lines)


if __name__ == "__main__":
    main()
