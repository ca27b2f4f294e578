"""The claim that CONTRIBUTING.md shows is complete: one file in a chapter, and the laboratory has it."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from finitewidth import course as lab
from finitewidth.course._lab import registry
from finitewidth.course._lab.runner import run_claim, save
from finitewidth.course.initialisation import claims as initialisation

TEXT = (Path(__file__).resolve().parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
ID = "linear-unit-variance"


@pytest.fixture
def added(tmp_path, monkeypatch):
    """The laboratory with one more file in the chapter on initialisation."""
    section = TEXT.split("## Add a claim")[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    (tmp_path / "linear_unit.py").write_text(code[1], encoding="utf-8")
    monkeypatch.setattr(initialisation, "__path__", [*initialisation.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "_all", registry._all.__wrapped__)
    importlib.invalidate_caches()
    yield lab.claim(ID)
    del sys.modules["finitewidth.course.initialisation.claims.linear_unit"]


def test_the_file_is_found_and_the_claim_holds(added, tmp_path):
    assert added.chapter == "Initialisation"
    assert [claim.id for claim in lab.claims()].index(ID) < 4
    outcome = run_claim(added)
    assert outcome.holds
    save(outcome, tmp_path)
    assert (tmp_path / f"{ID}.png").stat().st_size > 0
    wrong = [prediction for _, prediction in added.mistaken(outcome.problem, outcome.prediction)]
    assert not any(added.verdict(outcome.problem, w, outcome.measurement).holds for w in wrong)


@pytest.fixture
def outside(tmp_path):
    """The same file outside the package."""
    code = re.search(r"```python\n(.*?)```", TEXT.split("## Add a claim")[1], re.DOTALL)
    file = tmp_path / "linear_unit.py"
    file.write_text(code[1], encoding="utf-8")
    yield file
    sys.modules.pop("linear_unit", None)


def run_outside(file, out):
    """What `finitewidth lab run` says of the claims in a file."""
    line = ["-m", "finitewidth", "lab", "run", f"{file}:CLAIMS", "--out", str(out)]
    return subprocess.run([sys.executable, *line], capture_output=True, text=True)


def test_the_file_works_outside_the_package(outside, tmp_path):
    result = run_outside(outside, tmp_path / "lab")
    assert result.returncode == 0, result.stderr
    assert "linear-unit-variance" in result.stdout
    assert (tmp_path / "lab" / f"{ID}.png").stat().st_size > 0
    (claim,) = registry.own_claims(f"{outside}:CLAIMS")
    assert lab.run(claim, seed=1).holds


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('id="linear-unit-variance"', 'id="linear-critical"'), "there is a claim 'linear-critical' already"),
        (("CLAIMS = (", "CLAIMS = 3\nOTHERS = ("), "is no claim: it must be a finitewidth.lab.Claim"),
        (("CLAIMS = (", "CLAIM = ("), "has no claim 'CLAIMS'. Did you mean 'CLAIM'?"),
        (('compare_each({"variance": "variance of the output"})', "lambda *sides: ()"), "makes no check"),
    ],
)
def test_a_wrong_claim_is_refused_in_one_sentence(outside, change, sentence):
    text = outside.read_text(encoding="utf-8")
    assert text.count(change[0]) == 1
    outside.write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(sentence)):
        [lab.run(claim) for claim in registry.own_claims(f"{outside}:CLAIMS")]


def test_two_claims_with_one_id_are_refused(monkeypatch):
    twice = lab.claims()[:1] * 2
    monkeypatch.setattr(registry, "_found", lambda chapter: twice if chapter == "criticality" else ())
    with pytest.raises(ValueError, match="two claims have the id"):
        registry._all.__wrapped__()


def test_a_claim_is_found_without_the_others():
    code = (
        "import sys; from finitewidth import lab; lab.claim('linear-critical'); "
        "print(*{name.split('.')[2] for name in sys.modules if '.claims.' in name})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [lab.claim("linear-critical").measure.__module__.split(".")[2]]


def test_without_the_file_there_is_no_such_claim():
    with pytest.raises(ValueError, match="no claim"):
        lab.claim(ID)
