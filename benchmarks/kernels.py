"""Kernels of infinitely wide networks, side by side with neural-tangents.

`python benchmarks/kernels.py` installs the peer, lets both programs run the same inputs in turns,
prints the ratios and stores the table of the run in `benchmarks/README.md`.
"""

import argparse
import datetime
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import converged
import machine
import numpy as np
from peers import peer_python
from turns import Contestant, Timing, show_seconds, take_turns

_README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- kernels: begin -->", "<!-- kernels: end -->"
_FEATURES = 32
_GOALS = {"ReLU, depth 10": 15, "ReLU, depth 30": 25, "tanh": 500, "first call, depth 30": 10}


class Row(NamedTuple):
    """One comparison."""

    name: str
    setting: str
    ours: Timing
    theirs: Timing
    note: str

    @property
    def ratio(self):
        return self.theirs.median / self.ours.median

    def report(self):
        """Say on standard error how far the run is, and return the row."""
        print(f"{self.name}, {self.setting}: {self.ratio:,.0f}x", file=sys.stderr, flush=True)
        return self


class Inputs:
    """Standard normal inputs, stored where both contestants read them."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def __call__(self, points, dtype):
        path = self._folder / f"{points}-{dtype}.npy"
        if not path.exists():
            x = np.random.default_rng(0).normal(size=(points, _FEATURES))
            np.save(path, x.astype(dtype))
        return str(path)

    def result(self, contestant):
        """What the contestant computed last."""
        path = self._folder / "result.npz"
        contestant.ask("save", path=str(path))
        with np.load(path) as arrays:
            return {name: arrays[name].astype(np.float64) for name in ("nngp", "ntk")}


def own():
    return Contestant(sys.executable, "own_kernels.py")


def peer():
    return Contestant(peer_python("neural-tangents"), "peer_kernels.py")


def error(found, truth, diagonal):
    """Largest error of both kernels in units of their largest entry, with or without the diagonal."""
    worst = 0.0
    for name in truth:
        deviation = np.abs(found[name] - truth[name])
        if not diagonal:
            np.fill_diagonal(deviation, 0)
        worst = max(worst, deviation.max() / np.abs(truth[name]).max())
    return worst


def compare_relu(ours, theirs, inputs, turns):
    """Rows for ReLU at 2,000 points in float32."""
    rows = []
    for depth in (10, 30):
        job = {"activation": "relu", "depth": depth, "C_W": 2.0, "x": inputs(2000, "float32")}
        for contestant in (ours, theirs):
            contestant.ask("prepare", **job)
            contestant.ask("run")
        mine, other = take_turns(ours, theirs, turns=turns)
        found, other_found = inputs.result(ours), inputs.result(theirs)
        apart = [error(other_found, found, diagonal) for diagonal in (False, True)]
        note = f"differ by {apart[0]:.0e} off the diagonal, {apart[1]:.0e} with it"
        rows.append(Row(f"ReLU, depth {depth}", "N = 2,000, float32", mine, other, note).report())
    return rows


def compare_first_call(inputs, turns):
    """The row for the first call of fresh processes: tracing, compiling and running."""
    job = {"activation": "relu", "depth": 30, "C_W": 2.0, "x": inputs(2000, "float32")}
    seconds = ([], [])
    for _ in range(turns):
        for start, own_seconds in zip((own, peer), seconds, strict=True):
            with start() as contestant:
                contestant.ask("prepare", **job)
                own_seconds.append(contestant.ask("run"))
    mine, other = (Timing(tuple(s)) for s in seconds)
    setting = "ReLU, N = 2,000, float32"
    return Row("first call, depth 30", setting, mine, other, "fresh processes").report()


def compare_tanh(ours, theirs, inputs, turns):
    """Rows for tanh, three hidden layers, 500 points, ours at least as accurate off the diagonal."""
    job = {"activation": "tanh", "depth": 4, "C_W": 1.0}
    ours.ask("prepare", **job, x=inputs(500, "float64"), tolerance=1e-13)
    ours.ask("run")
    truth = inputs.result(ours)
    check_converged(truth, np.load(inputs(500, "float64")), job["depth"], job["C_W"])
    rows = []
    for degree, dtype in ((25, "float32"), (25, "float64"), (50, "float32")):
        theirs.ask("prepare", **job, x=inputs(500, dtype), degree=degree)
        theirs.ask("run")
        found = inputs.result(theirs)
        allowed = error(found, truth, diagonal=False)
        tolerance, reached = loosest_tolerance(ours, inputs, job, dtype, truth, allowed)
        mine, other = take_turns(ours, theirs, turns=turns)
        note = (
            f"largest error {reached[True]:.0e} against {error(found, truth, diagonal=True):.0e}, "
            f"off the diagonal {reached[False]:.0e} against {allowed:.0e} "
            f"(tolerance {tolerance:.0e}, degree {degree})"
        )
        rows.append(Row("tanh", f"depth 4, N = 500, {dtype}", mine, other, note).report())
    return rows


def loosest_tolerance(ours, inputs, job, dtype, truth, allowed):
    """The loosest power of ten that is as accurate as `allowed` off the diagonal; leaves the job prepared."""
    for exponent in range(1, 13):
        ours.ask("prepare", **job, x=inputs(500, dtype), tolerance=10.0**-exponent)
        ours.ask("run")
        found = inputs.result(ours)
        reached = {diagonal: error(found, truth, diagonal) for diagonal in (False, True)}
        if reached[False] <= allowed:
            return 10.0**-exponent, reached
    raise RuntimeError(f"no tolerance reaches an error of {allowed:.1e} in {dtype}.")


def check_converged(truth, x, depth, C_W):
    """Compare the reference with an independent quadrature on a handful of pairs."""
    for a, b in ((0, 1), (2, 3), (7, 90), (123, 321), (4, 499)):
        for name, value in zip(("nngp", "ntk"), converged.tanh_pair(x[a], x[b], depth, C_W), strict=True):
            if not np.isclose(truth[name][a, b], value, rtol=0, atol=1e-11):
                raise RuntimeError(f"{name}[{a}, {b}] is {truth[name][a, b]}, quadrature says {value}.")


def distance_to_limit(ours, inputs, relu):
    """Lines on how close ReLU comes to the speed of plain loops on this machine."""
    peak, bandwidth = machine.flops_per_second("float32"), machine.bytes_per_second()
    per_pair = ours.ask("work_per_pair", activation="relu", dtype="float32")
    points = 2000
    lines = [
        f"Plain loops reach {peak / 1e9:.0f} GFLOP/s (float32, in cache) and {bandwidth / 1e9:.1f} GB/s "
        f"(copying 64 MB). One hidden layer costs {per_pair:.0f} operations per pair."
    ]
    for depth, timing in relu.items():
        flops = points * (points + 1) / 2 * (depth - 1) * per_pair
        size = 2 * points**2 * 4
        limit = max(flops / peak, size / bandwidth)
        bound = "arithmetic" if flops / peak > size / bandwidth else "memory"
        lines.append(
            f"ReLU depth {depth}: {flops / timing.fastest / 1e9:.0f} GFLOP/s, "
            f"{size / timing.fastest / 1e9:.2f} GB/s of output; the {bound} limit is {show_seconds(limit)}, "
            f"{limit / timing.fastest:.0%} of it is reached."
        )
    return lines


def growth(ours, inputs, turns):
    """Lines on how the time grows, as exponents of a log-log fit."""
    relu = {"activation": "relu", "C_W": 2.0}
    tanh = {"activation": "tanh", "C_W": 1.0, "depth": 4}
    series = {
        "N (ReLU, depth 10, float32)": [
            (n, {**relu, "depth": 10, "x": inputs(n, "float32")}) for n in (500, 1000, 2000, 4000)
        ],
        "depth (ReLU, N = 2,000, float32)": [
            (d, {**relu, "depth": d, "x": inputs(2000, "float32")}) for d in (5, 10, 20, 40, 80)
        ],
        "terms (tanh, depth 4, N = 1,000, float64)": [
            (t, {**tanh, "terms": t, "x": inputs(1000, "float64")}) for t in (32, 64, 128, 256, 512)
        ],
    }
    lines = []
    for name, jobs in series.items():
        timings = []
        for _, job in jobs:
            ours.ask("prepare", **job)
            ours.ask("run")
            timings.append(take_turns(ours, turns=turns)[0].fastest)
        sizes = [size for size, _ in jobs]
        exponent = np.polyfit(np.log(sizes), np.log(timings), 1)[0]
        steps = ", ".join(f"{s}: {show_seconds(t)}" for s, t in zip(sizes, timings, strict=True))
        lines.append(f"{name}: time ~ size^{exponent:.2f} ({steps})")
    return lines


def table(rows):
    """The comparison in Markdown."""
    lines = ["| | inputs | finitewidth | neural-tangents | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        goal = _GOALS[row.name]
        verdict = "met" if row.ratio >= goal else "missed"
        ratio = f"{row.ratio:,.0f}x"
        cells = (row.name, row.setting, row.ours, row.theirs, ratio, f"{goal}x {verdict}", row.note)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def store(lines):
    """Put the lines between the markers of the README."""
    text = _README.read_text()
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    _README.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=11, help="turns of each contestant for ReLU")
    parser.add_argument("--slow-turns", type=int, default=3, help="turns where the peer takes seconds")
    parser.add_argument("--dry", action="store_true", help="print only, leave the README alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, own() as ours, peer() as theirs:
        inputs = Inputs(folder)
        versions = [ours.ask("versions"), theirs.ask("versions")]
        rows = compare_relu(ours, theirs, inputs, options.turns)
        relu = {depth: row.ours for depth, row in zip((10, 30), rows, strict=True)}
        rows.append(compare_first_call(inputs, options.slow_turns))
        rows += compare_tanh(ours, theirs, inputs, options.slow_turns)
        notes = distance_to_limit(ours, inputs, relu) + growth(ours, inputs, options.turns)
    used = "; against ".join(", ".join(f"{k} {v}" for k, v in side.items()) for side in versions)
    lines = [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}; {used}.",
        f"Load average {os.getloadavg()[1]:.1f}. Times are medians (fastest to slowest).",
        "",
        *table(rows),
        "",
        *(f"- {note}" for note in notes),
    ]
    print("\n".join(lines))
    if not options.dry:
        store(lines)


if __name__ == "__main__":
    main()
