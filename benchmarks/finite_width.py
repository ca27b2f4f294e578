"""Cost of the 1/width coefficient of the trained mean: against an ensemble, and its growth.

`python benchmarks/finite_width.py` computes the coefficient by sampled neurons at several sizes, each in a
process of its own so that its memory can be told, times the training of real networks, and stores the table
of the run in `benchmarks/README.md`. Run it on a quiet machine.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import machine
import numpy as np

_README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- finite width: begin -->", "<!-- finite width: end -->"
_FEATURES, _GOAL = 10, 1000


def data(train, test):
    """Standard normal inputs and a smooth target without noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(train + test, _FEATURES))
    first, second = rng.normal(size=(2, _FEATURES)) / np.sqrt(_FEATURES)
    y = 2 * np.sin(x @ first) + np.cos(2 * x @ second)
    return x[:train], y[:train], x[train:]


def network(depth, width):
    import finitewidth as fw

    return fw.MLP((width,) * (depth - 1), "tanh", C_b=0.1, C_W=1.3, lambda_b=0.1, lambda_W=1.0)


def coefficient(train, test, depth, error, most):
    """One coefficient: seconds, memory, its size and its standard error."""
    import finitewidth as fw

    x, y, x_test = data(train, test)
    start = time.perf_counter()
    method = fw.SampledNeurons(error, most_samples=most, covariance_error=None)
    law = fw.predict(network(depth, 10**9), x, y, x_test, fw.GradientFlow(), order=1, method=method)
    seconds = time.perf_counter() - start
    size = lambda a: float(np.sqrt(np.mean(np.square(np.asarray(a) * 1e9))))
    return {
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "coefficient": size(law.mean_correction),
        "error": size(law.mean_correction_error),
        "samples": law.first_order.samples,
    }


def ensemble(train, test, depth, width, pairs):
    """Seconds per trained network, and the scatter of width times its outputs after the best pairing."""
    import jax

    import finitewidth as fw

    x, y, x_test = (a.astype(np.float32) for a in data(train, test))
    net = network(depth, width)
    t = np.linalg.eigvalsh(np.asarray(fw.kernels(net, x.astype(float)).ntk))
    eta = float(0.5 / t[-1])
    steps = int(np.ceil(np.log(1e-2) / np.log(1 - eta * t[0])))
    run = lambda key: fw.paired_ensemble(
        net, jax.random.key(key), pairs, x, y, x_test, steps=steps, learning_rate=eta, linear_size=2
    )
    run(0)
    start = time.perf_counter()
    trained = run(1)
    seconds = (time.perf_counter() - start) / pairs
    scatter = width * np.sqrt(np.mean(trained.nonlinear.sem**2) * pairs)
    return {"seconds": seconds, "scatter": float(scatter), "steps": steps}


def apart(name, *arguments):
    """Call one of the functions above in a fresh process."""
    command = [sys.executable, __file__, "--call", name, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def exponent(sizes, values):
    """Slope of log value against log size."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def growth(name, sizes, runs):
    """One line on how time and memory grow."""
    seconds, memory = [r["seconds"] for r in runs], [r["megabytes"] for r in runs]
    points = ", ".join(
        f"{s:,}: {r['seconds']:.1f} s, {r['megabytes']:.0f} MB, {r['error'] / r['coefficient']:.1%}"
        for s, r in zip(sizes, runs, strict=True)
    )
    powers = f"time ~ size^{exponent(sizes, seconds):.2f}, memory ~ size^{exponent(sizes, memory):.2f}"
    return f"- {name}: {powers} ({points})"


def report(options):
    """All lines of the table."""
    n, t, most = options.train, options.test, options.most_samples
    target = {depth: apart("coefficient", n, t, depth, options.error, most) for depth in (3, 4)}
    rows = [
        f"| depth {depth} | {r['seconds']:.0f} s | {r['megabytes']:.0f} MB | {r['coefficient']:.1f} | "
        f"{r['error'] / r['coefficient']:.1%} | {r['samples']:,} |"
        for depth, r in target.items()
    ]
    small = options.ensemble
    ours = apart("coefficient", small, small // 2, 3, options.error, most)
    theirs = apart("ensemble", small, small // 2, 3, options.width, options.pairs)
    needed = (theirs["scatter"] / ours["error"]) ** 2
    ratio = needed * theirs["seconds"] / ours["seconds"]
    sizes, counts = [n // 4, n // 2, n], [most // 100, most // 30, most // 10]
    fixed = lambda size, depth, count: apart("coefficient", size, size // 3, depth, 1e-9, count)
    return [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}. "
        f"Load average {os.getloadavg()[1]:.1f}.",
        f"{n} training and {t} test points, tanh, gradient flow, asked for {options.error:.0%}:",
        "",
        "| | time | peak memory | rms coefficient | standard error | samples |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"- Against an ensemble ({small} training points, depth 3): {ours['seconds']:.1f} s for a standard "
        f"error of {ours['error']:.2g}. Networks of width {options.width} take "
        f"{theirs['seconds'] * 1e3:.0f} ms a pair ({theirs['steps']} steps) and {needed:,.0f} pairs for the "
        f"same error: {ratio:,.0f}x (goal {_GOAL:,}x {'met' if ratio >= _GOAL else 'missed'}).",
        growth(f"N (depth 3, {counts[0]:,} samples)", sizes, [fixed(s, 3, counts[0]) for s in sizes]),
        growth(f"depth (N = {n // 2})", [2, 3, 4, 6], [fixed(n // 2, d, counts[0]) for d in (2, 3, 4, 6)]),
        growth(f"samples (N = {n // 2}, depth 3)", counts, [fixed(n // 2, 3, c) for c in counts]),
    ]


def store(lines):
    """Put the lines between the markers of the README."""
    before, rest = _README.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    _README.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=300)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--error", type=float, default=0.03)
    parser.add_argument("--most-samples", type=int, default=4_000_000)
    parser.add_argument("--ensemble", type=int, default=20, help="training points of the ensemble")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--dry", action="store_true", help="print only, leave the README alone")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        name, arguments = options.call
        print(json.dumps(globals()[name](*json.loads(arguments))))
        return
    lines = report(options)
    print("\n".join(lines))
    if not options.dry:
        store(lines)


if __name__ == "__main__":
    main()
