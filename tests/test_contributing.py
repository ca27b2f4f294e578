"""The recipes of CONTRIBUTING.md do what they say."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
import typer
from tests.tolerances import assert_close
from typer.testing import CliRunner

import finitewidth as fw
from finitewidth.architecture import activations
from finitewidth.cli import commands

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def recipe(title: str) -> str:
    """The code block below a title."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


def test_add_an_activation(monkeypatch):
    monkeypatch.setattr(activations, "BUILT_IN", dict(activations.BUILT_IN))
    made = {}
    exec(recipe("Add an activation"), made)
    assert "return (z + torch.sqrt(z**2 + 4)) / 2" in made["advice"].pytorch
    assert "activation = lambda z: (z + jnp.sqrt(z**2 + 4)) / 2" in made["advice"].jax
    assert_close(float(made["advice"].net.activation(jax.numpy.zeros(()))), 1.0)
    activations._built_in.cache_clear()


@pytest.mark.usefixtures("unchecked_annotations")
def test_add_a_layer():
    made = {}
    exec(recipe("Add a layer"), made)
    x = np.array([[1.0, 0.3], [0.2, -0.7]])
    # Halving the neurons is dividing the variance and the rates of the weights above them by four.
    plain = fw.MLP((64,), "tanh", 0.0, (1.0, 0.25), 1.0, (1.0, 0.25))
    for scaled, expected in zip(fw.kernels(made["net"], x), fw.kernels(plain, x), strict=True):
        assert_close(scaled, expected)
    params = made["net"].init(jax.random.key(0), 2)
    assert made["net"].apply(params, x).shape == (2, 1)


def test_add_a_command(tmp_path, monkeypatch):
    (tmp_path / "critical.py").write_text(recipe("Add a command"), encoding="utf-8")
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    app = typer.Typer()
    commands.add_commands(app)
    assert "critical" in CliRunner().invoke(app, ["--help"]).output
    assert "scale-invariant" in CliRunner().invoke(app, ["critical", "--activation", "relu"]).output
