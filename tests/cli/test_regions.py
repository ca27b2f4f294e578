"""`finitewidth regions`: right counts, a picture, and one sentence for every wrong input."""

import json

import numpy as np
import pytest

NETWORKS = """
import numpy as np

LINES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([0.0, 0.0, -1.0])
WEIGHTS = [LINES, (np.ones((1, 3)), np.zeros(1))]

def network():
    import jax.numpy as jnp

    def apply(params, x):
        (w, b), (v, c) = params
        return jnp.maximum(x @ w.T + b, 0) @ v.T + c

    return apply, WEIGHTS

def image():
    from torch import nn

    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1))

def smooth():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())

number = 3
"""


@pytest.fixture(autouse=True)
def _networks(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS)


def test_a_plane_by_numbers(command, tmp_path):
    result = command(
        "regions", "networks.py:network", "--plane", "-1,-1;2,-1;-1,2", "--margin", "0", "--json",
        "--out", "cells.png",
    )  # fmt: skip
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    # Three lines in general position that meet within the square: 1 + 3 + 3 cells.
    assert facts["regions"] == 7
    assert facts["neurons"] == 3
    assert facts["area"] == pytest.approx(9)
    assert (tmp_path / "cells.png").read_bytes().startswith(b"\x89PNG")
    again = command("regions", "networks.py:network", "--plane", "0,0;1,0;0,1", "--out", "cells.png")
    assert again.code == 2
    assert "exists already" in again.err


def test_rows_of_a_table_and_a_line(command, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[9.0, 9.0], [-1.0, -1.0], [2.0, -1.0], [-1.0, 2.0]]))
    arguments = ("regions", "networks:network", "--data", "x.npy")
    result = command(*arguments, "--plane", "1,2,3", "--colour", "output", "--out", "cells.svg")
    assert result.code == 0, result.err
    assert "regions        7" in result.out
    line = command(*arguments, "--line", "1,0", "--json", "--out", "line.png")
    # Along the diagonal both axes are crossed at once, then the third line.
    assert json.loads(line.out)["pieces"] == 3


def test_images_have_a_shape(command, tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.normal(size=(4, 9)))
    result = command(
        "regions", "networks.py:image", "--data", "x.npy", "--plane", "0,1,2", "--shape", "1,3,3", "--json"
    )
    assert result.code == 0, result.err
    assert json.loads(result.out)["neurons"] == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("networks.py:network",), "either --plane with three inputs or --line with two"),
        (("networks.py:network", "--plane", "0,0;1,0"), "must be 3 inputs of one length"),
        (("networks.py:network", "--plane", "0,0;1,0;2,0"), "on one line"),
        (("networks.py:network", "--plane", "0,0;1,0;a,0"), "must be numbers"),
        (("networks.py:network", "--plane", "0,1,2"), "there is no --data"),
        (("networks.py:network", "--line", "0,0;0,0"), "the same input"),
        (("networks.py:network", "--plane", "0,0;1,0;0,1", "--shape", "3"), "--shape 3 holds 3 numbers"),
        (("networks.py:nothing", "--plane", "0,0;1,0;0,1"), "has no factory 'nothing'"),
        (("networks.py:number", "--plane", "0,0;1,0;0,1"), "is no function"),
        (("elsewhere.py:network", "--plane", "0,0;1,0;0,1"), "elsewhere.py does not exist"),
        (("nowhere:network", "--plane", "0,0;1,0;0,1"), "there is no module 'nowhere'"),
        (("network", "--plane", "0,0;1,0;0,1"), "MODEL must be module:factory"),
        (("networks.py:smooth", "--plane", "0,0;1,0;0,1"), "nn.Tanh"),
        (("networks.py:network", "--plane", "0,0;1,0;0,1", "--out", "x.gif"), "a picture must end in"),
    ],
)
def test_one_sentence_for_wrong_input(command, arguments, words):
    result = command("regions", *arguments)
    assert result.code == 2
    assert words in " ".join(result.err.split())
    assert "Traceback" not in result.err
