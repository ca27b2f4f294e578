"""Cost of the 1/width coefficient of the trained mean: its two paths, against ensembles, and its growth.

`python benchmarks/finite_width.py` computes the coefficient by sampled neurons at several sizes and by dense
tensors at a small one, each in a process of its own so that its memory can be told, times the training of
real networks, and stores the table of the run in `benchmarks/README.md`. Run it on a quiet machine.
"""

import argparse
import datetime
import json
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
# Coefficients do not depend on the width; so wide a network is never warned of.
_WIDE = 10**9


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


def learning_rate(train, test, depth):
    """Half of what is stable would be 1/t_max; this is half of that. With it, the slowest mode's decay."""
    import finitewidth as fw

    x, _, _ = data(train, test)
    t = np.linalg.eigvalsh(np.asarray(fw.kernels(network(depth, _WIDE), x).ntk))
    return float(0.5 / t[-1]), float(np.log(1 - 0.5 * t[0] / t[-1]))


def algorithm_of(train, test, depth, steps):
    """Gradient flow to the end, or some steps of gradient descent."""
    import finitewidth as fw

    return fw.GradientDescent(learning_rate(train, test, depth)[0], steps) if steps else fw.GradientFlow()


def rms(a):
    return float(np.sqrt(np.mean(np.square(np.asarray(a)))))


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def coefficient(train, test, depth, error, most, steps):
    """One coefficient by sampled neurons: time, memory, its size and its standard error.

    `preparation` are the seconds up to the end of the pilot run, compilation included, `sampling` those after
    it. `std` is the spread of trained outputs at infinite width.
    """
    import finitewidth as fw

    x, y, x_test = data(train, test)
    algorithm = algorithm_of(train, test, depth, steps)
    reports = []
    start = time.perf_counter()
    law = fw.predict(
        network(depth, _WIDE),
        x,
        y,
        x_test,
        algorithm,
        order=1,
        method=fw.SampledNeurons(error, most_samples=most, covariance_error=None),
        progress=lambda *_: reports.append(time.perf_counter() - start),
    )
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "std": rms(law.std),
        "trusted_width": law.validity.trusted_width,
        "preparation": reports[0],
        "sampling": reports[-1] - reports[0],
        "megabytes": peak_megabytes(),
        "coefficient": _WIDE * rms(law.mean_correction),
        "error": _WIDE * rms(law.mean_correction_error),
        "samples": law.correction.samples,
    }


def both_paths(train, test, depth, error):
    """The coefficient by dense tensors, and how far sampled neurons are from it in standard errors."""
    import finitewidth as fw

    x, y, x_test = data(train, test)
    solve = lambda method: fw.predict(
        network(depth, _WIDE), x, y, x_test, fw.GradientFlow(), order=1, method=method
    )
    start = time.perf_counter()
    dense = solve(fw.DenseTensors())
    seconds, megabytes = time.perf_counter() - start, peak_megabytes()
    finer = solve(fw.DenseTensors(1e-9))
    sampled = solve(fw.SampledNeurons(error, covariance_error=None))
    away = np.asarray((sampled.mean_correction - dense.mean_correction) / sampled.mean_correction_error)
    return {
        "seconds": seconds,
        "megabytes": megabytes,
        "trusted_width": dense.validity.trusted_width,
        "coefficient": _WIDE * rms(dense.mean_correction),
        "accuracy": rms(dense.mean_correction - finer.mean_correction) / rms(finer.mean_correction),
        "error": _WIDE * rms(sampled.mean_correction_error),
        "z": float(np.abs(away).max()),
    }


def tensors(points, depth):
    """All dense tensors at initialisation: seconds of the first call."""
    import finitewidth as fw

    x, _, _ = data(points, 0)
    start = time.perf_counter()
    fw.corrections(network(depth, _WIDE), x)
    return {"seconds": time.perf_counter() - start, "megabytes": peak_megabytes()}


