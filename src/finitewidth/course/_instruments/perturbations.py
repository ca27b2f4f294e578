"""Small changes of an input, followed through the layers of random networks."""

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments.network_draws import input_of_size, over_layers

_PERPENDICULAR = np.array([[1.0, -1.0, 1.0, -1.0]])


def along_depth(
    net: Layer, K: float, key: PRNGKeyArray, draws: int
) -> dict[str, Float[np.ndarray, "draws layers"]]:
    """Variance, its change along the input, and the squared change across it, layer by layer.

    Networks start at K^(1) = K; both changes are one in the first layer on average.
    """
    C_b, C_W, _, _ = dense_stack(net).layers[0]
    x = input_of_size((K - C_b) / C_W)
    along = over_layers(net, np.concatenate([x, x / (K - C_b)]), key, draws, with_tangent=True)
    across_key = jax.random.fold_in(key, 1)
    across = over_layers(
        net, np.concatenate([x, _PERPENDICULAR / np.sqrt(C_W)]), across_key, draws, with_tangent=True
    )
    return {"variance": along[..., 0, 0], "parallel": along[..., 0, 1], "perpendicular": across[..., 1, 1]}
