"""Empirical kernels side by side with neural-tangents and torch.func, ensembles with a Python loop.

Run `python benchmarks/empirical.py`: a 3x1024 ReLU network on 500 points in single precision, every
implementation in a process of its own, taking turns. Two versions of jax serve neural-tangents, because
its structured mode does not run on the newer one. Then 256 small networks, trained at once and in loops.
"""

import argparse
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import peers
from turns import Contestant, show_seconds, take_turns

peers.REQUIREMENTS["neural-tangents-structured"] = (
    "neural-tangents==0.6.5",
    "jax==0.4.23",
    "jaxlib==0.4.23",
    "numpy<2",
    "scipy<1.13",
)

NEURAL_TANGENTS = (
    ("neural-tangents-structured", "STRUCTURED_DERIVATIVES"),
    ("neural-tangents", "JACOBIAN_CONTRACTION"),
    ("neural-tangents", "NTK_VECTOR_PRODUCTS"),
)
# A rival whose first call takes longer than this gets one more turn only.
_SLOW = 20.0
TORCH = ("jacobian-contraction", "ntk-vector-products")
ENSEMBLES = (((16,), 8), ((32, 32), 16))


def shared_data(path, points, width, depth, n_in=100):
    rng = np.random.default_rng(0)
    widths = (n_in, *(width,) * depth, 1)
    weights = {
        f"w{l}": rng.standard_normal((a, b)).astype(np.float32) for l, (a, b) in enumerate(pairwise(widths))
    }
    np.savez(path, x=rng.standard_normal((points, n_in)).astype(np.float32), **weights)


def kernels(points, width, depth, turns, rivals_named, folder):
    """Each peer against this library, in turns: first call with compilation, then repeated calls."""
    data = str(folder / "data.npz")
    shared_data(data, points, width, depth)
    print(f"\nempirical NTK, {depth}x{width} ReLU, {points} points, float32")
    rivals = [(name, name, "peer_empirical.py", i) for name, i in NEURAL_TANGENTS]
    rivals += [("torch.func", None, "torch_empirical.py", i) for i in TORCH]
    for name, environment, script, implementation in rivals:
        if rivals_named not in f"{name} {implementation}":
            continue
        python = sys.executable if environment is None else peers.peer_python(environment)
        with Contestant(sys.executable, "own_empirical.py") as own, Contestant(python, script) as peer:
            own.ask("prepare", data=data)
            peer.ask("prepare", data=data, implementation=implementation)
            first = [c.ask("run") for c in (own, peer)]
            own_time, peer_time = take_turns(own, peer, turns=turns if first[1] < _SLOW else 1)
            for contestant, file in ((own, "own.npy"), (peer, "peer.npy")):
                contestant.ask("save", path=str(folder / file))
            versions = ", ".join(f"{k} {v}" for k, v in peer.ask("versions").items())
        own_kernel, peer_kernel = np.load(folder / "own.npy"), np.load(folder / "peer.npy")
        error = np.abs(own_kernel - peer_kernel).max() / np.abs(peer_kernel).max()
        print(
            f"{name} {implementation} ({versions}): {peer_time}, this library {own_time}: "
            f"{peer_time.median / own_time.median:.1f}x; first call {show_seconds(first[1])} against "
            f"{show_seconds(first[0])}; largest difference {error:.1e}",
            flush=True,
        )


def ensembles(size, steps, turns, folder):
    """Training many networks at once against loops over networks."""
    for hidden, points in ENSEMBLES:
        arguments = {"size": size, "hidden": hidden, "points": points, "steps": steps}
        names = {
            "at once": "prepare_ensemble",
            "a compiled step per call": "prepare_loop",
            "train() per network": "prepare_separate",
        }
        contestants = [Contestant(sys.executable, "own_empirical.py") for _ in names]
        for contestant, request in zip(contestants, names.values(), strict=True):
            contestant.ask(request, **arguments)
            contestant.ask("run")
        timings = take_turns(*contestants, turns=turns)
        outputs = []
        for k, contestant in enumerate(contestants):
            contestant.ask("save", path=str(folder / f"{k}.npy"))
            outputs.append(np.load(folder / f"{k}.npy"))
            contestant.__exit__()
        print(f"\n{size} networks of {hidden} on {points} points, {steps} steps")
        for name, timing, output in zip(names, timings, outputs, strict=True):
            difference = np.abs(output - outputs[0]).max()
            ratio = timing.median / timings[0].median
            print(f"{name}: {timing}, {ratio:.1f}x; largest difference {difference:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--networks", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rivals", default="", help="only rivals whose name contains this")
    parser.add_argument("--only", choices=("kernels", "ensembles"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "ensembles":
            kernels(options.points, options.width, options.depth, options.turns, options.rivals, Path(folder))
        if options.only != "kernels":
            ensembles(options.networks, options.steps, options.turns, Path(folder))


if __name__ == "__main__":
    main()
