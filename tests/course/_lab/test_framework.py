"""The pieces that claims are made of, and the files and verdicts that come out."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm, t

from finitewidth import course as lab
from finitewidth.course._lab import comparison, sources
from finitewidth.course._lab.claim import Check, Claim, Verdict
from finitewidth.course._lab.comparison import (
    FALSE_ALARM,
    absolute_error,
    depth_over_width,
    lower_bound,
    noise_limit,
    relative_error,
    upper_bound,
    z_score,
)
from finitewidth.course._lab.estimate import (
    Estimate,
    combined,
    exact,
    jackknife,
    propagated,
    sample_mean,
    share,
    stacked,
)
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.runner import record, run_claim, save
from finitewidth.course._lab.wrong import scaled


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
        compare=lambda setting, predicted, measured: [z_score("mean", predicted["mean"], measured["mean"])],
        wrong={"mean": (scaled(1.5), scaled(0.5))},
        figure=figure,
    )


def test_right_claim_holds_and_wrong_claim_fails():
    assert run_claim(coin(0.5)).holds
    assert not run_claim(coin(0.6)).holds


def test_every_wrong_theory_is_tried_on_its_own():
    outcome = run_claim(coin(0.5))
    tried = list(outcome.claim.mistaken(outcome.problem, outcome.prediction))
    assert [float(prediction["mean"]) for _, prediction in tried] == [0.75, 0.25]
    assert not any(
        outcome.claim.verdict(outcome.problem, wrong, outcome.measurement).holds for _, wrong in tried
    )


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


def test_every_claim_names_its_lecture_or_says_that_it_goes_beyond():
    for claim in lab.claims():
        assert claim.source.startswith((*sources.SOURCES, sources.BEYOND)), claim.id
        assert any(source in claim.source for source in (*sources.SOURCES, "K^(3/2)")), claim.id
    assert lab.claim("mlp-step-taylor").source.startswith(sources.DAY_3)
    of_iems = {
        "adam-is-sign-descent",
        "first-layer-gradient-width",
        "gd-min-norm",
        "homogeneous-kkt",
        "importance-weights-matter",
        "importance-weights-vanish",
        "influence-convex",
        "influence-depth",
        "kappa-homogeneous",
        "lazy-alpha-orders",
        "lazy-doubled-init",
        "lazy-init-scale",
        "lazy-one-step",
        "lazy-vs-feature-generalisation",
        "lazy-width",
        "logistic-log-t-law",
        "lr-transfer",
        "mf-convex-in-measure",
        "mf-feature-motion",
        "mf-limit-rate",
        "newton-schulz",
        "relu-balance-law",
        "relu-rescale",
        "steepest-descent-norms",
        "svm-kkt",
        "w2-gradient-flow",
    }
    assert {c.id for c in lab.claims() if c.source.startswith(sources.IEMS_402)} == of_iems
    assert lab.claim("gd-linear-rate").source.startswith("ORF 543 lecture notes, lecture 7, ")
    assert lab.claim("representer-ridge-duality").source.startswith(
        "ORF 543 lecture notes, lecture of 10/31, "
    )


def test_z_score_counts_standard_errors_beyond_the_truncation():
    measured = Estimate(np.array([1.0, 2.5]), np.array([0.1, 0.1]))
    check = z_score("pair", np.array([1.0, 2.0]), measured, truncation=0.2)
    assert (check.predicted, check.measured) == (2.0, 2.5)
    assert check.statistic == pytest.approx(3.0)
    assert check.tolerance == check.limit == pytest.approx(norm.isf(FALSE_ALARM / 4))
    assert (check.sem, check.entries, check.false_alarm) == (0.1, 2, FALSE_ALARM)
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


def test_a_lower_bound_is_an_upper_bound_of_the_negative():
    bound, sem = np.array([1.0, -2.0]), np.array([0.1, 0.1])
    for values in ([1.0, -2.0], [3.0, 0.0], [0.7, -2.0], [0.2, 0.0]):
        measured = Estimate(np.array(values), sem)
        above, below = lower_bound("x", bound, measured), upper_bound("x", -bound, measured.times(-1.0))
        assert (above.holds, above.statistic, above.tolerance) == (
            below.holds,
            below.statistic,
            below.tolerance,
        )
        assert (above.predicted, above.measured) == (-below.predicted, -below.measured)
    assert above.statistic == pytest.approx(0.8)
    assert not above.holds


def test_noise_limit_shares_the_false_alarm_rate_among_the_entries():
    assert noise_limit(1) == pytest.approx(norm.isf(FALSE_ALARM / 2))
    assert noise_limit(50) == pytest.approx(norm.isf(FALSE_ALARM / 100))
    assert noise_limit(1, sides=1) == pytest.approx(norm.isf(FALSE_ALARM))
    np.testing.assert_allclose(noise_limit(3, np.array([7.0, 40.0])), t.isf(FALSE_ALARM / 6, [7, 40]))


COMPARISONS = {
    "z-score": lambda measured: z_score("noise", 2.0, measured, truncation=0.2),
    "relative error": lambda measured: relative_error("noise", 2.0, measured, 0.1),
    "absolute error": lambda measured: absolute_error("noise", 2.0, measured, 0.2),
    "bound": lambda measured: upper_bound("noise", 2.2, measured),
}


@pytest.mark.parametrize("draws", [5, None])
@pytest.mark.parametrize("name", COMPARISONS)
def test_false_alarms_are_as_rare_as_stated(name, draws, monkeypatch):
    """Many checks of four entries, all at the edge of the tolerance: the worst case that is still true."""
    monkeypatch.setattr(comparison, "FALSE_ALARM", 0.04)
    rng, checks, sem = np.random.default_rng(3), 4000, 0.05
    alarms = 0
    for _ in range(checks):
        if draws is None:
            measured = Estimate(2.2 + sem * rng.normal(size=4), np.full(4, sem))
        else:
            measured = sample_mean(2.2 + rng.normal(size=(draws, 4)))
        check = COMPARISONS[name](measured)
        assert check.false_alarm == 0.04
        alarms += not check.holds
    # Distances are missed on one side only at the edge, bounds have one side.
    expected = checks * (0.04 if name == "bound" else 0.02)
    assert abs(alarms - expected) < 4 * np.sqrt(expected)


@pytest.mark.parametrize("name", COMPARISONS)
def test_ten_standard_errors_beyond_the_tolerance_fail_and_three_do_not(name):
    beyond = lambda count: Estimate(np.array([2.0, 2.2 + 0.01 * count]), np.array([0.01, 0.01]))
    assert not COMPARISONS[name](beyond(10)).holds
    assert COMPARISONS[name](beyond(3)).holds
    assert COMPARISONS[name](beyond(10)).measured == pytest.approx(2.3)


@pytest.mark.parametrize("name", COMPARISONS)
def test_exact_numbers_have_no_room_for_noise(name):
    at_the_edge, beyond = (COMPARISONS[name](exact(2.2 + distance)) for distance in (-1e-12, 1e-8))
    assert at_the_edge.holds
    assert not beyond.holds
    assert beyond.false_alarm == beyond.limit == beyond.sem == 0


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("sem", [np.inf, np.nan])
def test_a_measurement_without_a_standard_error_fails(name, sem):
    assert not COMPARISONS[name](Estimate(np.array([2.0, 2.0]), np.array([0.1, sem]))).holds


def test_false_alarms_of_a_claim_add_up():
    noisy, precise = (
        z_score("noisy", 0.5, Estimate(np.array(0.5), np.array(0.1))),
        z_score("same", 2.0, exact(2.0)),
    )
    assert Verdict((noisy, precise, noisy)).false_alarm == 2 * FALSE_ALARM
    assert record(run_claim(coin(0.5)))["false_alarm"] == FALSE_ALARM


def test_errors_propagate_through_ratios_and_slopes():
    """Against many repetitions of the experiment."""
    rng = np.random.default_rng(5)
    values, sems = np.array([4.0, 3.0, 2.0]), np.array([0.05, 0.1, 0.04])
    slope = lambda v: np.polyfit([0.0, 1.0, 2.0], np.log(v), 1)[0]
    ratio = lambda v: v[:-1] / v[-1]
    repeated = values + sems * rng.normal(size=(20_000, 3))
    for function in (slope, ratio):
        estimate = propagated(function, Estimate(values, sems))
        np.testing.assert_allclose(estimate.value, function(values))
        spread = np.std([function(v) for v in repeated], axis=0)
        np.testing.assert_allclose(estimate.sem, spread, rtol=0.03)


def test_sums_of_independent_estimates():
    one, two = (
        Estimate(np.array([1.0]), np.array([0.3]), 4.0),
        Estimate(np.array([5.0]), np.array([0.2]), 9.0),
    )
    total = combined((2, -3), (one, two))
    np.testing.assert_allclose([total.value[0], total.sem[0]], [-13.0, np.sqrt(0.72)])
    # Equal parts: (a + a)^2 / (a^2/4 + a^2/9).
    np.testing.assert_allclose(total.dof, 4 / (1 / 4 + 1 / 9))
    through = propagated(lambda a, b: 2 * a - 3 * b, one, two)
    np.testing.assert_allclose([*through, through.dof], [*total, total.dof])
    assert np.all(np.isinf(combined((1, 1), (exact(1.0), exact(2.0))).dof))


def test_entries_keep_their_degrees_of_freedom():
    both = stacked([sample_mean(np.arange(12.0).reshape(4, 3)), sample_mean(np.arange(18.0).reshape(6, 3))])
    np.testing.assert_array_equal(both.dof, [[3.0] * 3, [5.0] * 3])
    np.testing.assert_array_equal(both[1, :2].dof, [5.0, 5.0])
    np.testing.assert_array_equal(both.reshape(6).times(-2.0).plus(1.0).dof, [3.0] * 3 + [5.0] * 3)
    assert np.all(both.times(-2.0).sem > 0)


def test_a_share_has_the_error_of_its_probability():
    found = share(12, 40, 0.25)
    assert (found.value, found.sem) == (0.3, pytest.approx(np.sqrt(0.25 * 0.75 / 40)))


def test_distance_allowed_to_finite_networks_is_depth_over_width():
    assert depth_over_width(3, 12) == 0.25
    np.testing.assert_array_equal(depth_over_width(np.array([1, 2]), 8), [0.125, 0.25])
