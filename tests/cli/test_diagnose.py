"""`finitewidth diagnose`: the user's own network from a file, and one sentence for every wrong input."""

import json
import shlex

import equinox as eqx
import jax
import numpy as np
import pytest
import torch
from flax import serialization

import finitewidth as fw
from networks_on_digits import digits

NETWORKS = """
import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import torch
from torch import nn


def good():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def images():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))


def regression():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def dropout():
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def statistics():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def infinite():
    model = good()
    model[2].weight.data[:] = 1e38
    model[2].bias.data[0] = float("inf")
    return model


def two_outputs():
    return nn.Linear(4, 2)


def four_outputs():
    return nn.Linear(4, 4)


def other_inputs():
    return nn.Linear(5, 3)


def raising():
    raise RuntimeError("no weights here")


def nothing():
    pass


def pair():
    key = jax.random.key(0)
    params = {"a": jax.random.normal(key, (4, 8)), "b": jax.random.normal(key, (8, 3))}
    return lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"], params


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(linen.gelu(linen.Dense(8)(x)))


def of_linen():
    return Linen(), Linen().init(jax.random.key(0), jnp.ones((1, 4)))


def of_equinox():
    return eqx.nn.MLP(4, 3, 8, 1, key=jax.random.key(0))


ready = good()
"""


@pytest.fixture
def files(tmp_path, rng):
    """A file of networks, data of all kinds, and checkpoints that fit and that do not."""
    (tmp_path / "nets.py").write_text(NETWORKS)
    (tmp_path / "broken.py").write_text("def oops(:\n")
    (tmp_path / "needy.py").write_text("import a_module_that_is_not_there\n")
    x = rng.normal(size=(30, 4))
    kinds = np.array(["a", "b", "c"])[np.argmax(x[:, :3], axis=1)]
    lines = [",".join([*map(str, row), kind]) for row, kind in zip(x, kinds, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["p,q,r,s,kind", *lines]))
    lines = [f"{row[0]},{row[1]},{row[0] * row[1]}" for row in x]
    (tmp_path / "r.csv").write_text("\n".join(["p,q,price", *lines]))
    pictures, labels = digits(100)
    np.savez(tmp_path / "pictures.npz", x=pictures.reshape(-1, 1, 8, 8), y=labels)
    np.savez(tmp_path / "uneven.npz", x=pictures, y=labels[:-1])
    fits = {"0.weight": torch.ones(8, 4), "0.bias": torch.zeros(8), "2.weight": torch.ones(3, 8),
            "2.bias": torch.zeros(3)}  # fmt: skip
    torch.save(fits, tmp_path / "fits.pt")
    torch.save({"state_dict": {f"module.{k}": v for k, v in fits.items()}}, tmp_path / "wrapped.pt")
    torch.save({**fits, "2.weight": torch.ones(3, 9)}, tmp_path / "shape.pt")
    torch.save({k: v for k, v in fits.items() if "bias" not in k}, tmp_path / "lacking.pt")
    torch.save({**fits, "extra": torch.ones(1)}, tmp_path / "extra.pt")
    torch.save([1, 2, 3], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("not a checkpoint")
    np.savez(tmp_path / "fits.npz", a=np.ones((4, 8)), b=np.ones((8, 3)))
    np.savez(tmp_path / "other.npz", a=np.ones((4, 8)))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "report.html").write_text("precious")
    return tmp_path


GOOD = {
    "nets:good --data t.csv --target kind --lr 0.1": 3,
    "nets.py:good --data t.csv --target kind --checkpoint wrapped.pt --start fits.pt": 3,
    "nets:images --data pictures.npz --points 20": 10,
    "nets:ready --data t.csv --target kind --points 12": 3,
    "nets:images --data digits --scale 16 --shape 1x8x8 --points 20": 10,
    "nets:regression --data r.csv --target price --lr 0.01 --optimizer adam": 1,
    "nets:pair --data t.csv --target kind --checkpoint fits.npz --start fits.npz": 3,
    "nets:of_linen --data t.csv --target kind --scale column": 3,
    "nets:of_equinox --data t.csv --target kind --optimizer nesterov --lr 0.01": 3,
}


@pytest.mark.parametrize("line", GOOD)
def test_networks_of_every_framework_and_data_of_every_kind(command, files, line):
    result = command("diagnose", *shlex.split(line), "--out", "page")
    assert result.code == 0, result.err
    assert "report: page/report.html" in result.out
    summary = json.loads((files / "page" / "summary.json").read_text())
    assert summary["outputs"] == GOOD[line]
    assert (summary["laziness"] is not None) == ("--start" in line)
    assert (summary["next_steps"] is not None) == ("--lr" in line)


def test_the_numbers_are_those_of_the_library(command, files):
    line = "nets:good --data t.csv --target kind --checkpoint fits.pt --lr 0.1 --seed 3 --json --out page"
    result = command("diagnose", *shlex.split(line))
    assert result.code == 0, result.err
    rows = np.genfromtxt(files / "t.csv", delimiter=",", skip_header=1, usecols=range(4))
    kinds = np.genfromtxt(files / "t.csv", delimiter=",", skip_header=1, usecols=4, dtype=str)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    model.load_state_dict(torch.load(files / "fits.pt"))
    labels = np.searchsorted(["a", "b", "c"], kinds)
    found = fw.diagnose(
        model, rows, labels, learning_rate=0.1, class_names=["a", "b", "c"], key=jax.random.key(3)
    )
    printed = json.loads(result.out)
    assert printed == json.loads((files / "page" / "summary.json").read_text())
    assert printed["loss"] == found.loss
    assert [row["signal"] for row in printed["layers"]] == [row.signal for row in found.layers]


