"""Training of quadratic models: the dual of their outputs, and flow to first order."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.quadratic_models.theory.dual import DualTrajectory, dual_descent
    from finitewidth.course.quadratic_models.theory.first_order_flow import FirstOrderFlow, FlowWeights

__all__, __getattr__ = exports(__name__, __file__)
