"""Nearly-kernel predictions: growth of time and memory with the data, and the race against gradient descent.

`python benchmarks/nearly_kernel.py` predicts 100 test points from ever more training points, each size in
a process of its own, fits the exponents, then lets gradient descent on the weights of a quadratic model
run until it is as accurate as the formula. The table of the run is stored in `benchmarks/README.md`.
"""

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

import machine
import numpy as np
from turns import Contestant, Timing, show_seconds

_README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- nearly-kernel: begin -->", "<!-- nearly-kernel: end -->"
_TIME_GOAL, _MEMORY_GOAL, _RACE_GOAL = 3.2, 2.2, 50


def growth(sizes, test, turns):
    """Rows of the table over sizes, and both exponents."""
    rows, times, memories = [], [], []
    for train in sizes:
        with Contestant(sys.executable, "own_nearly_kernel.py") as process:
            process.ask("prepare", train=train, test=test)
            process.ask("run")
            timing = Timing(tuple(process.ask("run") for _ in range(turns)))
            memory = float(np.median([process.ask("memory") for _ in range(turns)]))
        times.append(timing.median)
        memories.append(memory)
        stored = 8 * train**2 * (train + 2 * test) / 2**20
        rows.append(f"| {train:,} | {timing} | {memory / 2**20:.1f} MB | {stored:,.0f} MB |")
    return rows, exponent(sizes, times), exponent(sizes, memories)


def exponent(sizes, values):
    """Fitted power of the size."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def race(options):
    """The formula against gradient descent, on a hidden layer in its quadratic approximation."""
    setting = {
        "train": options.race, "test": options.test, "neurons": options.neurons,
        "ridge": options.ridge, "epsilon": options.epsilon,
    }  # fmt: skip
    with Contestant(sys.executable, "own_nearly_kernel.py") as process:
        process.ask("layer", **setting)
        process.ask("formula")
        formula = Timing(tuple(process.ask("formula") for _ in range(options.turns)))
        descent = process.ask("descend", most=options.most)
        return formula, descent, process.ask("versions")


def verdict(met):
    return "met" if met else "missed"


def store(lines):
    """Put the lines between the markers of the README."""
    text = _README.read_text()
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    _README.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 400, 700, 1000])
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--race", type=int, default=300, help="training points of the race")
    parser.add_argument("--neurons", type=int, default=256)
    parser.add_argument(
        "--ridge", type=float, default=1e-3, help="in units of the mean diagonal of the kernel"
    )
    parser.add_argument("--epsilon", type=float, default=0.01)
    parser.add_argument("--most", type=int, default=2_000_000, help="steps after which descent gives up")
    parser.add_argument("--dry", action="store_true", help="print only, leave the README alone")
    options = parser.parse_args()
    rows, time_power, memory_power = growth(options.sizes, options.test, options.turns)
    formula, descent, used = race(options)
    ratio = descent["seconds"] / formula.median
    ended = "" if descent["finished"] else f"; descent had not settled after {options.most:,} steps"
    lines = [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}; "
        + ", ".join(f"{name} {version}" for name, version in used.items())
        + f". Load average {os.getloadavg()[1]:.1f}. Times are medians (fastest to slowest).",
        "",
        f"| training points | time, {options.test} test points | memory beside arguments | meta kernels |",
        "|---|---|---|---|",
        *rows,
        "",
        f"- time ~ N^{time_power:.2f}, goal at most {_TIME_GOAL}: {verdict(time_power <= _TIME_GOAL)}; "
        f"memory ~ N^{memory_power:.2f}, goal at most {_MEMORY_GOAL}: "
        f"{verdict(memory_power <= _MEMORY_GOAL)}.",
        f"- Hidden layer of {options.neurons} neurons to second order, epsilon = {options.epsilon:g}, N = "
        f"{options.race}: {formula} from inputs to predictions by the formula; gradient descent on the "
        f"weights takes {descent['steps']:,} steps and {show_seconds(descent['seconds'])} to come as close, "
        f"{descent['error']:.1e} of {descent['scale']:.2g}{ended}: {ratio:.0f}x, goal {_RACE_GOAL}x "
        f"{verdict(ratio >= _RACE_GOAL)}.",
    ]
    print("\n".join(lines))
    if not options.dry:
        store(lines)


if __name__ == "__main__":
    main()
