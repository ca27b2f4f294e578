"""The scripts of examples/ run, at their smallest, and print what they are about."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

from finitewidth import course as lab

EXAMPLES = Path(__file__).parents[1] / "examples"
# What each is called with, and words that it must print.
CALLS = {
    "kernel_regression_on_digits": ([], ["infinitely wide ReLU network: accuracy 0.99"]),
    "diagnose_a_pytorch_model": ([], ["saturated units", "gain 1.0: No fault found."]),
    "fifty_layers": (["--steps", "1"], ["recommended:", "PyTorch, rate 0.01: loss"]),
    "three_widths": (
        ["--widths", "16", "--networks", "3"],
        ["width 16: infinite width", "picture: three_widths.png"],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_runs(name, tmp_path, monkeypatch, capsys, unchecked_annotations):
    arguments, words = CALLS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [word for word in words if word not in printed] == []


def test_the_figures_of_the_lectures_are_of_claims_from_them():
    """These claims run in tests/lab."""
    tree = ast.parse((EXAMPLES / "lecture_figures.py").read_text(encoding="utf-8"))
    (shown,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CLAIMS"
    ]
    sources = {lecture.partition(":")[0]: lab.claim(id).source for lecture, id in shown.items()}
    assert "Principles of Deep Learning" in sources.pop("the talk")
    for lecture, source in sources.items():
        assert lecture in source


def test_all_examples_are_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*CALLS, "lecture_figures"}
