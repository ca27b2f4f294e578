"""Arrays of either library: functions that take NumPy's also take JAX's.

Axes have one vocabulary: `train`, `test` and `out` (points and outputs), `n d` (any points and their inputs),
`features`, `params`.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float

AnyArray = np.ndarray | Array
# A function that acts on every entry of an array alone.
Elementwise = Callable[[Array], Array]
# Tensors over two and over four points: of NumPy, unless JAX follows their numbers.
Matrix = Float[AnyArray, "n n"]
Quadruple = Float[AnyArray, "n n n n"]
Labels = Float[AnyArray, "train out"] | Float[AnyArray, " train"]


def as_matrix(kernel: Float[AnyArray, "out out n1 n2"]) -> Float[AnyArray, "rows columns"]:
    """A kernel of all pairs of outputs as a matrix over pairs (output, point)."""
    n_out, _, n1, n2 = kernel.shape
    return kernel.swapaxes(1, 2).reshape(n_out * n1, n_out * n2)
