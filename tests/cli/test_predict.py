"""`finitewidth predict`: right answers on disk, and one sentence for every wrong input."""

import csv
import importlib
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.report.directory import held_directory
from finitewidth.statistics.wide.kernels import Kernels
from finitewidth.tables.reading import read_table
from finitewidth.tables.study.preparation import Options, prepare
from tolerances import assert_close

SMALL = ("--hidden", "8x2", "--activation", "tanh", "--order", "0")


def write(path, columns: dict) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture
def columns(rng) -> dict:
    a, b = rng.normal(size=(2, 40))
    return {"a": a, "b": 10 + 3 * b, "price": 100 + 20 * np.sin(a) + 5 * b}


@pytest.fixture
def prices(tmp_path, columns):
    write(tmp_path / "prices.csv", columns)


def read(path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_predictions_are_those_of_the_library_in_units_of_the_target(command, prices, tmp_path):
    result = command("predict", "prices.csv", "--target", "price", *SMALL, "--ridge", "0.1", "--out", "run")
    assert result.code == 0, result.err
    assert "report: run/report.html" in result.out
    data = prepare(read_table("prices.csv"), None, Options(target="price"))
    law = fw.predict(fw.MLP((8, 8), "tanh"), data.x_train, data.y_train, data.x_test, ridge=0.1)
    got = read(tmp_path / "run" / "predictions.csv")
    assert_close(got["predicted"].astype(float), data.center + data.unit * np.asarray(law.mean)[:, 0], 1e-9)
    assert_close(got["spread of networks"].astype(float), data.unit * np.asarray(law.std), 1e-8)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    errors = got["predicted"].astype(float) - got["price"].astype(float)
    assert_close(summary["scores"]["rmse"], np.sqrt(np.mean(errors**2)), 1e-8)
    assert summary["training"]["steps"] == "inf"
    assert summary["data"]["task"] == "regression"


def test_one_prediction_takes_few_programs(command, rng, tmp_path):
    """One for every small operation on the host would take longer than the prediction: there were 152."""
    a, b = rng.normal(size=(2, 43))
    write(tmp_path / "prices.csv", {"a": a, "b": b, "price": np.sin(a) + b})
    compiled = []

    def count(name: str, seconds: float, **details) -> None:
        compiled.append(name == "/jax/core/compile/backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        assert command("predict", "prices.csv", "--target", "price", *SMALL).code == 0
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert 0 < sum(compiled) <= 75


def test_the_first_correction_is_that_of_the_library(command, columns, tmp_path):
    write(tmp_path / "few.csv", {name: values[:5] for name, values in columns.items()})
    asked = ("predict", "few.csv", "--target", "price", "--hidden", "64", "--order", "1", "--steps", "40")
    result = command(*asked, "--train", "3", "--verify", "4", "--out", "run")
    assert result.code == 0, result.err
    assert "finite width" in result.out
    data = prepare(read_table("few.csv"), None, Options(target="price", train=3))
    net, descent = fw.MLP((64,), "tanh"), fw.GradientDescent(steps=40)
    law = fw.predict(net, data.x_train, data.y_train, data.x_test, descent, order=1)
    got = read(tmp_path / "run" / "predictions.csv")
    correction = data.unit * np.asarray(law.mean_correction)[:, 0]
    assert np.abs(correction).max() > 0
    assert_close(got["correction"].astype(float), correction, 1e-8)
    assert_close(got["predicted"].astype(float), data.center + data.unit * np.asarray(law.mean)[:, 0], 1e-9)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["prediction"]["order"] == 1
    assert summary["finite width"]["trusted_width"] == law.validity.trusted_width
    variances = data.unit**2 * np.diag(law.covariance_correction)
    assert_close(
        summary["finite width"]["correction of the variance (rms)"], np.sqrt(np.mean(variances**2)), 1e-8
    )
    assert "variance between networks" in " ".join(result.out.replace("│", " ").split())
    assert summary["finite width"]["words"] in (tmp_path / "run" / "report.html").read_text()
    assert 'id="finite-width"' in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("--order", "2"), "--order must be auto, 0, 1 or 1/2, got '2'."),
        (("--stop", "auto", "--steps", "40"), "give --steps 40, or --stop auto to have the number chosen"),
        (("--order", "1", "--activation", "relu"), "order=1 needs an activation without kinks"),
        (
            ("--order", "1", "--most-samples", "0"),
            "--most-samples must be a whole number, 1 or more, got '0'.",
        ),
    ],
)
def test_orders_that_do_not_exist_are_refused(command, prices, tmp_path, asked, sentence):
    result = command("predict", "prices.csv", "--target", "price", "--hidden", "8", *asked, "--out", "run")
    assert result.code != 0
    assert sentence in result.err
    assert not (tmp_path / "run").exists()