def ensemble(train, test, depth, width, pairs, steps):
    """Seconds per network, and how far width times the output of one scatters.

    `plain` is the scatter of networks as they are. In a pair two networks start from opposite outputs and
    their linearised partners are subtracted: of the ways to measure the coefficient by training `paired` has
    the least scatter.
    """
    import jax

    import finitewidth as fw

    x, y, x_test = (a.astype(np.float32) for a in data(train, test))
    net = network(depth, width)
    eta, decay = learning_rate(train, test, depth)
    steps = steps or int(np.ceil(np.log(1e-2) / decay))
    run = lambda key: fw.paired_ensemble(
        net, jax.random.key(key), pairs, x, y, x_test, steps=steps, learning_rate=eta, linear_size=2
    )
    run(0)
    start = time.perf_counter()
    trained = run(1)
    seconds = (time.perf_counter() - start) / (2 * pairs)
    return {
        "seconds": seconds,
        "steps": steps,
        "plain": width * rms(trained.plain.sem) * np.sqrt(trained.plain.dof + 1),
        "paired": width * rms(trained.nonlinear.sem) * np.sqrt(2 * (trained.nonlinear.dof + 1)),
    }


class Answers:
    """Answers of the functions above, each from a fresh process; with a file a run can be continued."""

    def __init__(self, path):
        self._path = None if path is None else Path(path)
        self._known = json.loads(self._path.read_text()) if self._path and self._path.exists() else {}

    def __call__(self, name, *arguments):
        question = json.dumps([name, *arguments])
        if question not in self._known:
            command = [sys.executable, __file__, "--call", name, json.dumps(arguments)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            self._known[question] = json.loads(done.stdout.splitlines()[-1])
            print(question, self._known[question], file=sys.stderr, flush=True)
            if self._path:
                self._path.write_text(json.dumps(self._known, indent=1))
        return self._known[question]


def exponent(sizes, values):
    """Slope of log value against log size."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def growth(name, sizes, runs):
    """One line on how preparation, sampling and memory grow."""
    fields = {"preparation": "preparation", "sampling": "sampling", "memory": "megabytes"}
    powers = ", ".join(f"{f} ~ size^{exponent(sizes, [r[k] for r in runs]):.2f}" for f, k in fields.items())
    points = "; ".join(
        f"{s:,}: {r['preparation']:.1f} s + {r['sampling']:.1f} s, {r['megabytes']:.0f} MB, "
        f"error {r['error'] / r['coefficient']:.1%}"
        for s, r in zip(sizes, runs, strict=True)
    )
    return f"- {name}: {powers} ({points})"


def short(value):
    """Two digits, or a whole number."""
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def against_ensemble(what, ours, theirs, width, steps):
    """Two rows on the cost of the same standard error by training networks.

    The first is for the width that was trained, if not for as many steps. The second is for the width from
    which the first order can be trusted, where it is larger: narrower networks measure something else. There
    the time of a network is scaled with the square of the width and the plain scatter with the width, which
    the paired one does not depend on.
    """
    grown = max(1.0, ours["trusted_width"] / width)
    seconds = theirs["seconds"] * steps / theirs["steps"]
    trained = steps == theirs["steps"]
    rows = []
    for growth in (1.0, grown):
        name = f"{growth * width:,.0f}" + ("" if trained and growth == 1 else ", extrapolated")
        networks = {"plain": (growth * theirs["plain"] / ours["error"]) ** 2}
        if trained:
            networks["paired"] = (theirs["paired"] / ours["error"]) ** 2
        takes = seconds * growth**2
        cells = [f"{count:,.0f}: {short(count * takes / ours['seconds'])}x" for count in networks.values()]
        relative = ours["error"] / ours["coefficient"]
        rows.append(
            f"| {what} | {ours['seconds']:.1f} s | {ours['error']:.2g} ({relative:.0%}) | {name} | "
            f"{short(takes)} s ({steps:,} steps) | {' | '.join((*cells, '')[:2])} |"
        )
    return rows[: 1 + (grown > 1)]


def report(options, ask):
    """All lines of the table."""
    n, t, most, small = options.train, options.test, options.most_samples, options.ensemble
    target = {depth: ask("coefficient", n, t, depth, options.error, most, 0) for depth in (3, 4)}
    rows = [
        f"| depth {depth} | {r['seconds']:.0f} s | {r['preparation']:.0f} s | {r['megabytes']:.0f} MB | "
        f"{r['coefficient']:.1f} | {r['error'] / r['coefficient']:.1%} | {r['samples']:,} |"
        for depth, r in target.items()
    ]
    both = ask("both_paths", 12, 2, 3, options.error)
    few = {points: ask("tensors", points, 3)["seconds"] for points in (6, 12)}
    train = lambda train, test, steps: ask("ensemble", train, test, 3, options.width, options.pairs, steps)
    sampled = lambda train, test, steps: ask("coefficient", train, test, 3, options.error, most, steps)
    many, whole = train(n, t, options.steps), int(np.ceil(np.log(1e-2) / learning_rate(n, t, 3)[1]))
    spread = {**many, "plain": options.width * target[3]["std"]}
    races = [
        ("12 points, dense tensors", {**both, "error": 0.01 * both["coefficient"]}, train(12, 2, 0)),
        (f"{small} points, sampled", sampled(small, small // 2, 0), train(small, small // 2, 0)),
        (f"{n} points, {options.steps} steps, sampled", sampled(n, t, options.steps), many),
    ]
    races = [(what, ours, theirs, theirs["steps"]) for what, ours, theirs in races]
    races.append((f"{n} points, sampled", target[3], spread, whole))
    counts = [options.count, 4 * options.count, 16 * options.count]
    fixed = lambda size, depth, count: ask("coefficient", size, size // 3, depth, 1e-9, count, 0)
    sizes, depths = [n // 4, n // 2, n], [2, 3, 4, 6]
    return [
        f"{datetime.date.today()}, {machine.description()}, Python {platform.python_version()}.",
        f"{n} training and {t} test points, tanh, gradient flow, asked for {options.error:.0%}:",
        "",
        "| | time | of which up to the end of the pilot | peak memory | rms coefficient | standard error | "
        "samples |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "Against ensembles of trained networks that reach the same standard error (depth 3; to the end of "
        "training where no steps are named; dense tensors have no standard error, the networks are asked for "
        f"1%). The goal is {_GOAL:,}x.",
        "",
        "| training points | time | standard error | width | a network | networks | with flipped and "
        "linearised partners |",
        "|---|---|---|---|---|---|---|",
        *(
            row
            for what, ours, theirs, steps in races
            for row in against_ensemble(what, ours, theirs, options.width, steps)
        ),
        "",
        f"- Dense tensors, 12 training and 2 test points, depth 3: {both['seconds']:.1f} s, "
        f"{both['megabytes']:.0f} MB; rms coefficient {both['coefficient']:.4g}, {both['accuracy']:.0e} from "
        f"that at tolerance 1e-9. Sampled neurons with a standard error of {both['error']:.2g} are at most "
        f"{both['z']:.1f} standard errors away.",
        "- All tensors of `corrections` at its default tolerance, depth 3: "
        + ", ".join(f"{points} inputs {seconds:.1f} s" for points, seconds in few.items())
        + ".",
        growth(f"N (depth 3, {counts[1]:,} samples)", sizes, [fixed(s, 3, counts[1]) for s in sizes]),
        growth(
            f"depth (N = {n // 2}, {counts[1]:,} samples)",
            depths,
            [fixed(n // 2, d, counts[1]) for d in depths],
        ),
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
    parser.add_argument("--count", type=int, default=15_000, help="fewest samples where growth is measured")
    parser.add_argument("--ensemble", type=int, default=20, help="training points of the small ensemble")
    parser.add_argument("--steps", type=int, default=200, help="steps of the large ensemble")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument(
        "--answers", default="finite_width.json", help="file that keeps what has been measured"
    )
    parser.add_argument("--dry", action="store_true", help="print only, leave the README alone")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        name, arguments = options.call
        print(json.dumps(globals()[name](*json.loads(arguments))))
        return
    lines = report(options, Answers(options.answers))
    print("\n".join(lines))
    if not options.dry:
        store(lines)


if __name__ == "__main__":
    main()
