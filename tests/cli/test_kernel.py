"""`finitewidth kernel`: right answers, and one sentence for every wrong input."""

import numpy as np
import pytest

import finitewidth as fw
from tolerances import assert_close


@pytest.fixture
def x(tmp_path, rng) -> np.ndarray:
    x = rng.normal(size=(12, 5))
    np.save(tmp_path / "x.npy", x)
    return x


def test_train_kernels(command, x, tmp_path):
    result = command("kernel", "x.npy", "--hidden", "512x10", "--activation", "relu", "--out", "k.npz")
    assert result.code == 0
    assert "12 x 12" in result.out
    expected = fw.kernels(fw.MLP((512,) * 10, "relu"), x)
    stored = np.load(tmp_path / "k.npz")
    assert_close(stored["nngp"], expected.nngp)
    assert_close(stored["ntk"], expected.ntk)


def test_test_kernels_and_own_variances(command, x, tmp_path, rng):
    t = rng.normal(size=(3, 5))
    np.savetxt(tmp_path / "t.csv", t, delimiter=",", header="a,b,c,d,e", comments="")
    result = command(
        "kernel", "x.npy", "--test", "t.csv", "--hidden", "16,8", "--activation", "tanh",
        "--C-b", "0.1", "--C-W", "1.5", "--out", "k.npz",
    )  # fmt: skip
    assert result.code == 0
    expected = fw.kernels(fw.MLP((16, 8), "tanh", 0.1, 1.5), t, x)
    assert_close(np.load(tmp_path / "k.npz")["ntk"], expected.ntk, 1e-9)


def test_precision_on_request(command, x, tmp_path):
    assert command("kernel", "x.npy", "--hidden", "8x2", "--dtype", "float32", "--out", "k.npz").code == 0
    assert np.load(tmp_path / "k.npz")["ntk"].dtype == np.float32


def test_nothing_is_overwritten_unless_asked(command, x, tmp_path):
    (tmp_path / "k.npz").write_text("precious")
    refused = command("kernel", "x.npy", "--hidden", "8x2", "--out", "k.npz")
    assert refused.code == 2
    assert "exists already" in refused.err
    assert (tmp_path / "k.npz").read_text() == "precious"
    assert command("kernel", "x.npy", "--hidden", "8x2", "--out", "k.npz", "--force").code == 0


def test_words_dates_and_gaps_are_prepared_with_a_word(command, tmp_path):
    rows = ["u,1,2020-01-01", "v,,2020-02-01", "u,3,2021-01-01", "w,4,2020-06-01", "v,7,2022-01-01"] * 3
    lines = [",kind,size,when", *(f"{i},{row}" for i, row in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    arguments = ("--hidden", "8x2", "--activation", "tanh")
    result = command("kernel", "t.csv", *arguments, "--target", "size", "--out", "k.npz")
    assert result.code == 0, result.err
    notes = " ".join(result.err.split())
    assert "the first column of t, which has no name, only numbers the rows" in notes
    assert "column 'when': date, as days." in notes
    days = np.tile([18262, 18293, 18628, 18414, 18993.0], 3)
    words = np.tile([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0.0]], (3, 1))
    centred = words - words.mean(axis=0)
    x = np.column_stack([centred / np.sqrt(words.var(axis=0).sum()), (days - days.mean()) / days.std()])
    expected = fw.kernels(fw.MLP((8, 8), "tanh"), x)
    assert_close(np.load(tmp_path / "k.npz")["ntk"], expected.ntk, 1e-9)


WRONG = {
    "missing": (["kernel", "no.npy", "--hidden", "8x2", "--out", "k.npz"], "no.npy does not exist"),
    "folder": (["kernel", ".", "--hidden", "8x2", "--out", "k.npz"], "is a directory"),
    "not an array": (
        ["kernel", "text.npy", "--hidden", "8x2", "--out", "k.npz"],
        "not a .npy file of a plain array",
    ),
    "empty": (["kernel", "empty.csv", "--hidden", "8x2", "--out", "k.npz"], "empty.csv is empty"),
    "lengths": (["kernel", "two.npz", "--hidden", "8x2", "--out", "k.npz"], "differ in length: a 2, b 3"),
    "flat": (["kernel", "flat.npy", "--hidden", "8x2", "--out", "k.npz"], "reshape it to (3, 1)"),
    "nan": (["kernel", "nan.npy", "--hidden", "8x2", "--out", "k.npz"], "can be an input"),
    "target": (
        ["kernel", "x.npy", "--target", "z", "--hidden", "8x2", "--out", "k.npz"],
        "x has no column 'z'",
    ),
    "zero": (["kernel", "zero.npy", "--hidden", "8x2", "--out", "k.npz"], "zero vector in row 1"),
    "activation": (
        ["kernel", "x.npy", "--hidden", "8x2", "--activation", "tahn", "--out", "k.npz"],
        "Did you mean 'tanh'?",
    ),
    "hidden": (["kernel", "x.npy", "--hidden", "8y2", "--out", "k.npz"], "neither WIDTHxLAYERS"),
    "no layer": (["kernel", "x.npy", "--hidden", "8x0", "--out", "k.npz"], "no hidden layer"),
    "C_W": (
        ["kernel", "x.npy", "--hidden", "8x2", "--C-b", "0", "--C-W", "-1", "--out", "k.npz"],
        "--C-W must be a positive finite number, got '-1'.",
    ),
    "C_b": (
        ["kernel", "x.npy", "--hidden", "8x2", "--C-b", "-1", "--C-W", "1", "--out", "k.npz"],
        "--C-b must be a finite number, zero or more, got '-1'.",
    ),
    "no critical point": (
        ["kernel", "x.npy", "--hidden", "8x2", "--activation", "sigmoid", "--out", "k.npz"],
        "has no critical point",
    ),
    "features": (
        ["kernel", "x.npy", "--test", "narrow.npy", "--hidden", "8x2", "--out", "k.npz"],
        "narrow has 2 columns; the first table has 5 inputs",
    ),
    "output folder": (["kernel", "x.npy", "--hidden", "8x2", "--out", "no/k.npz"], "does not exist"),
    "dtype": (
        ["kernel", "x.npy", "--hidden", "8x2", "--dtype", "int8", "--out", "k.npz"],
        "float32 or float64",
    ),
    "option": (["kernel", "x.npy", "--out", "k.npz"], "missing option '--hidden'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(command, x, tmp_path, case):
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "empty.csv").write_text("")
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(3))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "nan.npy", np.array([[1.0, np.nan]]))
    np.save(tmp_path / "zero.npy", np.array([[1.0, 1.0], [0.0, 0.0]]))
    np.save(tmp_path / "narrow.npy", np.ones((2, 2)))
    before = sorted(p.name for p in tmp_path.iterdir())
    arguments, words = WRONG[case]
    result = command(*arguments)
    assert result.code == 2
    assert words in " ".join(result.err.split())
    assert "Traceback" not in result.err
    assert sorted(p.name for p in tmp_path.iterdir()) == before
