"""Theory beside experiment: a predicted law against networks drawn and trained for the purpose."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.verification.given_outputs import compare_outputs
    from finitewidth.verification.overall import Overall, Ratio, SpreadTest
    from finitewidth.verification.result import MeasuredCurves, Verification

__all__, __getattr__ = exports(__name__, __file__)
