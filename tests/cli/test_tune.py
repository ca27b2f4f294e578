"""`finitewidth tune`."""

import json

import numpy as np
import pytest

import finitewidth as fw
from tolerances import assert_close


def test_table_names_the_critical_point_and_the_defaults(command):
    result = command("tune", "--activation", "gelu", "--depth", "24", "--width", "512")
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "0.17292239" in text
    assert "1.9830583" in text
    assert "PyTorch nn.Linear" in text
    assert "nn.init.normal_" in text


def test_json_is_the_advice(command, tmp_path, rng):
    x = rng.normal(size=(40, 6))
    np.save(tmp_path / "x.npy", x)
    result = command(
        "tune", "--activation", "tanh", "--depth", "4", "--width", "64", "--data", "x.npy", "--json"
    )
    advice = json.loads(result.out)
    expected = fw.tune("tanh", 4, 64, x)
    assert advice["points"] == 40
    assert_close(advice["eta_max"], expected.eta_max)
    assert_close(advice["lambda_W"], expected.net.lambda_W)


@pytest.mark.parametrize("code", ["pytorch", "jax", "both", "none"])
def test_code_on_request(command, code):
    out = command("tune", "--activation", "relu", "--depth", "2", "--width", "16", "--code", code).out
    assert ("import torch" in out) == (code in ("pytorch", "both"))
    assert ("jax.random.split" in out) == (code in ("jax", "both"))


def test_picture_on_request(command, tmp_path):
    result = command(
        "tune",
        "--activation",
        "relu",
        "--depth",
        "3",
        "--width",
        "16",
        "--code",
        "none",
        "--plot",
        "tune.png",
    )
    assert result.code == 0
    assert (tmp_path / "tune.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--activation", "gelu", "--depth", "0", "--width", "8"],
            "--depth must be a whole number from 1 to 10000, got '0'.",
        ),
        (["--activation", "gelux", "--depth", "2", "--width", "8"], "Did you mean 'gelu'?"),
        (
            ["--activation", "gelu", "--depth", "two", "--width", "8"],
            "--depth must be a whole number from 1 to 10000, got 'two'.",
        ),
        (
            ["--activation", "gelu", "--depth", "2", "--width", "8", "--data", "no.npy"],
            "no.npy does not exist",
        ),
        (["--activation", "gelu", "--depth", "2", "--width", "8", "--code", "c"], "--code must be"),
        (["--activation", "softplus", "--depth", "2", "--width", "8"], "no critical point"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(command, arguments, words):
    result = command("tune", *arguments)
    assert result.code == 2
    assert words in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_residual_networks_get_their_branch_scale_and_code(command):
    result = command(
        "tune", "--activation", "gelu", "--depth", "16", "--width", "32", "--residual", "--norm", "pre",
        "--optimizer", "adam", "--code", "both", "--plot", "tune.png",
    )  # fmt: skip
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "1/sqrt(16)" in text
    assert "torch.optim.Adam(groups)" in text
    assert "optax.adam(rate)" in text
    advice = json.loads(
        command("tune", "--activation", "gelu", "--depth", "16", "--width", "32", "--residual", "--json").out
    )
    assert advice["branch_scale"] == 0.25
    assert advice["depth"]["most_blocks"] == 0
    assert advice["depth"]["least_width"] > 80
    assert len(advice["signals"]["recommended"]["variance"]) == 17


def test_residual_networks_are_told_how_deep_they_may_be(command):
    line = ("tune", "--activation", "relu", "--depth", "50", "--width", "128", "--residual", "--code", "none")
    words = " ".join(command(*line).out.split())
    assert "most blocks │ any" in words
    assert "least width │ 79" in words
    assert "signal varies │ 0.122 │" in words


def test_options_of_residual_networks_need_one(command):
    result = command("tune", "--activation", "relu", "--depth", "4", "--width", "8", "--norm", "pre")
    assert result.code == 2
    assert "add --residual" in result.err
