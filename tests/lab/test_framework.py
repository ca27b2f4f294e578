"""The pieces that claims are made of, and the files and verdicts that come out."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from finitewidth import lab
from finitewidth.lab.claim import Check, Claim, Verdict
from finitewidth.lab.comparison import (
    Z_LIMIT,
    absolute_error,
    depth_over_width,
    relative_error,
    upper_bound,
    z_score,
)
from finitewidth.lab.estimate import Estimate, exact, jackknife, sample_mean
from finitewidth.lab.random_problem import RandomProblem, drawn
from finitewidth.lab.runner import record, run_claim, save


@dataclasses.dataclass(frozen=True)
class Coin:
    tosses: int


def coin(mean: float) -> Claim:
    """A claim that costs nothing: the mean of a fair coin."""

    def figure(setting, predicted, measured):
        picture = Figure()
        picture.subplots().plot([0, 1], [predicted["mean"], measured["mean"].value])
        return picture

    return Claim(
        id="coin",
        title="a coin is fair",
        chapter="Test",
        statement="Heads come up half of the time.",
        source="test",
        quick=Coin(10_000),
        full=Coin(40_000),
        theory=lambda setting: {"mean": np.array(mean)},
        measure=lambda setting, key: {
            "mean": sample_mean(np.random.default_rng(0).integers(0, 2, setting.tosses).astype(float))
        },
        compare=lambda setting, predicted, measured: Verdict(
            (z_score("mean", predicted["mean"], measured["mean"]),)
        ),
        figure=figure,
    )


def test_right_claim_holds_and_wrong_claim_fails():
    assert run_claim(coin(0.5)).holds
    assert not run_claim(coin(0.6)).holds


@dataclasses.dataclass(frozen=True)
class LoadedCoin(RandomProblem):
    tosses: int

    @property
    def bias(self) -> float:
        return float(self.rng(1).uniform())


def loaded_coin() -> Claim:
    """A claim about a random problem: the bias of the coin."""
    return dataclasses.replace(
        coin(0.5),
        quick=LoadedCoin(10_000),
        full=LoadedCoin(40_000),
        theory=lambda coin: {"mean": np.array(coin.bias)},
        measure=lambda coin, key: {
            "mean": sample_mean((coin.rng(2).uniform(size=coin.tosses) < coin.bias).astype(float))
        },
        draw=drawn,
    )


def test_both_sides_see_the_problem_that_is_drawn_from_the_key():
    outcomes = [run_claim(loaded_coin(), seed=seed) for seed in (0, 1, 0)]
    assert all(outcome.holds for outcome in outcomes)
    first, other, again = (float(outcome.prediction["mean"]) for outcome in outcomes)
    assert first == again
    assert abs(first - other) > 0.01
    assert record(outcomes[1])["setting"] == {"seed": outcomes[1].problem.seed, "tosses": 10_000}
    assert outcomes[1].draw().axes[0].lines[0].get_ydata()[0] == other


def test_parts_of_a_random_problem_are_independent():
    coin = LoadedCoin(1, seed=5)
    draws = [coin.rng(*part).normal(size=1000) for part in ((), (0,), (1,), (0, 1))]
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 0.15
    np.testing.assert_array_equal(draws[2], coin.rng(1).normal(size=1000))


def test_files_are_complete(tmp_path):
    outcome = run_claim(coin(0.5), "full", seed=7)
    save(outcome, tmp_path / "new" / "place")
    files = sorted(path.name for path in (tmp_path / "new" / "place").iterdir())
    assert files == ["coin.json", "coin.png"]
    saved = json.loads((tmp_path / "new" / "place" / "coin.json").read_text())
    assert saved == json.loads(json.dumps(record(outcome)))
    assert (saved["scale"], saved["seed"], saved["dtype"]) == ("full", 7, "float64")
    assert saved["setting"] == {"tosses": 40_000}
    assert saved["predicted"]["mean"] == 0.5
    assert saved["checks"][0]["holds"] is True
    assert {"python", "jax", "numpy", "finitewidth"} <= set(saved["versions"])


def test_record_has_no_number_that_json_lacks():
    outcome = dataclasses.replace(run_claim(coin(0.5)), prediction={"mean": np.array([np.nan, np.inf, 1.0])})
    assert record(outcome)["predicted"]["mean"] == [None, None, 1.0]


def test_unknown_id_names_the_closest():
    with pytest.raises(
        ValueError, match=r"no claim 'tanh-critical-decay'.*tanh-critical-kernel-decay"
    ) as error:
        lab.run("tanh-critical-decay")
    assert "\n" not in str(error.value)


def test_unknown_scale_names_the_known(unchecked_annotations):
    with pytest.raises(ValueError, match="quick, full"):
        lab.claim("linear-critical").setting("huge")


def test_ids_are_unique_and_texts_are_complete():
    claims = lab.claims()
    assert len({c.id for c in claims}) == len(claims) >= 13
    for c in claims:
        assert all((c.title, c.chapter, c.statement, c.source))
        assert c.statement.endswith(".")


def test_z_score_counts_standard_errors_beyond_the_truncation():
    measured = Estimate(np.array([1.0, 2.5]), np.array([0.1, 0.1]))
    check = z_score("pair", np.array([1.0, 2.0]), measured, truncation=0.2)
    assert (check.predicted, check.measured) == (2.0, 2.5)
    assert check.statistic == pytest.approx(3.0)
    assert check.tolerance == Z_LIMIT
    assert check.holds


def test_z_score_without_error_asks_for_equality():
    assert z_score("same", 2.0, exact(2.0)).holds
    assert not z_score("different", 2.0, exact(2.1)).holds


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_broken_measurements_fail(value):
    broken = Estimate(np.array([1.0, value]), np.array([0.1, 0.1]))
    assert not z_score("broken", 1.0, broken).holds
    assert not relative_error("broken", 1.0, broken.value, 0.1).holds
    assert not absolute_error("broken", 1.0, broken.value, 0.1).holds


def test_decisive_check_is_the_one_closest_to_its_tolerance():
    easy = Check("easy", 1.0, 1.0, 0.1, 1.0, "relative error")
    hard = Check("hard", 1.0, 1.0, 3.0, 4.0, "z-score")
    broken = Check("broken", 1.0, 1.0, float("nan"), 4.0, "z-score")
    assert Verdict((easy, hard)).decisive is hard
    assert Verdict((easy, hard)).holds
    assert Verdict((easy, broken, hard)).decisive is broken
    assert not Verdict((easy, broken, hard)).holds


def test_jackknife_of_a_mean_is_its_standard_error():
    samples = np.random.default_rng(1).normal(size=(40, 3))
    by_blocks, direct = jackknife(samples, lambda mean: mean), sample_mean(samples)
    np.testing.assert_allclose(by_blocks.value, direct.value)
    np.testing.assert_allclose(by_blocks.sem, direct.sem)


def test_bounds_may_be_reached_but_not_exceeded():
    bound = np.array([1.0, 2.0])
    assert upper_bound("below", bound, np.array([0.2, 2.0])).holds
    assert upper_bound("rounding", bound, np.array([1.0 + 1e-12, 0.0])).holds
    above = upper_bound("above", bound, np.array([0.9, 2.1]))
    assert not above.holds
    assert (above.predicted, above.measured) == (2.0, 2.1)
    assert not upper_bound("broken", bound, np.array([np.nan, 0.0])).holds


def test_distance_allowed_to_finite_networks_is_depth_over_width():
    assert depth_over_width(3, 12) == 0.25
    np.testing.assert_array_equal(depth_over_width(np.array([1, 2]), 8), [0.125, 0.25])
