"""`finitewidth lab` on the command line."""

import dataclasses
import importlib
import json

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from finitewidth.cli import app
from finitewidth.lab import registry

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setattr(importlib.import_module("finitewidth.cli.lab"), "output", Console(width=250))


def test_list_names_every_claim_and_chapter():
    result = runner.invoke(app, ["lab", "list"])
    assert result.exit_code == 0
    for claim in registry.claims():
        assert claim.id in result.stdout
        assert claim.chapter in result.stdout


def test_list_as_json():
    result = runner.invoke(app, ["lab", "list", "--json"])
    listed = json.loads(result.stdout)
    assert {entry["id"] for entry in listed} == {claim.id for claim in registry.claims()}
    assert all({"id", "chapter", "statement", "source"} <= set(entry) for entry in listed)
    chapters = [entry["chapter"] for entry in listed]
    assert chapters == sorted(chapters, key=chapters.index)


def test_run_as_json_writes_files_and_keeps_standard_output_clean(tmp_path):
    result = runner.invoke(app, ["lab", "run", "criticality-conditions", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0
    (outcome,) = json.loads(result.stdout)
    assert outcome["id"] == "criticality-conditions"
    assert outcome["holds"] is True
    assert {"criticality-conditions.json", "criticality-conditions.png"} == {
        p.name for p in tmp_path.iterdir()
    }


def test_run_prints_the_verdict(tmp_path):
    result = runner.invoke(app, ["lab", "run", "criticality-conditions", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "holds" in result.stdout
    assert "relative error" in result.stdout


def test_a_failing_claim_gives_exit_code_one(tmp_path, monkeypatch):
    claim = registry.claim("criticality-conditions")

    def wrong_theory(setting):
        return {name: np.asarray(value) * 1.1 for name, value in claim.theory(setting).items()}

    monkeypatch.setattr(registry, "_CLAIMS", (dataclasses.replace(claim, theory=wrong_theory),))
    result = runner.invoke(app, ["lab", "run", "--all", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "fails" in result.stdout


def test_brackets_in_a_title_are_printed(tmp_path, monkeypatch):
    claim = dataclasses.replace(registry.claim("criticality-conditions"), title="E[z^4] is exact")
    monkeypatch.setattr(registry, "_CLAIMS", (claim,))
    result = runner.invoke(app, ["lab", "run", "--all", "--out", str(tmp_path)])
    assert "E[z^4] is exact" in result.stdout


@pytest.mark.parametrize("arguments", [[], ["criticality-conditions", "--all"]])
def test_ids_and_all_exclude_each_other(arguments):
    result = runner.invoke(app, ["lab", "run", *arguments])
    assert isinstance(result.exception, ValueError)
    assert "--all" in str(result.exception)


def test_unknown_id_is_refused_before_anything_runs(tmp_path):
    result = runner.invoke(
        app, ["lab", "run", "relu-critical", "relu-criticality", "--out", str(tmp_path / "no")]
    )
    assert isinstance(result.exception, ValueError)
    assert "relu-critical" in str(result.exception)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("seed", ["0", "5"])
def test_a_seed_is_no_use_to_claims_without_random_numbers(seed, tmp_path, monkeypatch):
    fixed = dataclasses.replace(registry.claim("criticality-conditions"), deterministic=True)
    monkeypatch.setattr(registry, "_CLAIMS", (fixed, registry.claim("linear-critical")))
    run = ["lab", "run", "criticality-conditions", "--out", str(tmp_path)]
    assert "warning" not in runner.invoke(app, run).stderr
    result = runner.invoke(app, [*run, "--seed", seed])
    assert result.exit_code == 0
    assert (
        "warning: --seed changes nothing in criticality-conditions: no random numbers are drawn there."
        in " ".join(result.stderr.split())
    )
