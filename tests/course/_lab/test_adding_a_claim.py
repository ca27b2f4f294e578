"""The claim that CONTRIBUTING.md shows is complete: one file in a chapter, and the laboratory has it."""

import importlib
import re
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


def test_without_the_file_there_is_no_such_claim():
    with pytest.raises(ValueError, match="no claim"):
        lab.claim(ID)
