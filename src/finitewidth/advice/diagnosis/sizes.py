r"""How many layers learn: a participation ratio $(\sum_k s_k)^2/\sum_k s_k^2$ of their shares.

It is the number of layers for equal shares and one where a single layer has everything.
"""

import numpy as np
from jaxtyping import Float

from finitewidth.measure.specimen import Specimen

# What the parameters of a model that is a single layer are called.
_OF_ONE_LAYER = ("weight", "kernel", "bias")


def participation(shares: Float[np.ndarray, " n"]) -> float:
    """How many of the shares count."""
    total = float(np.sum(shares))
    return total**2 / float(np.sum(np.square(shares))) if total > 0 else 0.0


def kernel_shares(specimen: Specimen, cotangent: Float[np.ndarray, "points out"]) -> dict[str, float]:
    r"""Every layer's share in the trace of the tangent kernel, sum over its parameters of |df/dtheta|^2.

    For a cotangent u of independent signs, E |J^T u|^2 = tr(J J^T): one product with J^T estimates the share
    of each layer.
    """
    gradient = specimen.transposed_jacobian_product(cotangent).astype(float)
    sums: dict[str, float] = {}
    for name, (place, _) in specimen.groups.items():
        layer = layer_of(name)
        sums[layer] = sums.get(layer, 0.0) + float(np.sum(gradient[place] ** 2))
    total = sum(sums.values())
    return {layer: part / total for layer, part in sums.items()} if total > 0 else sums


def layer_of(parameter: str) -> str:
    """The layer that a parameter belongs to: all but the last part of its name; "" for a lone layer's."""
    return parameter.rpartition(".")[0] if "." in parameter or parameter in _OF_ONE_LAYER else parameter
