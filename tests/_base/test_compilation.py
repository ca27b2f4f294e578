"""Programs for long vectors behave like any other compiled function."""

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth._base.compilation import compiled_for_long_vectors


@compiled_for_long_vectors
def _length(x, power=2):
    """The length of a vector."""
    return jnp.sum(x**power) ** (1 / power)


def test_long_vectors_change_neither_name_nor_numbers():
    x = jnp.arange(1.0, 40.0)
    assert _length.__name__ == "_length"
    np.testing.assert_allclose(_length(x), np.linalg.norm(x), rtol=1e-14)
    np.testing.assert_allclose(_length(x, power=4), np.sum(np.asarray(x) ** 4) ** 0.25, rtol=1e-14)


def test_every_transformation_of_jax_goes_through():
    x = jnp.arange(1.0, 7.0)
    both = jnp.stack([x, 2 * x])
    np.testing.assert_allclose(jax.jit(_length)(x), _length(x), rtol=1e-14)
    np.testing.assert_allclose(jax.vmap(_length)(both), [_length(x), _length(2 * x)], rtol=1e-14)
    np.testing.assert_allclose(jax.grad(_length)(x), x / np.linalg.norm(x), rtol=1e-14)
    np.testing.assert_allclose(jax.jit(lambda: _length(np.asarray(x)))(), _length(x), rtol=1e-14)
    hessian = (np.eye(6) - np.outer(x, x) / np.sum(np.square(x))) / np.linalg.norm(x)
    np.testing.assert_allclose(jax.jit(jax.hessian(_length))(x), hessian, rtol=0, atol=1e-14)
