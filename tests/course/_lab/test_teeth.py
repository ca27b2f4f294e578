"""Which errors of the theory a claim notices, on claims made for the purpose whose answers follow by hand."""

import dataclasses
import importlib
import json

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from finitewidth.cli import app
from finitewidth.course._lab import registry
from finitewidth.course._lab.claim import Claim
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound, z_score
from finitewidth.course._lab.estimate import Estimate, exact
from finitewidth.course._lab.runner import record, run_claim
from finitewidth.course._lab.teeth import LADDER

runner = CliRunner()


@dataclasses.dataclass(frozen=True)
class Size:
    size: int


def made(predicted, measured, compare, **fields) -> Claim:
    """A claim with these two sides."""
    return Claim(
        id="made",
        title="made",
        chapter="Test",
        statement="Made.",
        source="test",
        quick=Size(1),
        full=Size(2),
        theory=lambda setting: predicted,
        measure=lambda setting, key: measured,
        compare=lambda setting, p, m: compare(p, m),
        wrong={},
        **fields,
    )


def teeth(*arguments, scale="quick", **fields):
    outcome = run_claim(made(*arguments, **fields), scale, teeth=True)
    assert outcome.holds
    return {tooth.quantity: tooth for tooth in outcome.teeth}


def within(tolerance):
    """A comparison by absolute errors."""
    return lambda p, m: [absolute_error(name, p[name], m[name], tolerance) for name in p]


@pytest.mark.parametrize(
    ("tolerance", "larger", "smaller"),
    # 4 may be wrong by the tolerance: 4 f - 4 and 4 - 4 / f pass it first at these factors.
    [(0.02, 1.01, 1.01), (0.2, 1.1, 1.1), (0.38, 1.1, 1.3), (3.0, 2.0, 5.0), (3.5, 2.0, np.inf),
     (17.0, np.inf, np.inf)],
)  # fmt: skip
def test_the_factor_is_the_first_that_leaves_the_tolerance(tolerance, larger, smaller):
    (tooth,) = teeth({"x": np.array(4.0)}, {"x": exact(4.0)}, within(tolerance)).values()
    assert (tooth.larger, tooth.smaller, tooth.notices) == (larger, smaller, max(larger, smaller))
    assert tooth.sharp == (tooth.notices <= 1.3)


def test_negative_predictions_become_larger_and_smaller_too():
    (tooth,) = teeth({"x": np.array([-4.0, 4.0])}, {"x": exact(np.array([-4.0, 4.0]))}, within(0.38)).values()
    assert (tooth.larger, tooth.smaller) == (1.1, 1.1)


def test_a_factor_counts_only_if_all_larger_ones_fail():
    """A comparison of whole numbers modulo 8: 4 times 5 is 4 again."""
    compare = lambda p, m: [absolute_error("x", p["x"] % 8, m["x"], 0.1)]
    (tooth,) = teeth({"x": np.array(2.0)}, {"x": exact(2.0)}, compare).values()
    assert (tooth.larger, tooth.smaller) == (np.inf, 1.1)


def test_what_is_not_compared_notices_nothing_not_even_the_sign():
    both = {"seen": np.array(1.0), "unseen": np.array(1.0)}
    compare = lambda p, m: [absolute_error("seen", p["seen"], m["seen"], 1e-3)]
    found = teeth(both, {"seen": exact(1.0)}, compare)
    assert found["seen"].sharp
    assert (found["unseen"].notices, found["unseen"].sign, found["unseen"].sharp) == (np.inf, False, False)


def test_a_comparison_of_squares_is_told_of_the_sign():
    compare = lambda p, m: [absolute_error("x", p["x"] ** 2, m["x"], 1e-3)]
    (tooth,) = teeth({"x": np.array(1.0)}, {"x": exact(1.0)}, compare).values()
    assert (tooth.notices, tooth.sign, tooth.sharp) == (1.01, False, False)