def test_order_one_takes_a_ridge_and_a_number_of_steps(command, prices, tmp_path):
    asked = ("--hidden", "512", "--order", "1", "--ridge", "0.5", "--steps", "9")
    result = command("predict", "prices.csv", "--target", "price", *asked, "--out", "run")
    assert result.code == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["prediction"]["order"] == 1
    assert summary["training"]["ridge"] == 0.5
    assert summary["finite width"]["correction of the variance (rms)"] > 0


def test_verification_is_written_and_printed(command, prices, tmp_path):
    asked = ("--hidden", "32", "--steps", "30", "--order", "0", "--verify", "6")
    result = command("predict", "prices.csv", "--target", "price", *asked)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert any(line.startswith("6 networks of width 32, 30 steps") for line in lines)
    assert any(line.startswith("spread: ") for line in lines)
    summary = json.loads((tmp_path / "predict-prices" / "summary.json").read_text())
    assert summary["verification"]["networks"] == 6
    assert summary["training"] | {"steps": 30, "ridge": 0.0} == summary["training"]
    data = prepare(read_table("prices.csv"), None, Options(target="price"))
    net = fw.MLP((32,), summary["network"]["activation"])
    descent = fw.GradientDescent(summary["training"]["eta"], 30)
    law = fw.predict(net, data.x_train, data.y_train, data.x_test, descent)
    check = fw.verify(law, 6, key=jax.random.key(0), dtype=jnp.float32)
    spread = check.outputs.std(axis=0, ddof=1)
    told = summary["verification"]
    assert_close(
        told["std, measured over predicted"],
        np.sqrt(np.mean(spread**2) / np.mean(np.diag(np.asarray(law.covariance)))),
        1e-5,
    )
    gap = check.outputs.mean(axis=0) - np.asarray(law.mean)
    size = np.mean(np.asarray(law.mean) ** 2)
    assert_close(told["difference of means"], np.sqrt(np.mean(gap**2) / size), 1e-5)
    assert_close(told["difference of means from noise alone"], np.sqrt(np.mean(spread**2) / 6 / size), 1e-5)
    assert told["expected from finite width, in order of magnitude"] == 2 / 32
    assert (told["agrees"], told["alarms"]) == (check.agrees, list(check.alarms))
    squares = np.mean((check.outputs - check.outputs.mean(axis=0)) ** 2, axis=(1, 2))
    # A sixth of the squares is lost to their mean, in the ratio and not in the error.
    relative = 5 / 6 * squares.std(ddof=1) / squares.mean() / np.sqrt(6) / 2
    error = told["std, measured over predicted, standard error"] / told["std, measured over predicted"]
    assert_close(error, relative, 1e-4)
    whole = told["as a whole"]
    assert_close(whole["mean, probability"], check.overall.mean, 1e-4)
    assert_close(whole["std, measured over predicted"], check.overall.spread.ratio.value, 1e-4)
    assert_close(whole["error of the predicted std noticed in 95 of 100 cases"], check.detectable, 1e-4)


