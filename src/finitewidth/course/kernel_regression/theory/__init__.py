"""Ridge regression with a kernel, and its effective number of parameters."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.kernel_regression.theory.ridge import RidgeFit, ridge_regression

__all__, __getattr__ = exports(__name__, __file__)
