import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.architecture.models.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.architecture.models.tangent_model import TangentMetaKernel, TangentModel
from tolerances import assert_close


@pytest.fixture
def neurons():
    return RandomNeurons.draw(jax.random.key(0), 3, 7, "tanh", 1.5)


def outputs(params, x):
    """The hidden layer itself, as a function to differentiate."""
    a, w = params
    x = jnp.column_stack([x, jnp.ones(len(x))]) / jnp.sqrt(x.shape[1] + 1)
    return (jnp.tanh(x @ w.T) @ a / jnp.sqrt(len(a)))[:, None]


def test_products_equal_the_derivatives_of_the_layer(neurons, rng):
    x = [rng.normal(size=(n, 3)) for n in (4, 5, 6)]
    points = tuple(neurons.at(p) for p in x)
    model = TangentModel(outputs, (jnp.asarray(neurons.a), jnp.asarray(neurons.w)))
    tangents = tuple(model.at(p) for p in x)
    J = [np.asarray(t.jacobian(model.zeros())) for t in tangents]
    assert_close(neurons.kernel(points[0], points[1]), J[0] @ J[1].T)
    mu = NeuronMetaKernel(neurons, points)
    dense = TangentMetaKernel(tangents, model.zeros()).dense()
    assert_close(mu.dense(), dense)
    C, D = rng.normal(size=(2, 5, 6)), rng.normal(size=(2, 4, 6))
    assert_close(mu.over_features(C), np.einsum("abc,obc->ao", dense, C))
    assert_close(mu.over_meta(D), np.einsum("abc,oac->bo", dense, D))
