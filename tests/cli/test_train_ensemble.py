"""`finitewidth train-ensemble`."""

import json

import numpy as np
import pytest

import finitewidth as fw
from tolerances import assert_close

FEW = ("--hidden", "6x2", "--size", "4", "--steps", "20", "--train", "30", "--test", "10", "--quiet")


@pytest.mark.parametrize(("data", "n_out"), [("diabetes", 1), ("wine", 3), ("digits", 10)])
def test_built_in_data(command, tmp_path, data, n_out):
    result = command("train-ensemble", data, "--out", "nets.npz", *FEW)
    assert result.code == 0, result.err
    nets = fw.Ensemble.load(tmp_path / "nets.npz")
    assert nets.outputs.shape == (4, 10, n_out)
    assert nets.losses[:, -1].mean() < nets.losses[:, 0].mean()


def test_the_result_can_be_made_again_from_its_settings(command, tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 3))
    np.savetxt(tmp_path / "table.csv", rows, delimiter=",")
    np.save(tmp_path / "table.npy", rows)
    arguments = (
        "--hidden",
        "5",
        "--activation",
        "gelu",
        "--size",
        "3",
        "--steps",
        "15",
        "--optimizer",
        "adam",
    )
    for data in ("table.csv", "table.npy"):
        result = command(
            "train-ensemble", data, "--out", f"{data}.npz", *arguments, "--learning-rate", "0.02", "--quiet"
        )
        assert result.code == 0, result.err
    nets, again = (fw.Ensemble.load(tmp_path / f"table.{kind}.npz") for kind in ("npy", "csv"))
    assert_close(nets.outputs, again.outputs)
    settings = nets.settings
    import jax

    key = jax.random.wrap_key_data(np.asarray(settings["key"], np.uint32))
    net = fw.MLP(settings["hidden"], settings["activation"], C_b=settings["C_b"], C_W=settings["C_W"])
    repeated = fw.train_ensemble(
        net, key, settings["size"], rows[settings["train"], :-1], rows[settings["train"], -1:],
        rows[settings["test"], :-1], steps=settings["steps"], learning_rate=settings["learning_rate"],
        optimizer=settings["optimizer"], loss=settings["loss"],
    )  # fmt: skip
    assert np.array_equal(repeated.outputs, nets.outputs)
    json.dumps(settings)


def test_words_gaps_and_an_index(command, tmp_path):
    rows = [f"{i},{'uvw'[i % 3]},{i % 7 if i % 5 else ''},{'cat' if i % 3 else 'dog'}" for i in range(40)]
    (tmp_path / "pets.csv").write_text("\n".join([",kind,size,pet", *rows]))
    result = command("train-ensemble", "pets.csv", "--out", "nets.npz", *FEW)
    assert result.code == 0, result.err
    assert "the last column of pets, 'pet', is taken for the label." in " ".join(result.err.split())
    nets = fw.Ensemble.load(tmp_path / "nets.npz")
    assert nets.outputs.shape == (4, 10, 2)
    assert nets.losses[:, -1].mean() < nets.losses[:, 0].mean()


def test_a_directory_is_continued_and_protected(command):
    first = command("train-ensemble", "diabetes", "--out", "a.npz", "--directory", "kept", *FEW)
    second = command("train-ensemble", "diabetes", "--out", "b.npz", "--directory", "kept", *FEW)
    assert first.code == second.code == 0
    other = command(
        "train-ensemble", "diabetes", "--out", "c.npz", "--directory", "kept", *FEW, "--steps", "21"
    )
    assert other.code == 2
    assert "its steps is 20, this one's is 21" in " ".join(other.err.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("irs",), "'irs' is neither a data set"),
        (("absent.csv",), "absent.csv does not exist"),
        (("diabetes", "--loss", "cross_entropy"), "are not classes 0, 1, 2"),
        (("diabetes", "--optimizer", "adam"), "--learning-rate is needed for the optimizer 'adam'"),
        (("diabetes", "--learning-rate", "100"), "training diverged"),
        (("wine", "--train", "1000"), "do not fit a data set of 178 points"),
        (("diabetes", "--loss", "logistic", "--learning-rate", "1"), "labels -1 and 1"),
    ],
)
def test_bad_input_gets_one_sentence(command, arguments, sentence):
    options = [o for pair in zip(FEW[::2], FEW[1::2], strict=False) for o in pair if pair[0] not in arguments]
    result = command("train-ensemble", *arguments, "--out", "nets.npz", *options)
    assert result.code == 2
    assert sentence in " ".join(result.err.split())
    assert "Traceback" not in result.err
