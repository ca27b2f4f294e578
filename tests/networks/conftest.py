import jax
import pytest

import finitewidth as fw


@pytest.fixture
def key():
    return jax.random.key(7)


@pytest.fixture
def net():
    """Two hidden layers of unequal width, two outputs, every hyperparameter different."""
    return fw.MLP(
        hidden=(4, 5),
        activation="tanh",
        C_b=[0.2, 0.1, 0.3],
        C_W=[1.1, 1.4, 0.9],
        lambda_b=[0.3, 0.5, 0.7],
        lambda_W=[1.0, 2.0, 0.5],
        n_out=2,
    )


@pytest.fixture
def params(net, key):
    return net.init(key, 3)


@pytest.fixture
def inputs():
    """Four sets of inputs of different sizes."""
    return [jax.random.normal(jax.random.key(100 + i), (n, 3)) for i, n in enumerate((2, 3, 4, 3))]
