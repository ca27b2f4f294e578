"""The catapult: exact recursions of one-point, quadratic and ReLU networks, and their phases."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.large_learning_rates.theory.catapult import (
        CatapultPath,
        CatapultPhases,
        OnePointNetwork,
        Phase,
    )
    from finitewidth.course.large_learning_rates.theory.catapult_quadratic import (
        QuadraticPhases,
        quadratic_phases,
    )
    from finitewidth.course.large_learning_rates.theory.catapult_relu import ReluCatapult, relu_catapult

__all__, __getattr__ = exports(__name__, __file__)
