"""`finitewidth lab` on the command line."""

import dataclasses
import importlib
import json
import os

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from finitewidth.cli import app
from finitewidth.course._lab import registry
from finitewidth.course._lab.comparison import FALSE_ALARM

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setattr(importlib.import_module("finitewidth.cli.lab_job"), "output", Console(width=250))


@pytest.fixture
def records(tmp_path):
    """What two earlier runs left."""
    for id, holds in (("criticality-conditions", True), ("fan-in-scaling", False)):
        saved = {"id": id, "holds": holds, "scale": "quick", "seed": 3, "seconds": 12.34}
        (tmp_path / f"{id}.json").write_text(json.dumps(saved), encoding="utf-8")
        os.utime(tmp_path / f"{id}.json", (1.7e9, 1.7e9))
    return tmp_path


def test_list_is_a_line_for_every_claim_below_its_chapter(records):
    result = runner.invoke(app, ["lab", "list", "--out", str(records)])
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    chapters = list(dict.fromkeys(claim.chapter for claim in registry.claims()))
    assert len(lines) == len(registry.claims()) + len(chapters)
    assert [line for line in lines if line in chapters] == chapters
    verdicts = {
        "criticality-conditions": "holds   12.3 s",
        "fan-in-scaling": "fails   12.3 s",
    }
    for claim in registry.claims():
        (line,) = (line for line in lines if line.split()[0] == claim.id)
        assert claim.title in line
        assert line.endswith("  " + verdicts.get(claim.id, "-"))


