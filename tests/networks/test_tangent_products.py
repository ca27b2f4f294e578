import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.arrays import as_matrix
from tolerances import assert_close


@pytest.fixture
def full(net, params, inputs):
    return fw.empirical_ntk(net, params, inputs[2], inputs[1])


@pytest.mark.parametrize("structured", [True, False])
def test_equal_outputs_are_the_diagonal_of_all_pairs(structured, net, params, inputs, full):
    """Through layer Gram products and through Jacobians, at once and in tiles."""
    model, rates = (net, None) if structured else (net.apply, net.learning_rates(3))
    for limit in (2**30, 9000):
        ask = lambda outputs, limit=limit: fw.empirical_ntk(
            model, params, inputs[2], inputs[1], rates=rates, outputs=outputs, memory_limit=limit
        )
        assert_close(ask("diagonal"), jnp.einsum("aaij->aij", full))
        assert_close(ask("mean"), jnp.einsum("aaij->ij", full) / 2)


def test_unknown_pairs_of_outputs_are_refused(net, params, inputs, unchecked_annotations):
    with pytest.raises(ValueError, match="outputs must be one of all, diagonal, mean, got 'trace'"):
        fw.empirical_ntk(net, params, inputs[0], outputs="trace")


def test_products_are_those_of_the_matrix(net, params, inputs, full, rng):
    v = rng.normal(size=(3, 2))
    H = fw.empirical_ntk_products(net, params, inputs[2], inputs[1])
    assert_close(H(v), jnp.einsum("abij,jb->ia", full, v))


def test_products_of_any_function_take_any_rates(net, params, inputs, rng):
    rates = jax.tree.map(lambda leaf: rng.uniform(0.5, 2.0, leaf.shape), params)
    v = rng.normal(size=(4, 2))
    H = fw.empirical_ntk_products(net.apply, params, inputs[2], rates=rates)
    matrix = fw.empirical_ntk(net.apply, params, inputs[2], rates=rates)
    assert_close(H(v), jnp.einsum("abij,jb->ia", matrix, v))


def test_solutions_and_trace_are_those_of_the_matrix(net, params, inputs, rng):
    H = fw.empirical_ntk_products(net, params, inputs[2])
    matrix = np.asarray(as_matrix(fw.empirical_ntk(net, params, inputs[2])))
    b = rng.normal(size=(4, 2))
    solved = np.linalg.solve(matrix + 0.1 * np.eye(8), b.T.ravel()).reshape(2, 4).T
    assert_close(H.solve(b, ridge=0.1, rtol=1e-12), solved, 1e-9)
    trace = H.trace(key=jax.random.key(0), draws=200)
    assert abs(trace.value - np.trace(matrix)) < 4 * trace.sem
    # Signs leave the diagonal exact: the variance of one draw is twice the sum of squares beside it.
    spread = np.sqrt(2 * (np.sum(matrix**2) - np.sum(np.diag(matrix) ** 2)) / 200)
    assert 0.7 < trace.sem / spread < 1.4


def test_wrong_vectors_and_sets_get_a_sentence(net, params, inputs):
    H = fw.empirical_ntk_products(net, params, inputs[2], inputs[1])
    with pytest.raises(
        ValueError, match=r"v has shape \(2, 2\); these inputs have outputs of shape \(3, 2\)"
    ):
        H(jnp.ones((2, 2)))
    with pytest.raises(ValueError, match="leave x2 out"):
        H.solve(jnp.ones((4, 2)))
    square = fw.empirical_ntk_products(net, params, inputs[2])
    with pytest.raises(ValueError, match="did not reach rtol=1e-12"):
        square.solve(jnp.arange(8.0).reshape(4, 2), rtol=1e-12, max_steps=1)
