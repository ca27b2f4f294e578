"""One page about a network that somebody already has: what is wrong with it, and what to change."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.diagnosis.diagnose import diagnose
    from finitewidth.diagnosis.next_steps import NextSteps
    from finitewidth.diagnosis.result import Diagnosis, Finding, LayerRow, StepLimit
    from finitewidth.diagnosis.tangent_kernel import TangentKernel

__all__, __getattr__ = exports(__name__, __file__)
