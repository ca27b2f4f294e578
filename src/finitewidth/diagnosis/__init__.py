"""One page about a network that somebody already has: what is wrong with it, and what to change."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.diagnosis.examination import diagnose
    from finitewidth.diagnosis.next_steps import NextSteps
    from finitewidth.diagnosis.result import Diagnosis, Finding, LayerRow
    from finitewidth.diagnosis.step_limit import StepLimit
    from finitewidth.diagnosis.tangent_kernel import TangentKernel

__all__, __getattr__ = exports(__name__, __file__)
