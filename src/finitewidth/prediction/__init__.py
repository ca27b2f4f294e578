"""p(f*): the distribution of trained networks."""

from finitewidth.prediction.learning_curves import LearningCurve, learning_curve, predicted_learning_curve
from finitewidth.prediction.model_comparison import (
    ModelComparison,
    TunedPrior,
    compare_models,
    evidence_gradient,
    maximise_evidence,
)

__all__ = [
    "LearningCurve", "ModelComparison", "TunedPrior", "compare_models", "evidence_gradient", "learning_curve",
    "maximise_evidence", "predicted_learning_curve",
]  # fmt: skip
