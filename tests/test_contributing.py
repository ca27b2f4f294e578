"""The recipes of CONTRIBUTING.md do what they say."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
import typer
from tests.tolerances import assert_close
from typer.testing import CliRunner

import finitewidth as fw
from finitewidth.algorithms.optimizers import OPTIMIZERS
from finitewidth.architecture import BUILT_IN, activations
from finitewidth.cli import commands
from finitewidth.measure.layers import faults

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def recipe(title: str) -> str:
    """The code block below a title."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


def test_add_an_activation():
    made = {}
    try:
        exec(recipe("Add an activation"), made)
    finally:
        BUILT_IN.pop("squareplus", None)
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


@pytest.mark.usefixtures("unchecked_annotations")
def test_add_an_optimiser():
    made = {}
    try:
        exec(recipe("Add an optimiser"), made)
        net, x, y = fw.MLP((8,), "tanh", C_b=0.1, C_W=1.0), np.array([[1.0, 0.3]]), np.array([[0.5]])
        params = net.init(jax.random.key(0), 2)
        found = fw.train(net, params, x, y, steps=1, optimizer="lion", learning_rate=0.1)
        # Lion's first step has the size of the rate in every entry, whatever the gradient.
        rates = net.learning_rates(2, "entrywise")
        for before, after, rate in zip(params, found.params, rates, strict=True):
            assert_close(
                np.abs(after.weight - before.weight), np.full(before.weight.shape, 0.1 * rate.weight)
            )
    finally:
        OPTIMIZERS.pop("lion", None)


def test_add_a_measurement():
    made = {}
    exec(recipe("Add a measurement"), made)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    x, y = torch.randn(5, 3).double(), torch.randn(5, 1).double()
    shares = made["gradient_shares"](made["specimen"](module, x.numpy(), y.numpy()))
    ((module(x) - y) ** 2).mean().backward()
    squares = {name: float((p.grad**2).sum()) for name, p in module.named_parameters()}
    total = sum(squares.values())
    assert shares.keys() == squares.keys()
    for name, share in shares.items():
        assert_close(share, squares[name] / total, 1e-6)


def test_add_a_fault(monkeypatch):
    monkeypatch.setattr(faults, "TABLE", faults.TABLE)
    exec(recipe("Add a fault that `diagnose` finds"), {})
    net = torch.nn.Sequential(torch.nn.Linear(3, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    with torch.no_grad():
        net[0].weight[:] = net[0].weight[:1]
        net[0].bias.zero_()
    x, y = np.random.default_rng(0).normal(size=(2, 40, 3)).astype(np.float32)
    names = [finding.name for finding in fw.diagnose(net, x, y[:, :1]).faults]
    assert "few directions (layer 0)" in names


@pytest.mark.usefixtures("unchecked_annotations")
def test_add_a_method():
    made = {}
    exec(recipe("Add a method that computes p(f\\*)"), made)
    net = fw.MLP((64,), "tanh", C_b=0.1, C_W=1.0)
    x, y = np.array([[1.0, 0.3], [0.2, -0.7]]), np.array([[0.5], [-0.2]])
    outputs = jax.random.normal(jax.random.key(0), (50, 2, 1))
    law = fw.predict(net, x, y, x + 0.1, method=made["OwnNetworks"](outputs))
    assert_close(law.mean, outputs.mean(0))
    assert_close(law.covariance, np.cov(outputs[..., 0].T))
    assert_close(law.correction.mean_error[:, 0], np.std(outputs[..., 0], axis=0, ddof=1) / np.sqrt(50))
    with pytest.raises(ValueError, match="describes one output, and there are 2"):
        fw.predict(net, x, np.ones((2, 2)), x, method=made["OwnNetworks"](jax.numpy.ones((5, 2, 2))))
