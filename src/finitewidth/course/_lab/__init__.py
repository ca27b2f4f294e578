"""What a claim is made of, how it is found and run, and how measurements are compared with predictions."""

from finitewidth.course._lab.claim import Check, Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import (
    absolute_error,
    compare_each,
    depth_over_width,
    lower_bound,
    relative_error,
    upper_bound,
    z_score,
)
from finitewidth.course._lab.estimate import (
    Estimate,
    combined,
    exact,
    jackknife,
    propagated,
    sample_mean,
    share,
    stacked,
    variance,
)
from finitewidth.course._lab.figures import Curves, draw_curves, layer_names, power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import BEYOND, BOOK, DAY_2, DAY_3, IEMS_402, ROBERTS, orf_543
from finitewidth.course._lab.wrong import constant, power, scaled, shifted

__all__ = [
    "BEYOND", "BOOK", "DAY_2", "DAY_3", "IEMS_402", "ROBERTS", "Check", "Checks", "Claim", "Curves",
    "Estimate", "Measurement", "Prediction", "RandomProblem", "absolute_error", "combined", "compare_each",
    "constant", "depth_over_width", "draw_curves", "exact", "jackknife", "layer_names", "lower_bound",
    "orf_543", "power", "power_laws", "propagated", "relative_error", "sample_mean", "scaled", "share",
    "shifted", "stacked", "upper_bound", "variance", "z_score",
]  # fmt: skip