def test_enough_networks_are_trained_to_notice_what_is_asked(command, prices, tmp_path):
    asked = ("--hidden", "32", "--steps", "2", "--order", "0", "--detect", "0.5", "--out", "run")
    result = command("predict", "prices.csv", "--target", "price", *asked)
    assert result.code == 0, result.err
    told = json.loads((tmp_path / "run" / "summary.json").read_text())["verification"]
    assert 3 <= told["networks"] < 100
    assert told["as a whole"]["error of the predicted std noticed in 95 of 100 cases"] <= 0.5
    assert "or more would have been noticed nineteen times in twenty" in result.out
    both = command("predict", "prices.csv", "--target", "price", "--detect", "0.5", "--verify", "9")
    assert both.code == 2
    assert "give --verify 9, or --detect 0.5 to have the number chosen; not both." in both.err


def test_classes_are_detected_and_scored(command, tmp_path):
    result = command("predict", "iris", *SMALL, "--out", "run")
    assert result.code == 0, result.err
    assert "accuracy" in result.out
    got = read(tmp_path / "run" / "predictions.csv")
    kinds = ["setosa", "versicolor", "virginica"]
    probability = np.stack([got[f"probability {kind}"].astype(float) for kind in kinds], axis=1)
    assert_close(probability.sum(axis=1), np.ones(30), 1e-8)
    assert (np.array(kinds)[probability.argmax(axis=1)] == got["predicted"]).all()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert_close(summary["scores"]["accuracy"], np.mean(got["predicted"] == got["target"]))
    assert summary["scores"]["accuracy"] > 0.9
    assert summary["data"]["classes"] == kinds


def test_a_test_file_without_answers_is_predicted_without_scores(command, prices, columns, tmp_path):
    write(tmp_path / "new.csv", {"a": columns["a"][:5], "b": columns["b"][:5]})
    result = command(
        "predict", "prices.csv", "--test", "new.csv", "--target", "price", *SMALL, "--out", "run"
    )
    assert result.code == 0, result.err
    got = read(tmp_path / "run" / "predictions.csv")
    assert list(got) == ["row", "predicted", "std", "spread of networks"]
    # These rows were learnt, so they are predicted well.
    assert np.abs(got["predicted"].astype(float) - columns["price"][:5]).max() < 5
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["scores"] is None


