"""One description of a network: defaults, per-layer hyperparameters and refusals."""

import ast
import json
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from tolerances import assert_close

SOURCES = sorted((pathlib.Path(__file__).parents[1] / "src").rglob("*.py"))


def test_depth_counts_affine_layers():
    assert fw.MLP((), "relu").depth == 1
    assert fw.MLP((5, 7), "relu").depth == 3
    assert fw.MLP([5, 7], "relu", n_out=3).n_out == 3
    assert fw.MLP(np.array([5, 7]).tolist(), "relu").hidden == (5, 7)


def test_critical_by_default():
    for name, C_b, C_W in [("relu", 0.0, 2.0), ("tanh", 0.0, 1.0), ("erf", 0.0, np.pi / 4)]:
        net = fw.MLP((4, 4), name)
        assert_close(net.C_b, [C_b] * 3)
        assert_close(net.C_W, [C_W] * 3)
        assert_close(net.lambda_b, np.ones(3))
        assert_close(net.lambda_W, np.ones(3))


@pytest.mark.parametrize("kind", [tuple, list, np.array, jnp.array])
def test_one_number_or_one_per_layer(kind):
    net = fw.MLP(
        (4, 4), "tanh", C_b=kind([0.1, 0.2, 0.3]), C_W=2, lambda_b=kind([0.0, 1.0, 2.0]), lambda_W=0.5
    )
    assert_close(net.C_b, [0.1, 0.2, 0.3])
    assert_close(net.C_W, [2.0, 2.0, 2.0])
    assert_close(net.lambda_b, [0.0, 1.0, 2.0])
    assert_close(net.lambda_W, [0.5, 0.5, 0.5])


def test_hyperparameters_are_leaves_and_the_rest_is_static():
    net = fw.MLP((4,), "tanh", C_b=0.1, C_W=1.0)
    leaves = jax.tree.leaves(net)
    assert len(leaves) == 4
    assert all(leaf.shape == (2,) and leaf.dtype == jnp.float64 for leaf in leaves)
    moved = jax.tree.map(lambda a: 2 * a, net)
    assert moved.hidden == net.hidden
    assert_close(moved.C_W, 2 * net.C_W)


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "cos", "step", "monomial:3"])
def test_no_critical_point_asks_for_values(name):
    with pytest.raises(
        ValueError, match=rf"activation '{name}' has no critical point \(.*\): pass C_b and C_W"
    ):
        fw.MLP((4,), name)
    assert fw.MLP((4,), name, C_b=0.1, C_W=1.0).depth == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"C_b": 0.1}, r"C_b was given without C_W: pass both, or neither"),
        ({"C_W": 1.0}, r"C_W was given without C_b"),
        ({"C_b": -0.1, "C_W": 1.0}, r"C_b must be finite and zero or positive, got -0\.1"),
        ({"C_b": 0.0, "C_W": 0.0}, r"C_W must be finite and positive, got 0\.0"),
        ({"C_b": 0.0, "C_W": -2}, r"C_W must be finite and positive, got -2"),
        ({"C_b": np.nan, "C_W": 1.0}, r"C_b must be finite"),
        ({"C_b": 0.0, "C_W": np.inf}, r"C_W must be finite and positive, got inf"),
        ({"C_b": 0.0, "C_W": (1.0, 0.0)}, r"C_W must be finite and positive, got \(1\.0, 0\.0\)"),
        ({"lambda_b": -1.0}, r"lambda_b must be finite and zero or positive"),
        ({"lambda_W": np.nan}, r"lambda_W must be finite"),
        ({"lambda_W": (1.0, 1.0, 1.0)}, r"lambda_W has shape \(3,\); give one number, or 2 of them"),
        ({"hidden": (0,)}, r"hidden must hold positive whole numbers, got \(0,\)"),
        ({"hidden": (4, -1)}, r"hidden must hold positive whole numbers, got \(4, -1\)"),
        ({"n_out": 0}, r"n_out must be a whole number of at least 1"),
        ({"activation": "rleu"}, r"unknown activation 'rleu'\. Did you mean 'relu'"),
    ],
)
def test_bad_values(arguments, words):
    with pytest.raises(ValueError, match=words):
        fw.MLP(**({"hidden": (4,), "activation": "relu"} | arguments))


def test_wrong_types(unchecked_annotations):
    with pytest.raises(TypeError, match=r"hidden must be a sequence of widths, such as \(5,\), got 5"):
        fw.MLP(5, "relu")
    with pytest.raises(ValueError, match=r"hidden must hold positive whole numbers, got \(2\.5,\)"):
        fw.MLP((2.5,), "relu")


def test_variances_may_be_traced():
    gradient = jax.grad(lambda C_W: jnp.sum(fw.MLP((4, 4), "relu", C_b=0.0, C_W=C_W).C_W))(1.5)
    assert float(gradient) == 3.0


def imported_names(path: pathlib.Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def is_private(name: str) -> bool:
    """Underscore names and interpreters of jax; of jax.core all but the Tracer type."""
    parts = name.split(".")
    inside = name.startswith(("jax.interpreters", "jax.core")) and name not in ("jax.core", "jax.core.Tracer")
    return parts[0] == "jax" and (inside or any(part.startswith("_") for part in parts))


def test_only_public_jax_is_used():
    """One name of jax.core is needed, in one place."""
    assert is_private("jax._src.core")
    assert is_private("jax.interpreters.ad")
    assert not is_private("jax.core.Tracer")
    found = {path.stem: [n for n in imported_names(path) if is_private(n)] for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {"tracing": ["jax.core.eval_context"]}


def test_every_name_is_defined_but_the_axes_of_arrays():
    """The linters pass over undefined names, since axes such as "points out" look like them."""
    ruff = pathlib.Path(sys.executable).with_name("ruff")
    line = [ruff, "check", "--select", "F821", "--output-format", "json", "--exit-zero", SOURCES[0].parent]
    undefined = []
    for found in json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout):
        name = found["message"].split("`")[1]
        row = (
            pathlib.Path(found["filename"])
            .read_text(encoding="utf-8")
            .splitlines()[found["location"]["row"] - 1]
        )
        if not re.search(rf'\[[^"]*"[^"]*\b{name}\b[^"]*"\]', row):
            undefined.append(f"{found['filename']}:{found['location']['row']}: {name}")
    assert undefined == []
