"""Walks: which modules of ours four everyday calls enter, and how many are loaded. Prints JSON.

A call is counted after a warm one at another size, so that only its own path is seen; `_base` is not counted.
"""

import json
import os
import subprocess
import sys

import jax
import numpy as np

import finitewidth as fw

_ROOT = os.path.dirname(fw.__file__) + os.sep
_LEFT_OUT = ("_base" + os.sep,)


def walk(call) -> tuple[int, int]:
    """Modules entered, and changes from one module to another."""
    seen, last, changes = set(), None, 0

    def profile(frame, event, _):
        nonlocal last, changes
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_ROOT) or code.co_name == "<module>":
            return
        module = code.co_filename[len(_ROOT) :]
        if module.startswith(_LEFT_OUT) or module.endswith("__init__.py") or module == last:
            return
        last, changes = module, changes + 1
        seen.add(module)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(seen), changes


def problem(points: int, tests: int, seed: int):
    """Inputs (points, 3), outputs (points,) and test inputs (tests, 3)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(points, 3))
    return x, np.sin(x[:, 0]), rng.normal(size=(tests, 3))


def calls(net, x, y, x_test, steps):
    """The four calls on one problem."""
    params = net.init(jax.random.key(0), 3)
    return {
        "order 0": lambda: fw.predict(net, x, y, x_test, ridge=0.1),
        "kernels": lambda: fw.kernels(net, x),
        "train": lambda: fw.train(net, params, x, y[:, None], steps=steps, learning_rate=0.1),
        "order 1": lambda: fw.predict(net, x, y, x_test, ridge=0.1, order=1),
    }


if __name__ == "__main__":
    warm = calls(fw.MLP((32, 32), "gelu", C_b=0.1, C_W=1.3), *problem(7, 2, 0), steps=10)
    asked = calls(fw.MLP((64, 64), "tanh", C_b=0.1, C_W=1.3), *problem(8, 3, 1), steps=20)
    found = {}
    for name in asked:
        warm[name]()
        loaded = sum(module.startswith("finitewidth.") for module in sys.modules)
        entered, changes = walk(asked[name])
        found[name] = {"entered": entered, "changes": changes, "loaded": loaded}
    code = (
        "import sys; from finitewidth import lab; lab.run('criticality-conditions'); "
        "print(sum(module.startswith('finitewidth.') for module in sys.modules))"
    )
    one_claim = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found["one claim"] = {"loaded": int(one_claim.stdout)}
    print(json.dumps(found))
