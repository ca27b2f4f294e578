"""The laboratory: every theorem as a prediction, a measurement on random networks, and a verdict.

Examples
--------
>>> from finitewidth import lab
>>> outcome = lab.run("criticality-conditions")
>>> outcome.holds
True
"""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course._lab.claim import Check, Claim, Outcome, Scale, Verdict
    from finitewidth.course._lab.estimate import Estimate
    from finitewidth.course._lab.registry import claim, claims
    from finitewidth.course._lab.runner import run

__all__, __getattr__ = exports(__name__, __file__)