@pytest.mark.parametrize("width", [100, 140])
def test_list_stays_on_one_line_of_a_terminal(width, records, monkeypatch):
    terminal = Console(width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(importlib.import_module("finitewidth.cli.lab_job"), "output", terminal)
    lines = runner.invoke(app, ["lab", "list", "--out", str(records)]).stdout.splitlines()
    assert max(map(len, lines)) <= width
    (cut,) = (line for line in lines if line.startswith("trained-mean-width"))
    assert "finite width shifts the trained mean" in cut
    assert "…" in cut
    assert any(line.endswith("holds   12.3 s") for line in lines)


def test_list_without_earlier_runs(tmp_path):
    result = runner.invoke(app, ["lab", "list", "--out", str(tmp_path / "none")])
    assert result.exit_code == 0
    assert "holds" not in [line.split()[-1] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"id": "fan-in-scaling"}', '{"id": "other", "holds": true}']
)
def test_a_damaged_record_is_named(content, tmp_path):
    (tmp_path / "fan-in-scaling.json").write_text(content, encoding="utf-8")
    result = runner.invoke(app, ["lab", "list", "--out", str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    assert str(tmp_path / "fan-in-scaling.json") in str(result.exception)
    assert "\n" not in str(result.exception)


def test_show_has_the_statement_the_source_and_the_last_run(records):
    claim = registry.claim("criticality-conditions")
    result = runner.invoke(app, ["lab", "show", claim.id, "--out", str(records)])
    shown = " ".join(result.stdout.split())
    for words in (
        claim.title,
        claim.chapter,
        claim.statement,
        claim.source,
        "holds 12.3 s",
        "seed 3, 2023-11-14",
    ):
        assert words in shown
    never = runner.invoke(app, ["lab", "show", "relu-critical", "--out", str(records)])
    assert "Last run -" in " ".join(never.stdout.split())
    as_json = json.loads(
        runner.invoke(app, ["lab", "show", claim.id, "--json", "--out", str(records)]).stdout
    )
    assert (as_json["statement"], as_json["last"]["seed"]) == (claim.statement, 3)


def test_show_of_an_unknown_claim_names_the_closest():
    result = runner.invoke(app, ["lab", "show", "relu-criticality"])
    assert isinstance(result.exception, ValueError)
    assert "relu-critical" in str(result.exception)


def test_list_as_json(records):
    result = runner.invoke(app, ["lab", "list", "--json", "--out", str(records)])
    listed = json.loads(result.stdout)
    last = {entry["id"]: entry["last"] for entry in listed}
    assert last["fan-in-scaling"] == {
        "holds": False,
        "date": "2023-11-14",
        "scale": "quick",
        "seed": 3,
        "seconds": 12.34,
    }
    assert last["relu-critical"] is None
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
    written = {"criticality-conditions.json", "criticality-conditions.png", "ledger.json"}
    assert written == {p.name for p in tmp_path.iterdir()}


def test_the_ledger_has_every_claim_and_the_last_verdict_of_those_that_ran(tmp_path):
    runner.invoke(app, ["lab", "run", "criticality-conditions", "--out", str(tmp_path)])
    ledger = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    entries = {entry["id"]: entry for entry in ledger["entries"]}
    assert list(entries) == [claim.id for claim in registry.claims()]
    ran = entries.pop("criticality-conditions")
    assert (ran["holds"], ran["scale"], ran["seed"]) == (True, "quick", 0)
    assert 0 < ran["cpu_seconds"] == pytest.approx(ledger["summary"]["cpu_seconds"], abs=0.06)
    saved = json.loads((tmp_path / "criticality-conditions.json").read_text(encoding="utf-8"))
    strain = [check["statistic"] / check["tolerance"] for check in saved["checks"]]
    assert ran["decisive"] == saved["checks"][int(np.argmax(strain))]
    assert {entry["holds"] for entry in entries.values()} == {None}
    counts = {name: ledger["summary"][name] for name in ("claims", "hold", "fail", "not run")}
    total = len(registry.claims())
    assert counts == {"claims": total, "hold": 1, "fail": 0, "not run": total - 1}


@pytest.mark.parametrize(
    "name", ["Criticality", "criticality", "Wide limit", "the_wide_limit", "The wide limit"]
)
def test_a_chapter_stands_for_its_claims(name):
    from finitewidth.cli.lab_job import chosen

    if name == "Wide limit":
        with pytest.raises(ValueError, match="there is no claim 'Wide limit'"):
            chosen([name], False)
        return
    title = "Criticality" if name.lower() == "criticality" else "The wide limit"
    assert chosen([name], False) == [claim for claim in registry.claims() if claim.chapter == title]


def test_a_claim_that_is_named_twice_runs_once():
    from finitewidth.cli.lab_job import chosen

    found = chosen(["relu-critical", "criticality", "relu-critical"], False)
    assert [claim.id for claim in found].count("relu-critical") == 1
    assert found[0].id == "relu-critical"


def test_no_chapter_is_called_like_a_claim():
    assert not [claim.id for claim in registry.claims() if registry.chapter_claims(claim.id)]


def test_several_processes_find_what_one_finds(tmp_path, monkeypatch):
    """The order in which they finish shows neither in the table nor in the ledger. New processes follow."""
    monkeypatch.setattr("finitewidth.cli.claim_processes._CLAIMS_PER_PROCESS", 2)
    ids = ["linear-critical", "gd-min-norm", "lin-two-forms", "lin-stability-edge", "lin-eta-independence"]
    run = ["lab", "run", *ids, "--json", "--out"]
    one = json.loads(runner.invoke(app, [*run, str(tmp_path / "one"), "--jobs", "1"]).stdout)
    two = json.loads(runner.invoke(app, [*run, str(tmp_path / "two"), "--jobs", "2"]).stdout)
    assert [record["id"] for record in two] == ids
    for first, second in zip(one, two, strict=True):
        assert first["holds"] == second["holds"]
        for name, numbers in first["measured"].items():
            np.testing.assert_allclose(second["measured"][name]["value"], numbers["value"], rtol=1e-9)
    assert (tmp_path / "two" / "linear-critical.png").exists()


@pytest.mark.parametrize(
    ("cores", "claims", "jobs"), [(2, 3, 1), (2, 8, 2), (2, 195, 2), (64, 195, 4), (1, 195, 1)]
)
def test_processes_follow_cores_and_claims(cores, claims, jobs, monkeypatch):
    from finitewidth.cli.claim_processes import default_jobs

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert default_jobs(claims) == jobs


def test_the_longest_claims_come_first(tmp_path, monkeypatch):
    """Known from earlier runs; the records still come in the order that was asked for."""
    job = importlib.import_module("finitewidth.cli.lab_job")
    ids = ["fan-in-scaling", "relu-critical", "linear-critical"]
    for id, seconds in zip(ids, (1.0, 5.0, 3.0), strict=True):
        (tmp_path / f"{id}.json").write_text(json.dumps(
            {"id": id, "holds": True, "seconds": seconds, "checks": [{"statistic": 1.0, "tolerance": 2.0}]}
        ))  # fmt: skip
    started = []

    def records_of(chosen, *arguments):
        started.extend(claim.id for claim in chosen)
        return ({"id": claim.id, "holds": True} for claim in chosen)

    monkeypatch.setattr(job, "records_of", records_of)
    records = job.run_all([registry.claim(id) for id in ids], "quick", 0, tmp_path, 2)
    assert started == ["relu-critical", "linear-critical", "fan-in-scaling"]
    assert [record["id"] for record in records] == ids


def test_run_prints_the_verdict(tmp_path):
    result = runner.invoke(app, ["lab", "run", "criticality-conditions", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "holds" in result.stdout
    assert "relative error" in result.stdout
    assert "no failure is a false alarm" in result.stdout


def test_a_random_problem_without_noise_is_not_called_fixed(tmp_path):
    """Both sides of a claim about random networks may be exact."""
    said = {}
    for id in ("criticality-conditions", "fan-in-scaling", "catapult-kernel-recursion"):
        result = runner.invoke(app, ["lab", "run", id, "--out", str(tmp_path)])
        said[id] = " ".join(result.stdout.split())
    assert "a case for which the claim is wrong" in said["catapult-kernel-recursion"]
    assert "Nothing compared here is random" not in said["catapult-kernel-recursion"]
    fixed = registry.claim("criticality-conditions").deterministic
    assert ("Nothing compared here is random" in said["criticality-conditions"]) == fixed
    assert "a case for which the claim is wrong" not in said["fan-in-scaling"]


def test_run_states_how_often_noise_alone_makes_it_fail(tmp_path):
    claim = registry.claim("fan-in-scaling")
    result = runner.invoke(app, ["lab", "run", "fan-in-scaling", "--out", str(tmp_path)])
    assert "1 comparison with noise" in result.stdout
    assert f"at most {100 * FALSE_ALARM:.2g} %" in result.stdout
    saved = json.loads((tmp_path / f"{claim.id}.json").read_text())
    assert saved["false_alarm"] == saved["checks"][0]["false_alarm"] == FALSE_ALARM
    assert saved["checks"][0]["entries"] == np.size(saved["measured"]["variance"]["value"])
    assert saved["checks"][0]["sem"] > 0


def test_a_failing_claim_gives_exit_code_one(tmp_path, monkeypatch):
    claim = registry.claim("criticality-conditions")

    def wrong_theory(setting):
        return {name: np.asarray(value) * 1.1 for name, value in claim.theory(setting).items()}

    monkeypatch.setattr(registry, "_all", lambda: (dataclasses.replace(claim, theory=wrong_theory),))
    result = runner.invoke(app, ["lab", "run", "--all", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "fails" in result.stdout
    said = " ".join(result.stderr.split())
    assert "fails: criticality-conditions, seed 0, " in said
    (saved,) = [json.loads((tmp_path / "criticality-conditions.json").read_text())]
    check = next(check for check in saved["checks"] if not check["holds"])
    assert f"{check['statistic'] / check['tolerance']:.3g} times what is allowed." in said


def test_brackets_in_a_title_are_printed(tmp_path, monkeypatch):
    claim = dataclasses.replace(registry.claim("criticality-conditions"), title="E[z^4] is exact")
    monkeypatch.setattr(registry, "_all", lambda: (claim,))
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
    both = (fixed, registry.claim("linear-critical"))
    monkeypatch.setattr(registry, "_all", lambda: both)
    run = ["lab", "run", "criticality-conditions", "--out", str(tmp_path)]
    assert "note" not in runner.invoke(app, run).stderr
    result = runner.invoke(app, [*run, "--seed", seed])
    assert result.exit_code == 0
    assert (
        "note: --seed changes nothing in criticality-conditions: no random numbers are drawn there."
        in " ".join(result.stderr.split())
    )
