import jax.numpy as jnp
import numpy as np

from finitewidth._base.linalg.followed_cholesky import followed_cholesky
from tolerances import assert_close


def test_a_pivot_of_rounding_alone_gives_nan():
    """The last pivot is what is beyond one: a few units in the last place, or enough to be known."""
    lower = followed_cholesky(jnp.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]]))
    assert_close(lower @ lower.T, [[1.0, 1.0], [1.0, 1.0 + 1e-12]])
    assert np.isnan(np.asarray(followed_cholesky(jnp.array([[1.0, 1.0], [1.0, 1.0 + 1e-15]])))).all()
