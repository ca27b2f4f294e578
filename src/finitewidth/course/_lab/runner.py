"""Runs claims and keeps what came out: one JSON file and one figure per claim."""

import dataclasses
import json
import platform
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from finitewidth._base.programs import release_programs
from finitewidth._base.whole_files import whole_file
from finitewidth.architecture.saving import versions
from finitewidth.course._lab import registry
from finitewidth.course._lab.claim import Check, Claim, Outcome, Scale
from finitewidth.course._lab.teeth import Tooth, examined
from finitewidth.report import style


def run_claim(claim: Claim, scale: Scale = "quick", seed: int = 0, teeth: bool = False) -> Outcome:
    """Predict, measure and compare; with `teeth`, find which errors of the theory the verdict notices."""
    release_programs()
    problem, key = claim.problem(scale, seed)
    start, cpu_start = time.perf_counter(), time.process_time()
    prediction, context = claim.predict(problem)
    measurement = claim.measure(problem, key)
    verdict = claim.verdict(problem, prediction, measurement)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return Outcome(
        claim=claim,
        scale=scale,
        seed=seed,
        problem=problem,
        dtype=jnp.zeros(()).dtype.name,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        versions={"python": platform.python_version(), **versions()},
        prediction=prediction,
        measurement=measurement,
        verdict=verdict,
        context=context,
        teeth=tuple(examined(claim, scale, problem, prediction, measurement)) if teeth else None,
    )


def run(
    claim: str | Claim,
    scale: Scale = "quick",
    *,
    seed: int = 0,
    out: str | Path | None = None,
    teeth: bool = False,
) -> Outcome:
    """Run one claim.

    Parameters
    ----------
    claim
        One of the ids of `claims()`, or a claim of your own.
    scale
        "quick" for seconds, "full" for the figures of the book.
    seed
        Seed of the random key of the measurement.
    out
        Directory for the JSON file and the figure; nothing is written without it.
    teeth
        Also find which errors of the theory the verdict notices.
    """
    asked = registry.claim(claim) if isinstance(claim, str) else claim
    outcome = run_claim(asked, scale, seed, teeth)
    if out is not None:
        save(outcome, Path(out))
    return outcome


def run_on_worker(id: str, scale: Scale, seed: int, teeth: bool = False) -> dict[str, Any]:
    """Run the claim of this id on a worker; its functions do not travel, what came out does."""
    outcome = run_claim(registry.claim(id), scale, seed, teeth)
    fields = {field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)}
    return fields | {"claim": id}


def from_worker(found: dict[str, Any]) -> Outcome:
    """The outcome of `run_on_worker`, with its claim."""
    arguments: dict[str, Any] = found | {"claim": registry.claim(found["claim"])}
    return Outcome(**arguments)


def save(outcome: Outcome, directory: Path) -> None:
    """Write <id>.json and <id>.png; a file with its final name is always complete."""
    directory.mkdir(parents=True, exist_ok=True)
    with style.house_style():
        style.save(outcome.draw(), directory / f"{outcome.claim.id}.png")
    with whole_file(directory / f"{outcome.claim.id}.json") as file:
        file.write((json.dumps(record(outcome), indent=1, allow_nan=False) + "\n").encode())


def describe(claim: Claim) -> dict[str, Any]:
    """What is claimed and where it comes from, ready for JSON."""
    names = ("id", "title", "chapter", "statement", "source", "deterministic")
    return {name: getattr(claim, name) for name in names}


def record(outcome: Outcome) -> dict[str, Any]:
    """Everything about a run, ready for JSON."""
    return describe(outcome.claim) | {
        "holds": outcome.holds,
        "false_alarm": outcome.verdict.false_alarm,
        "checks": [_check_record(check) for check in outcome.verdict.checks],
        "scale": outcome.scale,
        "seed": outcome.seed,
        "dtype": outcome.dtype,
        "seconds": round(outcome.seconds, 3),
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "versions": dict(outcome.versions),
        "setting": {k: _plain(v) for k, v in dataclasses.asdict(outcome.problem).items()},
        "predicted": {name: _plain(value) for name, value in outcome.prediction.items()},
        "context": {name: _plain(value) for name, value in outcome.context.items()},
        "gaps": dict(outcome.claim.gaps),
        "measured": {
            name: {"value": _plain(value), "sem": _plain(sem)}
            for name, (value, sem) in outcome.measurement.items()
        },
        "teeth": outcome.teeth and [_tooth_record(tooth) for tooth in outcome.teeth],
        "figure": f"{outcome.claim.id}.png",
    }


def _tooth_record(tooth: Tooth) -> dict[str, Any]:
    numbers = {name: _plain(value) for name, value in vars(tooth).items()}
    return numbers | {"notices": _plain(tooth.notices), "sharp": tooth.sharp}


def _check_record(check: Check) -> dict[str, Any]:
    numbers = {k: _plain(v) for k, v in vars(check).items() if k != "compared"}
    return numbers | {"holds": check.holds}


def _plain(value: Any) -> Any:
    """Lists and numbers instead of arrays; None where JSON has no number."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
