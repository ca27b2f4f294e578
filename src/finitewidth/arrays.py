"""Arrays of either library: functions that take NumPy's also take JAX's."""

import numpy as np
from jaxtyping import Array

AnyArray = np.ndarray | Array
