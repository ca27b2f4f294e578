"""Arrays of either library: functions that take NumPy's also take JAX's.

Axes have one vocabulary: `train`, `test` and `out` (points and outputs), `n d` (any points and their inputs),
`features`, `params`.
"""

import numpy as np
from jaxtyping import Array, Float

AnyArray = np.ndarray | Array
Labels = Float[AnyArray, "train out"] | Float[AnyArray, " train"]
