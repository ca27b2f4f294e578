"""Real networks: drawn, evaluated and trained, without any theory."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

# Functions that bear the name of their module: bound here, they are what the name means whoever came first.
from finitewidth.networks.linearised_path import linearised_path
from finitewidth.networks.steepest_descent import steepest_descent

if TYPE_CHECKING:
    from finitewidth.networks.control_variates import PairedEnsemble, paired_ensemble
    from finitewidth.networks.diagonal_networks import DiagonalWeights, diagonal_descent, diagonal_flow
    from finitewidth.networks.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.ensembles import Ensemble, log_spaced, train_ensemble
    from finitewidth.networks.importance_weights import (
        WeightedTraining,
        logistic_flow,
        ridge_logistic,
        train_weighted,
    )
    from finitewidth.networks.initial_scales import ScaleSweep, Task, teacher_task, train_at_scales
    from finitewidth.networks.learning_rates import (
        LearningRateSweep,
        LearningRateTransfer,
        OwnNetwork,
        best_rate,
        learning_rate_sweep,
        learning_rate_transfer,
    )
    from finitewidth.networks.linearised_path import LinearisedPath, linearised_path
    from finitewidth.networks.margin_training import MarginTraining, separable_flow, train_to_margin
    from finitewidth.networks.monte_carlo import MonteCarloKernels, monte_carlo_kernels
    from finitewidth.networks.optimizers import network_optimizer
    from finitewidth.networks.pieces import Piece, train_in_pieces
    from finitewidth.networks.rescaling import RescaledTraining, balance, rescale, train_rescaled
    from finitewidth.networks.steepest_descent import layer_norms, steepest_descent
    from finitewidth.networks.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.tangent_products import TangentProducts, empirical_ntk_products
    from finitewidth.networks.taylor import TaylorExpansion, expand
    from finitewidth.networks.token_correlations import drawn_token_correlations
    from finitewidth.networks.training import DivergenceError, Training, train
    from finitewidth.networks.weight_space import Endpoint, train_weights

__all__, __getattr__ = exports(__name__, __file__)