@pytest.mark.parametrize(("unit", "factor"), [(None, 1.3), (10.0, 1.03), (0.1, 5.0)])
def test_zero_moves_by_parts_of_its_unit(unit, factor):
    """By 0.3 of 1, 0.03 of 10, 4 times 0.1."""
    fields = {} if unit is None else {"units": {"x": unit}}
    (tooth,) = teeth({"x": np.zeros(2)}, {"x": exact(np.zeros(2))}, within(0.25), **fields).values()
    assert tooth.notices == tooth.larger == tooth.smaller == factor
    assert tooth.unit == (unit or 1.0)


@pytest.mark.parametrize(
    ("bound", "predicted", "measured", "factor"),
    [("above", 4.0, 3.0, 2.0), ("above", 4.0, 0.05, 100.0), ("above", 4.0, -1.0, np.inf),
     ("above", -3.0, -4.0, 2.0), ("below", 3.0, 4.0, 2.0),
     ("below", 0.02, 4.0, 1000.0), ("below", -4.0, -3.0, 2.0)],
)  # fmt: skip
def test_a_bound_is_made_wrong_on_its_own_side(bound, predicted, measured, factor):
    def compare(p, m):
        lower, upper = (p["x"], m["x"].value) if bound == "below" else (m["x"].value, p["x"])
        return [upper_bound("x", upper, lower)]

    (tooth,) = teeth(
        {"x": np.array(predicted)}, {"x": exact(measured)}, compare, bounds={"x": bound}
    ).values()
    assert tooth.notices == factor
    assert tooth.sharp == (factor <= 5)


def test_the_stated_factor_is_that_of_the_scale_or_of_the_claim():
    def sharp(scale, tolerance, **fields):
        (tooth,) = teeth(
            {"x": np.array(4.0)}, {"x": exact(4.0)}, within(tolerance), scale=scale, **fields
        ).values()
        return tooth.stated, tooth.sharp

    assert sharp("quick", 0.38) == (1.3, True)
    assert sharp("full", 0.38) == (1.1, False)
    assert sharp("quick", 3.0) == (1.3, False)
    assert sharp("quick", 3.0, notices={"x": 5.0}) == (5.0, True)
    assert sharp("full", 3.0, notices={"x": (5.0, 2.0)}) == (2.0, False)
    assert sharp("quick", 3.0, notices={"x": (5.0, 2.0)}) == (5.0, True)


def test_a_claim_that_speaks_of_an_unknown_prediction_is_refused():
    for fields in (
        {"notices": {"y": 2.0}},
        {"bounds": {"y": "above"}},
        {"units": {"y": 2.0}},
        {"context": ("y",)},
    ):
        with pytest.raises(ValueError, match="says something about y: no such prediction"):
            run_claim(made({"x": np.array(1.0)}, {"x": exact(1.0)}, within(0.1), **fields))


@pytest.mark.parametrize("side", ["predicted", "measured"])
def test_what_is_not_a_number_fails_even_if_nothing_compares_it(side):
    numbers = {"x": np.array(1.0), "y": np.array([1.0, np.nan, 2.0])}
    predicted = numbers if side == "predicted" else {"x": numbers["x"]}
    measured = {n: exact(v) for n, v in (numbers if side == "measured" else {"x": numbers["x"]}).items()}
    compare = lambda p, m: [absolute_error("x", p["x"], m["x"], 0.1)]
    outcome = run_claim(made(predicted, measured, compare))
    assert not outcome.holds
    (failed,) = [check for check in outcome.verdict.checks if not check.holds]
    assert (failed.measured, failed.name) == (1.0, f"entries of y that are {side} as not a number")
    excused = run_claim(made(predicted, measured, compare, gaps={"y": "nothing to measure there"}))
    assert excused.holds
    assert record(excused)["gaps"] == {"y": "nothing to measure there"}


