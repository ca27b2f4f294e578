"""One page about a network that somebody already has: what is wrong with it, and what to change."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.advice.diagnosis.examination import diagnose
    from finitewidth.advice.diagnosis.next_steps import NextSteps
    from finitewidth.advice.diagnosis.result import Diagnosis, Finding, LayerRow
    from finitewidth.advice.diagnosis.step_limit import StepLimit
    from finitewidth.advice.diagnosis.tangent_kernel import TangentKernel

__all__, __getattr__ = exports(__name__, __file__)
