"""Real networks: drawn, evaluated and trained, without any theory."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.networks.tangent.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.tangent.monte_carlo import MonteCarloKernels, monte_carlo_kernels
    from finitewidth.networks.tangent.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.tangent.tangent_products import TangentProducts, empirical_ntk_products
    from finitewidth.networks.tangent.taylor import TaylorExpansion, expand
    from finitewidth.networks.training.control_variates import PairedEnsemble, paired_ensemble
    from finitewidth.networks.training.ensembles import Ensemble, log_spaced, train_ensemble
    from finitewidth.networks.training.learning_rates import (
        LearningRateSweep,
        LearningRateTransfer,
        OwnNetwork,
        best_rate,
        learning_rate_sweep,
        learning_rate_transfer,
    )
    from finitewidth.networks.training.optimizers import network_optimizer
    from finitewidth.networks.training.pieces import Piece, train_in_pieces
    from finitewidth.networks.training.training import DivergenceError, Training, train
    from finitewidth.networks.training.weight_space import Endpoint, train_weights

__all__, __getattr__ = exports(__name__, __file__)
