"""All claims, in the order of the book."""

import difflib

from finitewidth.lab.chapters import (
    critical_points,
    feature_learning,
    gradient_sizes,
    gradient_step,
    half_stable,
    initialisation,
    off_criticality,
    relu_angle,
    trained_finite_width,
    variance_decay,
    wide_limit,
)
from finitewidth.lab.claim import Claim

_CLAIMS: tuple[Claim, ...] = (
    *initialisation.CLAIMS,
    *wide_limit.CLAIMS,
    *critical_points.CLAIMS,
    *half_stable.CLAIMS,
    *variance_decay.CLAIMS,
    *relu_angle.CLAIMS,
    *off_criticality.CLAIMS,
    *gradient_step.CLAIMS,
    *gradient_sizes.CLAIMS,
    *feature_learning.CLAIMS,
    *trained_finite_width.CLAIMS,
)


def claims() -> tuple[Claim, ...]:
    """Every claim of the laboratory."""
    return _CLAIMS


def claim(id: str) -> Claim:
    """The claim with this id."""
    by_id = {c.id: c for c in _CLAIMS}
    if id in by_id:
        return by_id[id]
    closest = difflib.get_close_matches(id, by_id, n=3, cutoff=0.0)
    raise ValueError(f"there is no claim {id!r}; the closest are {', '.join(closest)}.")
