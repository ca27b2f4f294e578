"""Curvature side by side with curvlinops and PyHessian: products, top eigenpairs, trace and density.

Run `python benchmarks/curvature.py`: a 784-784-480-10 ReLU network (997,050 parameters) after sixty steps of
gradient descent on 2,000 points in ten clusters, float32, mean cross-entropy. Every contestant is a process
of its own with one thread, and they take turns. CPU seconds are what counts: other load on the machine
changes wall time. The README gets the table unless `--dry` is given.
"""

import argparse
import datetime
import itertools
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
os.environ |= dict.fromkeys(ONE_THREAD, "1")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import machine
import numpy as np
from peers import peer_python
from turns import Contestant

from finitewidth import measure

WIDTHS = (784, 784, 480, 10)
COUNT, TOLERANCE = 10, 1e-3
PROBES, STEPS = 16, 20
# Of H v: two products at every layer and four more above the first, a multiplication and an addition each.
FLOPS = 2000 * (4 * 997_050 + 8 * (997_050 - 784 * 784 - 784))
_README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- curvature: begin -->", "<!-- curvature: end -->"


def shared_data(path, points=2000, steps=60, eta=0.5):
    """Ten clusters and a network that has learned them; returns the exact trace of its Hessian."""
    from own_curvature import apply

    rng = np.random.default_rng(0)
    centres, y = rng.normal(size=(10, WIDTHS[0])), rng.integers(0, 10, points)
    x = ((centres[y] + rng.normal(size=(points, WIDTHS[0]))) / 28).astype(np.float32)
    params = [
        ((rng.normal(size=(b, a)) * np.sqrt(2 / a)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in itertools.pairwise(WIDTHS)
    ]
    s = measure.specimen(apply, x, y, params=params)
    weights = s.weights
    for _ in range(steps):
        weights = weights - eta * s.at(weights).gradient()
    s = s.at(weights)
    arrays = {name: weights[place].reshape(shape) for name, (place, shape) in s.groups.items()}
    params = [(arrays[f"{l}.0"], arrays[f"{l}.1"]) for l in range(3)]
    stored = {
        f"{name}{l}": part for l, pair in enumerate(params) for name, part in zip("wb", pair, strict=True)
    }
    np.savez(path, x=x, y=y, **stored)
    return exact_trace(x, params)


def exact_trace(x, params):
    """tr H = tr G for a ReLU network, whose outputs are linear in each single weight."""
    signals, params = [x.astype(float)], [tuple(part.astype(float) for part in pair) for pair in params]
    for weight, bias in params:
        signals.append(
            np.maximum(signals[-1] @ weight.T + bias, 0)
            if len(signals) < 3
            else signals[-1] @ weight.T + bias
        )
    p = np.exp(signals[3] - signals[3].max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    total = 0.0
    for label in range(p.shape[1]):
        error = p - np.eye(p.shape[1])[label]
        for l in (2, 1, 0):
            lengths = np.sum(error**2, axis=1) * (1 + np.sum(signals[l] ** 2, axis=1))
            total += np.mean(p[:, label] * lengths)
            error = (error @ params[l][0]) * (signals[l] > 0)
    return total


def in_turns(contestants, turns, request, **arguments):
    """Answers of every contestant to one request, asked in turns."""
    answers = {name: [] for name in contestants}
    for _ in range(turns):
        for name, contestant in contestants.items():
            answers[name].append(contestant.ask(request, **arguments))
    return answers


def typical(answers, name="cpu"):
    return statistics.median(answer[name] for answer in answers)


def seconds(answers):
    return f"{typical(answers):.3g} s ({typical(answers, 'wall'):.3g} s)"


def compare(data, trace, turns):
    own, peer = ("own_curvature.py", sys.executable), ("peer_curvature.py", peer_python("curvature"))
    sides = {"jax": own, "torch": own, "curvlinops": peer, "pyhessian": peer}
    everyone = {name: Contestant(python, script) for name, (script, python) in sides.items()}
    lines = []

    def row(what, answers, note):
        cells = [seconds(answers[name]) if name in answers else "" for name in sides]
        lines.append(f"| {what} | {' | '.join(cells)} | {note} |")
        print(lines[-1], flush=True)

    for name, contestant in everyone.items():
        contestant.ask("prepare", data=data, library=name)
    products = in_turns(everyone, turns, "product", kind="hessian", repeats=5)
    rate = FLOPS / typical(products["jax"]) / 1e9
    spent = [everyone["jax"].ask("products_alone", repeats=5) for _ in range(turns)]
    alone = FLOPS / statistics.median(spent) / 1e9
    row(
        "H v",
        products,
        f"{rate:.0f} GFlop/s; its products of matrices alone {alone:.0f}, one in NumPy {gemm_rate():.0f}",
    )
    without = {name: everyone[name] for name in ("jax", "torch", "curvlinops")}
    row("G v", in_turns(without, turns, "product", kind="gauss-newton", repeats=5), "")

    top = in_turns(without, turns, "top", count=COUNT, tolerance=TOLERANCE)
    top |= in_turns({"pyhessian": everyone["pyhessian"]}, 1, "top", count=COUNT, tolerance=TOLERANCE)
    residuals = ", ".join(f"{max(a['residual'] for a in top[name]):.0e}" for name in sides)
    largest = ", ".join(f"{top[name][0]['values'][-1]:.4g}" for name in sides)
    used = top["jax"][0]["products"]
    row(
        f"top {COUNT}, tolerance 1e-3",
        top,
        f"worst relative residuals {residuals}; tenth eigenvalue {largest}; {used} products",
    )
    memory = {name: everyone[name].ask("memory") for name in sides}
    lines.append("| peak memory so far | " + " | ".join(f"{memory[n]:.0f} MB" for n in sides) + " | |")

    traces = [
        {
            name: everyone[name].ask("trace", probes=PROBES, outliers=COUNT, seed=seed)
            for name in ("jax", "torch")
        }
        for seed in range(turns)
    ]
    ours = {name: [answer[name] for answer in traces] for name in ("jax", "torch")}
    error = statistics.mean(answer["error"] for answer in ours["jax"])
    samples = everyone["pyhessian"].ask("trace", method="hutchinson", products=40)
    plain = everyone["curvlinops"].ask("trace", method="hutchinson", products=10)
    needed = 40 * (samples["error"] / error) ** 2
    scaled = {
        "curvlinops": [{unit: plain[unit] / 10 * needed for unit in ("cpu", "wall")}],
        "pyhessian": [{unit: samples[unit] / 40 * needed for unit in ("cpu", "wall")}],
    }
    off = _rms([answer["value"] - trace for answer in ours["jax"]])
    row(
        f"trace to {error / trace:.1%}",
        ours | scaled,
        f"{ours['jax'][0]['products']} products against {needed:.0f} of Hutchinson's estimate, scaled from "
        f"40 and 10; exact trace {trace:.4f}, off by {off / trace:.1%}",
    )
    budget = ours["jax"][0]["products"] // 3 * 3
    for method in ("hutch++", "xtrace"):
        answers = [everyone["curvlinops"].ask("trace", method=method, products=budget) for _ in range(turns)]
        off = _rms([answer["value"] - trace for answer in answers])
        row(f"trace by {method}", {"curvlinops": answers}, f"{budget} products; off by {off / trace:.1%}")

    deflated = everyone["jax"].ask("density", probes=4, steps=STEPS, outliers=COUNT)
    whole = everyone["jax"].ask("density", probes=8, steps=STEPS, outliers=0)
    rival = everyone["curvlinops"].ask("density", probes=2, steps=STEPS)
    needed = 8 * (whole["error"] / deflated["error"]) ** 2
    row(
        f"density, {STEPS} steps a probe",
        {
            "jax": [deflated],
            "curvlinops": [{unit: rival[unit] / 2 * needed for unit in ("cpu", "wall")}],
        },
        f"4 probes after {COUNT} outliers; as exact as {needed:.0f} probes without, timed on 2 of them",
    )
    versions = [everyone[name].ask("versions") for name in ("jax", "curvlinops")]
    for contestant in everyone.values():
        contestant.__exit__()
    return lines, "; against ".join(", ".join(f"{k} {v}" for k, v in side.items()) for side in versions)


def bounds(data, turns):
    """H v of this library beside its products of matrices alone, in turns."""
    with Contestant(sys.executable, "own_curvature.py") as own:
        own.ask("prepare", data=data, library="jax")
        for _ in range(turns):
            spent = own.ask("product", kind="hessian", repeats=5)["cpu"], own.ask("products_alone", repeats=5)
            whole, alone = (FLOPS / part / 1e9 for part in spent)
            print(
                f"H v {whole:.0f} GFlop/s, its products alone {alone:.0f}, NumPy {gemm_rate():.0f}; "
                f"H v / products {spent[1] / spent[0]:.2f}"
            )


def _rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def gemm_rate():
    """GFlop per CPU second of one thread of NumPy."""
    import time

    a, b = (
        np.random.default_rng(0).normal(size=size).astype(np.float32) for size in ((2000, 784), (784, 784))
    )
    best = min(_cpu(lambda: a @ b, time.process_time) for _ in range(10))
    return 2 * 2000 * 784 * 784 / best / 1e9


def _cpu(run, clock):
    start = clock()
    run()
    return clock() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="print only, leave the README alone")
    parser.add_argument(
        "--product", action="store_true", help="only our own H v and what bounds it; no peers"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "data.npz")
        trace = shared_data(data)
        if options.product:
            bounds(data, options.turns)
            return
        lines, used = compare(data, trace, options.turns)
    lines = [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}; {used}.",
        f"Load average {os.getloadavg()[1]:.1f}. One thread; CPU seconds (wall seconds), medians of "
        f"{options.turns} turns, PyHessian's eigenpairs one.",
        "",
        "| | finitewidth, JAX | finitewidth, PyTorch | curvlinops | PyHessian | |",
        "|---|---|---|---|---|---|",
        *lines,
    ]
    print("\n".join(lines))
    if not options.dry:
        before, rest = _README.read_text().split(_BEGIN)
        _README.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{rest.split(_END)[1]}")


if __name__ == "__main__":
    main()
