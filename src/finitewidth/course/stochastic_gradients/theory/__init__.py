"""Steady states, drifts, step limits and schedules of stochastic gradient descent."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.stochastic_gradients.theory.batches import (
        BatchFactors,
        batch_covariance,
        batch_factors,
    )
    from finitewidth.course.stochastic_gradients.theory.diffusion import (
        LineDensity,
        ito_density,
        ring_walk,
        step_density,
        two_step_share,
    )
    from finitewidth.course.stochastic_gradients.theory.label_noise import (
        LabelNoisePath,
        label_noise_path,
        label_noise_penalty,
    )
    from finitewidth.course.stochastic_gradients.theory.least_squares import (
        LeastSquaresSteadyState,
        least_squares_steady_state,
        sgd_step_limit,
    )
    from finitewidth.course.stochastic_gradients.theory.schedules import (
        NoisyDescent,
        best_schedule,
        late_variance,
        noise_bound,
        noisy_descent,
        variance_floor,
    )
    from finitewidth.course.stochastic_gradients.theory.steady_state import pass_covariance, steady_covariance
    from finitewidth.course.stochastic_gradients.theory.valleys import (
        entropic_drift,
        valley_drift,
        valley_variance,
    )

__all__, __getattr__ = exports(__name__, __file__)
