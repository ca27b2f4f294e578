"""Real networks: drawn, evaluated and trained, without any theory."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.networks.control_variates import PairedEnsemble, paired_ensemble
    from finitewidth.networks.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.ensembles import Ensemble, train_ensemble
    from finitewidth.networks.monte_carlo import MonteCarloKernels, monte_carlo_kernels
    from finitewidth.networks.optimizers import network_optimizer
    from finitewidth.networks.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.tangent_products import TangentProducts, empirical_ntk_products
    from finitewidth.networks.taylor import TaylorExpansion, expand
    from finitewidth.networks.training import DivergenceError, Training, train
    from finitewidth.networks.weight_space import Endpoint, train_weights

__all__, __getattr__ = exports(__name__, __file__)