def test_checkpoints_of_flax_and_equinox(command, files):
    layer = lambda n, out: {"kernel": np.full((n, out), 0.1, np.float32), "bias": np.zeros(out, np.float32)}
    params = {"params": {"Dense_1": layer(4, 8), "Dense_0": layer(8, 3)}}
    (files / "net.msgpack").write_bytes(serialization.to_bytes(params))
    model = eqx.nn.MLP(4, 3, 8, 1, key=jax.random.key(1))
    eqx.tree_serialise_leaves(files / "net.eqx", model)
    for name, checkpoint in (("of_linen", "net.msgpack"), ("of_equinox", "net.eqx")):
        line = f"nets:{name} --data t.csv --target kind --checkpoint {checkpoint} --json --out {name}"
        result = command("diagnose", *shlex.split(line))
        assert result.code == 0, result.err
        found = json.loads(result.out)
        # Equal weights for every class: chance.
        assert name == "of_equinox" or abs(found["loss"] - np.log(3)) < 1e-6


DATA = "--data t.csv --target kind"
WRONG = {
    f"nets {DATA}": "MODEL must be module:factory or path/to/file.py:factory, got 'nets'.",
    f":good {DATA}": "MODEL must be module:factory",
    f"nets:go-od {DATA}": "MODEL must be module:factory",
    f"nots:good {DATA}": "there is no module 'nots' here or on Python's path",
    f"nets.models:good {DATA}": "there is no module 'nets.models' here or on Python's path",
    f"nots.py:good {DATA}": "nots.py does not exist.",
    f"nets:goood {DATA}": "nets has no factory 'goood'. Did you mean 'good'?",
    f"broken.py:oops {DATA}": "broken.py cannot be imported: SyntaxError",
    f"needy:oops {DATA}": "needy cannot be imported: ModuleNotFoundError",
    f"nets:raising {DATA}": "the factory nets:raising raised RuntimeError: no weights here.",
    f"nets:nothing {DATA}": "the factory nets:nothing returned nothing; it must return the model.",
    f"nets:dropout {DATA}": "call `model.eval()` first.",
    f"nets:statistics {DATA}": "call `model.eval()` first.",
    f"nets:infinite {DATA}": "NaN or infinite",
    f"nets:two_outputs {DATA}": "needs classes between 0 and 1, one per output",
    f"nets:four_outputs {DATA}": "class 3 of the model's 4 has no sample in the data",
    f"nets:other_inputs {DATA}": "the model does not take inputs of shape (30, 4)",
    f"nets:good {DATA} --checkpoint no.pt": "checkpoint no.pt does not exist.",
    f"nets:good {DATA} --start no.pt": "checkpoint no.pt does not exist.",
    f"nets:good {DATA} --checkpoint text.pt": "checkpoint text.pt is not a file of tensors",
    f"nets:good {DATA} --checkpoint list.pt": "checkpoint list.pt holds no state dict",
    f"nets:good {DATA} --checkpoint lacking.pt": "lacks '0.bias' and 1 more.",
    f"nets:good {DATA} --checkpoint extra.pt": "holds 'extra', which the model has not.",
    f"nets:good {DATA} --checkpoint shape.pt": "'2.weight' has shape (3, 9) where the model has (3, 8).",
    f"nets:pair {DATA} --checkpoint other.npz": "checkpoint other.npz does not fit the model: it lacks 'b'.",
    f"nets:pair {DATA} --checkpoint fits.pt": "must end in .npz, .msgpack or .eqx for a model of JAX.",
    f"nets:of_equinox {DATA} --checkpoint fits.npz": "must be an .eqx file",
    "nets:good --data no.csv": "no.csv does not exist.",
    "nets:good --data t.csv --target kindd": "t has no column 'kindd'. Did you mean 'kind'?",
    "nets:good --data uneven.npz": "x of uneven.npz has 100 rows and y has 99.",
    f"nets:good {DATA} --lr 0": "--lr must be a positive finite number, got '0'.",
    f"nets:good {DATA} --momentum 1": "momentum must be at least 0 and below 1, got 1.0.",
    f"nets:good {DATA} --optimizer lion": "--optimizer must be sgd, momentum, nesterov or adam, got 'lion'.",
    f"nets:good {DATA} --loss hinge": "--loss must be cross_entropy or mse, got 'hinge'.",
    f"nets:good {DATA} --loss mse": "--loss mse needs numbers, and 'kind' holds words, such as",
    "nets:regression --data r.csv --target price --loss cross_entropy": "--loss cross_entropy needs classes",
    f"nets:good {DATA} --scale big": "--scale must be none, column, common or a positive number",
    f"nets:good {DATA} --shape 2by2": "--shape must be sizes such as 1x8x8, got '2by2'.",
    f"nets:good {DATA} --shape 3x3": "--shape 3x3 has 9 entries and a row has 4 inputs.",
    f"nets:good {DATA} --points 1": "--points must be a whole number, 2 or more, got '1'.",
    f"nets:good {DATA} --out taken": "taken already holds another run (report.html)",
    f"nets:good {DATA} --out t.csv": "--out t.csv is a file; name a directory.",
    "nets:good": "missing option '--data'.",
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_wrong_input_is_one_sentence(command, files, line):
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    result = command("diagnose", *shlex.split(line), *([] if "--out" in line else ["--out", "page"]))
    assert result.code == 2, result.err
    assert WRONG[line] in result.err
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert result.err.rstrip().endswith((".", "?"))
    assert result.out == ""
    assert not (files / "page").exists()
    kept = {path: path.read_bytes() for path in before}
    assert kept == before
