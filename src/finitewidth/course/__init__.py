"""The laboratory: every theorem as a prediction, a measurement on random networks, and a verdict.

Examples
--------
>>> from finitewidth import lab
>>> outcome = lab.run("criticality-conditions")
>>> outcome.holds
True
"""

from pathlib import Path

from finitewidth.course._lab.claim import Check, Claim, Outcome, Scale, Verdict
from finitewidth.course._lab.estimate import Estimate
from finitewidth.course._lab.registry import claim, claims
from finitewidth.course._lab.runner import run_claim, save

__all__ = ["Check", "Claim", "Estimate", "Outcome", "Scale", "Verdict", "claim", "claims", "run"]


def run(
    id: str, scale: Scale = "quick", *, seed: int = 0, out: str | Path | None = None, teeth: bool = False
) -> Outcome:
    """Run one claim.

    Parameters
    ----------
    id
        One of the ids of `claims()`.
    scale
        "quick" for seconds, "full" for the figures of the book.
    seed
        Seed of the random key of the measurement.
    out
        Directory for the JSON file and the figure; nothing is written without it.
    teeth
        Also find which errors of the theory the verdict notices.
    """
    outcome = run_claim(claim(id), scale, seed, teeth)
    if out is not None:
        save(outcome, Path(out))
    return outcome
