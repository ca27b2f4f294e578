"""Every claim holds at quick scale, and none would hold for a theory that is clearly wrong."""

import dataclasses
import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from finitewidth import course as lab
from finitewidth.course._lab.runner import run_claim, save
from finitewidth.course._lab.teeth import words_of

IDS = [claim.id for claim in lab.claims()]
# These train networks for longer than their programs take to compile.
LONG = ("trained-", "lr-transfer", "mlp-cubic-model")

ROOT = Path(__file__).resolve().parents[3]
# The ledger shows these records, so that the book need not run the claims again.
RECORDS = ROOT / "build" / "lab-quick"

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
THEORY = next(
    c for c in CONTRACTS["contracts"] if c["name"] == "Course: what is measured never imports theory"
)
FORBIDDEN = re.compile(
    "|".join(
        name.replace(".", r"\.").replace("*", r"\w+")
        for name in (*THEORY["forbidden_modules"], "finitewidth.advice")
    )
)
# What both sides are about: the network that `tune` chooses; covers, codes and maps that exist by a claim.
SHARED = ("finitewidth.advice.tuning.advice", "finitewidth.course.entropy_and_widths.theory.")
CLAIMS = re.compile(r"finitewidth\.course\.(\w+)\.claims\b")

# Claims that still notice less than they state: this list only becomes shorter.
BLUNT = set((Path(__file__).parent / "blunt.txt").read_text(encoding="utf-8").split())


def is_theory(module, thing):
    """Whether a name in a module of claims comes from the theory, or from the claims of another topic."""
    home = getattr(thing, "__module__", None) or ""
    if topic := CLAIMS.match(home):
        return topic[1] != CLAIMS.match(module.__name__)[1]
    return FORBIDDEN.match(home) is not None and not home.startswith(SHARED)


def guarded(claim):
    """The claim with the theory out of reach of its measurement."""

    def measure(setting, key):
        chapters = [module for name, module in sys.modules.items() if CLAIMS.match(name)]
        with pytest.MonkeyPatch.context() as patch:
            for module in chapters:
                for name in [name for name, thing in vars(module).items() if is_theory(module, thing)]:
                    patch.setattr(module, name, out_of_reach)
            return claim.measure(setting, key)

    return dataclasses.replace(claim, measure=measure)


def out_of_reach(*arguments, **options):
    raise AssertionError("a measurement asked the theory")


def test_the_guard_sees_a_measurement_that_asks_the_theory():
    claim = lab.claim("criticality-conditions")
    asking = dataclasses.replace(claim, measure=lambda setting, key: claim.theory(setting))
    with pytest.raises(AssertionError, match="asked the theory"):
        run_claim(guarded(asking))


@pytest.mark.parametrize("id", IDS)
def test_claim_holds_and_wrong_theories_fail(id, request):
    """Each claim is measured once, and compared with right and wrong theories."""
    if id.startswith(LONG):
        request.getfixturevalue("optimised")
    claim = lab.claim(id)
    outcome = run_claim(guarded(claim), teeth=True)
    assert not [check for check in outcome.verdict.checks if not check.holds]
    save(outcome, RECORDS)
    for what, prediction in claim.mistaken(outcome.problem, outcome.prediction):
        verdict = claim.verdict(outcome.problem, prediction, outcome.measurement)
        assert not verdict.holds, f"{what} was not rejected"
    blunt = [words_of(tooth) for tooth in outcome.teeth if not tooth.sharp]
    assert not blunt or id in BLUNT, "; ".join(blunt)


def test_a_run_of_all_claims_rarely_fails_by_noise_alone():
    """Of the claims whose records are there: all of them after a run of the whole file."""
    records = [RECORDS / f"{id}.json" for id in IDS]
    rates = [json.loads(path.read_text(encoding="utf-8"))["false_alarm"] for path in records if path.exists()]
    assert sum(rates) <= 0.01


def test_every_claim_has_a_wrong_theory():
    assert not [claim.id for claim in lab.claims() if not claim.wrong]


@pytest.mark.parametrize("id", IDS)
def test_sizes_of_both_scales_are_of_one_kind(id):
    claim = lab.claim(id)
    assert type(claim.quick) is type(claim.full)
    assert dataclasses.asdict(claim.quick) != dataclasses.asdict(claim.full)


def test_gates_that_come_back_from_six_are_no_exception():
    """With this seed GELU units learn at eta lambda_0 = 6, where divergence was once claimed for all."""
    assert run_claim(lab.claim("catapult-phases-general"), seed=4711).holds


def test_outcome_depends_on_the_seed_only():
    claim = lab.claim("linear-critical")
    first, again, other = (run_claim(claim, seed=seed).measurement["variance"].value for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
