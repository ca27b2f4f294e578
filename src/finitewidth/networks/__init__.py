"""Real networks: drawn, evaluated and trained, without any theory."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.networks.control_variates import PairedEnsemble, paired_ensemble
    from finitewidth.networks.diagonal_networks import DiagonalWeights, diagonal_descent, diagonal_flow
    from finitewidth.networks.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.ensembles import Ensemble, train_ensemble
    from finitewidth.networks.margin_training import MarginTraining, separable_flow, train_to_margin
    from finitewidth.networks.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.taylor import TaylorExpansion, expand
    from finitewidth.networks.training import DivergenceError, Training, train
    from finitewidth.networks.weight_space import Endpoint, train_weights

__all__, __getattr__ = exports(__name__, __file__)
