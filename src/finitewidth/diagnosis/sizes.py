r"""How many layers learn: a participation ratio $(\sum_k s_k)^2/\sum_k s_k^2$ of their shares.

It is the number of layers for equal shares and one where a single layer has everything.
"""

import numpy as np
from jaxtyping import Float

from finitewidth.measure.specimen import Specimen


def participation(shares: Float[np.ndarray, " n"]) -> float:
    """How many of the shares count."""
    total = float(np.sum(shares))
    return total**2 / float(np.sum(np.square(shares))) if total > 0 else 0.0


def kernel_shares(specimen: Specimen, cotangent: Float[np.ndarray, "points out"]) -> dict[str, float]:
    r"""Every layer's share in the trace of the tangent kernel, sum over its parameters of |df/dtheta|^2.

    For a cotangent u of independent signs, E |J^T u|^2 = tr(J J^T): one product with J^T estimates the share
    of each layer. The parameters of a layer are those whose names differ in the last part only.
    """
    gradient = specimen.transposed_jacobian_product(cotangent).astype(float)
    sums: dict[str, float] = {}
    for name, (place, _) in specimen.groups.items():
        layer = name.rpartition(".")[0] or name
        sums[layer] = sums.get(layer, 0.0) + float(np.sum(gradient[place] ** 2))
    total = sum(sums.values())
    return {layer: part / total for layer, part in sums.items()} if total > 0 else sums
