"""All claims, in the order of the book."""

import difflib

from finitewidth.lab.chapters import (
    algorithm_projectors,
    best_epsilon,
    critical_points,
    descent_rates,
    end_of_descent,
    feature_learning,
    finite_width_tensors,
    gradient_sizes,
    gradient_step,
    half_stable,
    initialisation,
    kernel_fluctuations,
    kernel_motion,
    lazy_scale,
    lazy_training,
    lazy_width,
    linear_models,
    mean_kernels,
    nearly_kernel,
    network_machines,
    ntk_moments,
    off_criticality,
    positive_kernels,
    quadratic_models,
    relu_angle,
    representation,
    reproducing_kernels,
    ridge_duality,
    tangent_kernel,
    trained_covariance,
    trained_finite_width,
    trained_law,
    useful_features,
    variance_decay,
    wide_limit,
)
from finitewidth.lab.claim import Claim

_CLAIMS: tuple[Claim, ...] = (
    *initialisation.CLAIMS,
    *wide_limit.CLAIMS,
    *critical_points.CLAIMS,
    *half_stable.CLAIMS,
    *variance_decay.CLAIMS,
    *relu_angle.CLAIMS,
    *off_criticality.CLAIMS,
    *gradient_step.CLAIMS,
    *gradient_sizes.CLAIMS,
    *feature_learning.CLAIMS,
    *linear_models.CLAIMS,
    *descent_rates.CLAIMS,
    *end_of_descent.CLAIMS,
    *reproducing_kernels.CLAIMS,
    *ridge_duality.CLAIMS,
    *tangent_kernel.CLAIMS,
    *positive_kernels.CLAIMS,
    *lazy_training.CLAIMS,
    *lazy_width.CLAIMS,
    *lazy_scale.CLAIMS,
    *trained_law.CLAIMS,
    *quadratic_models.CLAIMS,
    *nearly_kernel.CLAIMS,
    *algorithm_projectors.CLAIMS,
    *representation.CLAIMS,
    *best_epsilon.CLAIMS,
    *useful_features.CLAIMS,
    *network_machines.CLAIMS,
    *kernel_fluctuations.CLAIMS,
    *ntk_moments.CLAIMS,
    *mean_kernels.CLAIMS,
    *finite_width_tensors.CLAIMS,
    *kernel_motion.CLAIMS,
    *trained_finite_width.CLAIMS,
    *trained_covariance.CLAIMS,
)


def claims() -> tuple[Claim, ...]:
    """Every claim of the laboratory."""
    return _CLAIMS


def claim(id: str) -> Claim:
    """The claim with this id."""
    by_id = {c.id: c for c in _CLAIMS}
    if id in by_id:
        return by_id[id]
    closest = difflib.get_close_matches(id, by_id, n=3, cutoff=0.0)
    raise ValueError(f"there is no claim {id!r}; the closest are {', '.join(closest)}.")