def test_context_reaches_the_figure_and_no_comparison():
    seen = {}

    def compare(p, m):
        seen["compared"] = set(p)
        return [absolute_error("x", p["x"], m["x"], 0.1)]

    claim = made(
        {"x": np.array(1.0), "line": np.arange(3.0)},
        {"x": exact(1.0)},
        compare,
        context=("line",),
        figure=lambda setting, p, m: seen.update(drawn=set(p)),
    )
    outcome = run_claim(claim, teeth=True)
    outcome.draw()
    assert seen == {"compared": {"x"}, "drawn": {"x", "line"}}
    assert [tooth.quantity for tooth in outcome.teeth] == ["x"]
    assert record(outcome)["context"] == {"line": [0.0, 1.0, 2.0]}
    assert list(record(outcome)["predicted"]) == ["x"]


def test_a_record_names_what_its_comparisons_forgive():
    """1.7 standard errors that an allowance turns into zero."""
    measured = {"x": Estimate(np.array(1.17), np.array(0.1)), "y": exact(1.02), "z": exact(1.02)}
    compare = lambda p, m: [
        z_score("x", p["x"], m["x"], 0.3, "depth / width"),
        relative_error("y", p["y"], m["y"], 0.03, "rounding of a table"),
        absolute_error("z", p["z"], m["z"], 0.05),
        z_score("x alone", p["x"], m["x"]),
    ]
    ones = {name: np.array(1.0) for name in "xyz"}
    checks = record(run_claim(made(ones, measured, compare)))["checks"]
    assert [check["allowed_for"] for check in checks[:2]] == ["depth / width", "rounding of a table"]
    assert checks[2]["allowed_for"]
    assert checks[3]["allowed_for"] == ""
    assert [check["allowance"] for check in checks] == [0.3, 0.03, 0.05, 0.0]
    assert [check["unforgiven"] for check in checks] == pytest.approx([1.7, 0.02, 0.02, 1.7])
    assert [check["statistic"] for check in checks] == pytest.approx([0.0, 0.02, 0.02, 1.7])


@pytest.fixture
def one_claim(monkeypatch):
    """The laboratory with one claim in it, on a wide terminal."""
    monkeypatch.setattr(importlib.import_module("finitewidth.cli.lab_job"), "output", Console(width=250))
    monkeypatch.setattr(importlib.import_module("finitewidth.cli.commands.lab"), "output", Console(width=250))

    def only(claim):
        monkeypatch.setattr(registry, "_all", lambda: (claim,))

    return only


def test_the_command_shows_what_is_noticed_and_fails_where_that_is_less_than_stated(one_claim, tmp_path):
    measured = {"x": Estimate(np.array(4.01), np.array(0.1)), "top": exact(3.0)}

    def compare(p, m):
        return [z_score("x", p["x"], m["x"], 0.5, "depth / width"), upper_bound("top", p["top"], m["top"])]

    claim = made({"x": np.array(4.0), "top": np.array(4.0)}, measured, compare, bounds={"top": "above"})
    one_claim(dataclasses.replace(claim, figure=None))
    run = ["lab", "run", "made", "--out", str(tmp_path)]
    plain = runner.invoke(app, run)
    assert plain.exit_code == 0
    assert "0.5 for depth / width" in " ".join(plain.stdout.split())
    assert "notices" not in plain.stdout
    sharp = runner.invoke(app, [*run, "--teeth"])
    assert sharp.exit_code == 0, sharp.output
    assert "upper bound" in sharp.stdout
    (found,) = json.loads(runner.invoke(app, [*run, "--teeth", "--json"]).stdout)
    assert [tooth["quantity"] for tooth in found["teeth"]] == ["x", "top"]
    assert [tooth["notices"] for tooth in found["teeth"]] == [1.3, 2.0]
    one_claim(dataclasses.replace(claim, figure=None, notices={"x": 1.1}))
    blunt = runner.invoke(app, [*run, "--teeth"])
    assert blunt.exit_code == 1
    assert "blunt: made, x: should notice a factor of 1.1, notices 1.3." in " ".join(blunt.stderr.split())


def test_the_ladder_rises():
    assert list(LADDER) == sorted(LADDER)
    assert LADDER[0] > 1