def test_new_rows_get_one_line_each(command, columns, tmp_path, rng):
    kinds = np.where(rng.uniform(size=40) > 0.5, "new", "old")
    columns["price"] += 10.0 * (kinds == "new")
    whole = {"": np.arange(40)} | columns | {"kind": kinds, "note": [f"row {i}" for i in range(40)]}
    write(tmp_path / "shop.csv", whole)
    rows = {
        "kind": ["new", "older", "old", ""],
        "b": [9.5, "", 11.0, 9.0],
        "a": [0.3, 0.1, -0.2, 0.5],
        "z": [1] * 4,
    }
    write(tmp_path / "rows.csv", rows)
    result = command("predict", "shop.csv", "--new", "rows.csv", "--target", "price", *SMALL, "--out", "run")
    assert result.code == 0, result.err
    notes = " ".join(result.err.split())
    assert "the first column of shop, which has no name, only numbers the rows and was left out." in notes
    assert "column 'kind' of rows holds 'older' and 1 more words, unknown to training" in notes
    assert "rows has 1 gap in column 'b', where training had none; filled with the median" in notes
    assert "column 'z' of rows is not in the training table: not used." in notes
    got = read(tmp_path / "run" / "predictions.csv")
    assert got["row"].tolist() == ["1", "2", "3", "4"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["data"]["features"] == ["a", "b", "kind=old"]
    assert {"column": "note", "done": "40 different words in 40 rows, like names: left out", "inputs": 0} in (
        summary["data"]["columns"]
    )
    assert summary["scores"] is None
    assert summary["other methods"] == []
    assert summary["scores at left-out training rows"]["r2"] > 0.5
    # The same rows in another format and another order of columns get the same predictions.
    np.savez(tmp_path / "rows.npz", **{name: np.array(rows[name], str) for name in ("a", "b", "kind")})
    again = command("predict", "shop.csv", "--new", "rows.npz", "--target", "price", *SMALL, "--out", "again")
    assert again.code == 0, again.err
    assert (tmp_path / "again" / "predictions.csv").read_text() == (
        tmp_path / "run" / "predictions.csv"
    ).read_text()


def test_other_methods_are_told_with_their_errors(command, prices, tmp_path):
    from sklearn.linear_model import RidgeCV

    result = command("predict", "prices.csv", "--target", "price", *SMALL, "--ridge", "0.1", "--out", "run")
    assert result.code == 0, result.err
    data = prepare(read_table("prices.csv"), None, Options(target="price"))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    ridge, *others = summary["other methods"]
    assert [other["name"] for other in others] == ["tuned gradient boosting", "tuned extra trees"]
    model = RidgeCV(np.logspace(-3, 5, 17)).fit(data.x_train, data.y_train[:, 0])
    assert_close(ridge["score"], model.score(data.x_test, data.y_test[:, 0]), 1e-9)
    error = data.unit * (model.predict(data.x_test) - data.y_test[:, 0])
    assert_close(ridge["rmse"], np.sqrt(np.mean(error**2)), 1e-9)
    own = summary["scores"]["r2"]
    assert_close(ridge["networks ahead by"], own - ridge["score"], 1e-9)
    line = f"{ridge['score']:.3f} +- {ridge['standard error of score']:.3f}"
    assert "tuned ridge regression" in result.out
    assert line in " ".join(result.out.replace("│", " ").split())
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'id="comparison"' in page
    assert others[0]["settings"] in page


def test_another_run_is_never_overwritten_unless_asked(command, prices, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text("precious")
    arguments = ("predict", "prices.csv", "--target", "price", *SMALL, "--out", "run")
    refused = command(*arguments)
    assert refused.code == 2
    assert "run already holds another run (summary.json): choose another --out" in " ".join(
        refused.err.split()
    )
    assert (tmp_path / "run" / "summary.json").read_text() == "precious"
    assert command(*arguments, "--force").code == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["data"]["name"] == "prices"
    names = ["predictions.csv", "report.html", "summary.json"]
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == names


def test_duplicates_are_noted_with_a_ridge_and_refused_without(command, columns, tmp_path):
    for name in ("a", "b"):
        columns[name][7] = columns[name][2]
    write(tmp_path / "twice.csv", columns)
    write(tmp_path / "new.csv", {name: values[:3] + 0.1 for name, values in columns.items()})
    arguments = ("predict", "twice.csv", "--test", "new.csv", "--target", "price", *SMALL, "--out", "run")
    refused = command(*arguments, "--ridge", "0")
    assert refused.code == 2
    assert "training rows 3 and 8 are equal in all features." in refused.err
    assert "is singular: training points 2 and 7 are equal" in " ".join(refused.err.split())
    assert not (tmp_path / "run").exists()
    noted = command(*arguments)
    assert noted.code == 0
    assert "note: training rows 3 and 8 are equal in all features." in noted.err


TABLES = {
    "words.csv": {"a": ["x", "y"] * 10, "b": np.arange(20.0)},
    "constant.csv": {"c": np.full(20, 4.0), "y": np.arange(20) / 3},
    "one.csv": {"a": [1.0], "y": [2.5]},
    "few.csv": {"a": np.arange(5.0), "name": list("uvwxy")},
}
WRONG = {
    "missing column": (["prices.csv", "--target", "prise"], "no column 'prise'. Did you mean 'price'?"),
    "no target": (["prices.csv"], "say which column of prices to predict with --target: a, b, price"),
    "constant": (["constant.csv", "--target", "y"], "every feature of constant is constant over the 16"),
    "words": (["prices.csv", "--target", "price", "--new", "words.csv"],
              "column 'a' of words holds 'x' in row 1; in training it holds numbers"),
    "missing": (["prices.csv", "--target", "price", "--new", "one.csv"], "one has no column 'b', which the"),
    "both": (["prices.csv", "--target", "price", "--new", "a", "--test", "b"], "give --test, .* not both"),
    "one row": (["one.csv", "--target", "y"], "one has 1 row"),
    "one training row": (["one.csv", "--target", "y", "--test", "one.csv"], "one training row in one"),
    "classes": (["few.csv", "--target", "name"], "target 'name' has 5 classes and there are 4 training rows"),
    "eta": (["prices.csv", "--target", "price", "--eta", "5"], r"eta=5 is not below 2/lambda_max=0\.\d+"),
    "eta word": (["prices.csv", "--target", "price", "--eta", "big"], "--eta must be auto or a positive"),
    "steps": (["prices.csv", "--target", "price", "--steps", "1.5"], "--steps must be a whole number, zero"),
    "ridge": (["prices.csv", "--target", "price", "--ridge", "-1"], "--ridge must be auto or a finite"),
    "verify": (["prices.csv", "--target", "price", "--verify", "2"], "--verify 2 is too few"),
    "hidden": (["prices.csv", "--target", "price", "--hidden", "8y"], "neither WIDTHxLAYERS"),
    "activation": (["prices.csv", "--target", "price", "--activation", "tahn"], "Did you mean 'tanh'?"),
    "unknown data": (["bostn"], "'bostn' is neither a data set"),
    "absent": (["none.csv"], "none.csv does not exist"),
    "out folder": (["prices.csv", "--target", "price", "--out", "no/where"], "the folder no of --out"),
    "out file": (["prices.csv", "--target", "price", "--out", "prices.csv"], "is a file; name a directory"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_nothing_is_written(command, prices, tmp_path, case):
    for name, table in TABLES.items():
        write(tmp_path / name, table)
    before = sorted(p.name for p in tmp_path.iterdir())
    arguments, words = WRONG[case]
    result = command("predict", *arguments)
    assert result.code == 2
    sentence = " ".join(result.err.split())
    assert re.search(words.replace("?", r"\?"), sentence), sentence
    assert "Traceback" not in result.err
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_prediction_and_verification_compute_each_kernel_once(command, prices, monkeypatch):
    """Train, test-train and test: for the ridge, the law, the law at the last step and the loss curves."""
    recursion = importlib.import_module("finitewidth.statistics.wide.kernels")
    shapes = []
    for name in ("blocks_by_laws", "_symmetric", "_rectangular"):
        monkeypatch.setattr(recursion, name, _counted(getattr(recursion, name), shapes))
    asked = ("--verify", "3", "--most-steps", "20")
    result = command("predict", "prices.csv", "--target", "price", *SMALL, *asked)
    assert result.code == 0, result.err
    assert sorted(shapes) == [(8, 8), (8, 32), (32, 32)]


def _counted(function, shapes):
    def counted(*args):
        found = function(*args)
        shapes.extend(pair.ntk.shape for pair in ([found] if isinstance(found, Kernels) else found))
        return found

    return counted


def test_two_runs_in_the_same_place(command, prices, tmp_path):
    asked = ("predict", "prices.csv", "--target", "price", *SMALL, "--out", "run")
    with held_directory(tmp_path / "run", force=False):
        result = command(*asked)
    assert result.code == 2
    assert result.err == "error: another run is writing to run: wait for it, or choose another --out.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prices.csv"]


def test_names_do_not_command_the_terminal(command, columns, tmp_path):
    """Nor the browser, nor the formulas of the figures."""
    words = ["\x1b[5mblink", "plain", "\x07ring"]
    names = ["\x1b]0;title\x07", "\x9b2J", "$\\frac{1$\x1b[2J"]
    word = [words[i % 3] for i in range(len(columns["a"]))]
    odd = dict(zip(names, columns.values(), strict=True)) | {"word": word}
    write(tmp_path / "\x1b[31mred\udcff.csv", odd)
    result = command(
        "predict", "\x1b[31mred\udcff.csv", "--target", names[2], *SMALL, "--ridge", "0.1", "--out", "run"
    )
    assert result.code == 0, result.err
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for text in (result.out, result.err, report):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    for text in (result.out, report):
        assert "␛]0;title" in text
        assert "␛[31mred�" in text
    result = command("predict", "\x1b[2Jno.csv", "--out", "other")
    assert result.err == "error: ␛[2Jno.csv does not exist.\n"
