"""Images from arrays: `finitewidth predict --network` and the estimators, as the library itself predicts."""

import json

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.estimators.wide_network import NNGPClassifier, NTKRegressor
from finitewidth.tables.reading import read_table
from tolerances import assert_close

NET = fw.Sequential(fw.Conv(8, (3, 3), C_b=0.1, C_W=2.0), fw.Activate("relu"), fw.Flatten(), fw.Dense(1))
USUAL = ("predict", "images.npz", "--network", "net.json", "--order", "0", "--out", "run")


@pytest.fixture
def images(rng, tmp_path, monkeypatch) -> dict[str, np.ndarray]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.json").write_text(json.dumps(NET.spec))
    x = 3 + 2 * rng.normal(size=(24, 4, 3, 2))
    # One pixel is black in every image, and one counts the images.
    x[:, 0, 0, 0], x[:, 0, 0, 1] = 0.0, np.arange(24)
    arrays = {"x": x, "y": 5 + np.sin(x[:, 1, 1, 0]) + x[:, 2, 1, 1] ** 2}
    np.savez("images.npz", **arrays)
    return arrays


def test_predictions_are_those_of_the_library(command, images, tmp_path):
    x, y = images["x"], images["y"]
    np.savez("learn.npz", x=x[:18], y=y[:18])
    np.savez("later.npz", x=x[18:])
    done = command("predict", "learn.npz", *USUAL[2:], "--new", "later.npz", "--ridge", "0.2")
    assert done.code == 0, done.err
    unit = np.sqrt(x[:18].var(axis=0).mean())
    seen, later = ((part - x[:18].mean(axis=0)) / unit for part in (x[:18], x[18:]))
    law = fw.predict(NET, seen, (y[:18] - y[:18].mean()) / y[:18].std(), later, ridge=0.2)
    got = np.genfromtxt(tmp_path / "run" / "predictions.csv", delimiter=",", names=True)
    assert_close(got["predicted"], y[:18].mean() + y[:18].std() * np.asarray(law.mean)[:, 0], 1e-9)
    assert_close(got["spread_of_networks"], y[:18].std() * np.asarray(law.std), 1e-8)
    assert "(images of 4 x 3 x 2)" in (tmp_path / "run" / "report.html").read_text()


def test_positions_matter(command, images, tmp_path):
    """Pixels in another order are other images: a network without positions would not notice."""
    assert command(*USUAL).code == 0
    first = (tmp_path / "run" / "predictions.csv").read_text()
    order = np.random.default_rng(0).permutation(12)
    mixed = images["x"].reshape(24, 12, 2)[:, order].reshape(24, 4, 3, 2)
    np.savez("images.npz", x=mixed, y=images["y"])
    assert command(*USUAL, "--force").code == 0
    assert (tmp_path / "run" / "predictions.csv").read_text() != first


def changed(**arrays):
    return lambda images: images | {name: change(images) for name, change in arrays.items()}


WRONG = {
    "no labels": (
        lambda images: {"x": images["x"]},
        "images holds images and no labels to learn: save them beside the images, as y, (rows,).",
    ),
    "two": (
        changed(z=lambda images: images["x"]),
        "the array 'z' of images.npz is the second one with images; a file may hold one.",
    ),
    "more labels": (
        changed(w=lambda images: images["y"]),
        "images.npz holds images, and beside them may be one label for each, not ['y', 'w'].",
    ),
    "fewer labels": (
        changed(y=lambda images: images["y"][:3]),
        "images.npz holds 24 images and 3 labels; give one label for each image.",
    ),
    "NaN": (
        changed(x=lambda images: np.where(images["x"] == 5, np.nan, images["x"])),
        "the array 'x' of images.npz holds NaN or infinite values, first in row 6.",
    ),
    "words": (
        changed(x=lambda images: images["x"].astype("U4")),
        "the array 'x' of images.npz has shape (24, 4, 3, 2) and type <U4; images are numbers, (rows, "
        "*positions, channels), with one to three axes of positions.",
    ),
    "no channels": (
        changed(x=lambda images: images["x"][..., 0]),
        "layer 0: Conv has a window of 2 axes, (3, 3), and needs inputs of shape (positions, positions, "
        "channels); got (4, 3).",
    ),
    "a table": (
        changed(x=lambda images: images["x"][:, 1, 1]),
        "layer 0: Conv has a window of 2 axes, (3, 3), and needs inputs of shape (positions, positions, "
        "channels); got (2,).",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arrays_are_one_sentence(command, images, tmp_path, what):
    change, sentence = WRONG[what]
    np.savez("images.npz", **change(images))
    assert_refused(command(*USUAL), sentence, tmp_path)


OPTIONS = {
    (
        "--test",
        "other.npz",
    ): "images holds images of shape (4, 3, 2) and other images of shape (3, 3, 2); they must agree.",
    ("--test", "table.csv"): "images holds images of shape (4, 3, 2) and table no images; they must agree.",
    ("--target", "x0"): "images holds images and no labels 'x0' to learn: save them beside the images, as y, "
    "(rows,).",
    (
        "--scale",
        "column",
    ): "--scale column would treat every pixel of images by itself: images take common or none.",
}


@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_wrong_options_are_one_sentence(command, images, tmp_path, option):
    np.savez("other.npz", x=images["x"][:, 1:], y=images["y"])
    (tmp_path / "table.csv").write_text("x0,y\n1,2\n3,4\n")
    assert_refused(command(*USUAL, *option), OPTIONS[option], tmp_path)


def test_images_need_a_network_with_positions(command, images, tmp_path):
    sentence = "the data are images of shape (4, 3, 2): give a network that takes them, as --network."
    assert_refused(command("predict", "images.npz", "--out", "run"), sentence, tmp_path)
    with pytest.raises(ValueError, match=r"images.npz holds images of shape \(4, 3, 2\); here columns"):
        read_table("images.npz")


def assert_refused(result, sentence, folder):
    assert result.code == 2
    assert " ".join(result.err.split()) == f"error: {sentence}"
    assert not (folder / "run").exists()


def test_estimators_take_what_their_network_takes(images):
    x, y = images["x"] / 5, images["y"]
    model = NTKRegressor(net=NET, ridge=0.1).fit(x[:18], y[:18])
    mean, std = model.predict(x[18:], return_std=True)
    law = fw.predict(NET, x[:18], y[:18], x[18:], fw.DirectOptimization(), ridge=0.1)
    assert_close(mean, np.asarray(law.mean)[:, 0], 1e-9)
    assert_close(std, np.asarray(law.std), 1e-8)
    labels = np.where(y > np.median(y), "large", "small")
    classes = NNGPClassifier(net=NET.spec, noise=0.1).fit(x[:18], labels[:18])
    posterior = fw.predict(
        NET, x[:18], np.where(labels[:18] == "large", 0.5, -0.5), x[18:], fw.BayesianInference(0.1)
    )
    assert_close(classes.decision_function(x[18:]), -2 * np.asarray(posterior.mean)[:, 0], 1e-9)
    with pytest.raises(ValueError, match=r"\(4, 3, 2\).*\(4, 2, 2\)|\(4, 2, 2\).*\(4, 3, 2\)"):
        model.predict(x[18:, :, 1:])
    with pytest.raises(ValueError, match="dim 4"):
        NTKRegressor().fit(x[:18], y[:18])
