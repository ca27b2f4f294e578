r"""Averages over one neuron whose activation has a kink between curved sides, for several inputs.

At one and the same input a product of delta functions has no meaning; what the fluctuations ask for are sums
that are derivatives of $\langle\sigma^2\rangle$ and $\langle\sigma'^2\rangle$ with respect to K. Where the
slope is continuous, the mean of $\sigma''^2$ and that of $\sigma'''\sigma'$ exist by themselves, and with
them the differentials of the NTK.
"""

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Matrix
from finitewidth.architecture.activations import Activation
from finitewidth.expectations.kinked.bent import bent_four_point, bent_pairs, jumps_of, parallel_pairs
from finitewidth.statistics.first_order.fluctuations import Averages
from finitewidth.statistics.first_order.one_input import one_input_averages

_SAME = 1e-9


def bent_averages(activation: Activation, K: Matrix, tolerance: float, passed_on: bool) -> Averages:
    """What fluctuations need, and differentials too if the slope does not jump.

    Parameters
    ----------
    activation, K, tolerance
        The neuron, the covariance of its preactivations, and the relative accuracy.
    passed_on
        Whether there are fluctuations below; then parallel inputs must be equal, for otherwise averages of
        higher derivatives at the two would be needed, which do not exist one by one.
    """
    q = np.diag(K)
    parallel = parallel_pairs(K)
    equal = parallel & (np.abs(K - q) <= _SAME * q) & (np.abs(K - q[:, None]) <= _SAME * q[:, None])
    if passed_on and (parallel & ~equal).any():
        a, b = np.argwhere(parallel & ~equal)[0]
        raise ValueError(
            f"inputs {a} and {b} have parallel preactivations in a deep layer, where activation "
            f"{activation.name!r} with its kink between curved sides has no averages of higher derivatives; "
            "leave one of them out or give the network biases (C_b > 0)."
        )
    pair = bent_pairs(activation.function, K, tolerance / 10)
    jumps = jumps_of(activation.function)
    for a in range(len(K)):
        own = _one_input(activation, float(q[a]), pair[2, 2, a, a], jumps)
        pair[:, :, equal[a], a] = pair[:, :, a, equal[a]] = own[:, :, None]
    return Averages(pair, bent_four_point(activation.function, K, tolerance))


def _one_input(
    activation: Activation, K: float, square_curvature: float, jumps: tuple[float, ...]
) -> Float[np.ndarray, "6 6"]:
    """Averages at one input, with those of their own that exist."""
    M = np.asarray(one_input_averages(activation, K).pair)[:, :, 0, 0]
    if jumps[0]:
        return M
    third = M[3, 1] - square_curvature
    fourth = M[4, 0] + 4 * M[3, 1] - 4 * third - 3 * square_curvature
    M[2, 2] = square_curvature
    M[3, 1] = M[1, 3] = third
    M[4, 0] = M[0, 4] = fourth
    return M
