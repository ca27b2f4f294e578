"""Raw variances and rates against networks with explicit multipliers, and measured width exponents."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import finitewidth as fw
from finitewidth.parametrisation import MaximalUpdate
from tolerances import assert_close

X = jax.random.normal(jax.random.key(1), (6, 3))
Y = jnp.sin(3 * X[:, :1])
WIDTHS = np.array([64, 2048])


def multiplied(net, multipliers, params, x):
    """The network W = multiplier * w, as a function of the w."""
    scaled = [(m * layer.weight, layer.bias) for m, layer in zip(multipliers, params, strict=True)]
    return net.apply(tuple(type(params[0])(*layer) for layer in scaled), x)


def with_multipliers(net, params, multipliers, transformation, steps):
    """Outputs after training the multiplied network with one common learning rate."""
    w = tuple(layer._replace(weight=layer.weight / m) for m, layer in zip(multipliers, params, strict=True))
    memory = transformation.init(w)

    def loss(w):
        return 0.5 * jnp.sum((multiplied(net, multipliers, w, X) - Y) ** 2)

    for _ in range(steps):
        updates, memory = transformation.update(jax.grad(loss)(w), memory, w)
        w = optax.apply_updates(w, updates)
    return multiplied(net, multipliers, w, X)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_ntk_rates_are_multipliers_of_one_over_sqrt_fan_in(key, optimizer):
    net = fw.MLP(hidden=(8, 12), activation="tanh")
    params = net.init(key, 3)
    run = fw.train(net, params, X, Y, steps=5, learning_rate=0.1, optimizer=optimizer)
    step = {"sgd": optax.sgd(0.1), "momentum": optax.sgd(0.1, momentum=0.9)}[optimizer]
    assert_close(
        net.apply(run.params, X), with_multipliers(net, params, [3**-0.5, 8**-0.5, 12**-0.5], step, 5), 1e-11
    )


def test_ntk_rates_for_adam_are_the_multipliers(key):
    net = fw.MLP(hidden=(8, 12), activation="tanh")
    params = net.init(key, 3)
    run = fw.train(net, params, X, Y, steps=5, learning_rate=0.1, optimizer="adam")
    expected = with_multipliers(net, params, [3**-0.5, 8**-0.5, 12**-0.5], optax.adam(0.1, eps=0.0), 5)
    assert_close(net.apply(run.params, X), expected, 1e-6)


def test_mean_field_is_one_over_n_with_a_step_proportional_to_n(key):
    n, eta = 16, 0.3
    net = fw.MLP(hidden=(n,), activation="tanh", C_b=0.0, C_W=1.0, lambda_b=0.0, parametrisation="mean-field")
    params = net.init(key, 3)
    run = fw.train(net, params, X, Y, steps=5, learning_rate=eta)
    # z = (1/n) sum_j a_j tanh(w_j . x / sqrt(n_0)) with gradient steps eta * n on a and w.
    a, w = n * params[1].weight[0], params[0].weight * 3**0.5

    def loss(a, w):
        return 0.5 * jnp.sum((jnp.tanh(X @ w.T / 3**0.5) @ a / n - Y[:, 0]) ** 2)

    for _ in range(5):
        da, dw = jax.grad(loss, (0, 1))(a, w)
        a, w = a - eta * n * da, w - eta * n * dw
    assert_close(net.apply(run.params, X)[:, 0], jnp.tanh(X @ w.T / 3**0.5) @ a / n, 1e-11)


def test_mean_field_initial_weights_have_order_one(key):
    net = fw.MLP(hidden=(4000,), activation="tanh", C_b=0.0, C_W=2.0, parametrisation="mean-field")
    a = 4000 * net.init(key, 3)[1].weight
    assert abs(float(jnp.var(a)) / 2.0 - 1) < 5 * np.sqrt(2 / 4000)


@pytest.mark.parametrize("geometry", ["gradient", "entrywise", "spectral"])
def test_maximal_update_at_its_base_width_is_standard(geometry, key):
    settings = {"hidden": (32, 32), "activation": "relu"}
    standard = fw.MLP(**settings, parametrisation="standard")
    mup = fw.MLP(**settings, parametrisation="mup:32")
    for a, b in (
        (standard.learning_rates(5, geometry), mup.learning_rates(5, geometry)),
        (standard.init(key, 5), mup.init(key, 5)),
    ):
        for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            assert_close(left, right)


def test_adam_rates_of_maximal_update():
    net = fw.MLP(hidden=(64, 64), activation="relu", parametrisation=MaximalUpdate(base_width=32))
    first, hidden, last = net.learning_rates(3, "entrywise")
    assert [float(layer.weight) for layer in (first, hidden, last)] == [1.0, 0.5, 0.5]
    assert [float(layer.bias) for layer in (first, hidden, last)] == [1.0, 1.0, 1.0]


# Three inputs, hidden layers of n neurons; weights of the first, hidden and last layer, then their biases.
# The maximal update counts widths in units of 16.
TABLE = {
    ("ntk", "gradient"): lambda n: ([1 / 3, 1 / n, 1 / n], [1, 1, 1]),
    ("ntk", "entrywise"): lambda n: ([3**-0.5, n**-0.5, n**-0.5], [1, 1, 1]),
    ("ntk", "spectral"): lambda n: ([3**-0.5, n**-0.5, n**-0.5], [1, 1, 1]),
    ("standard", "gradient"): lambda n: ([1, 1, 1], [1, 1, 1]),
    ("standard", "entrywise"): lambda n: ([1, 1, 1], [1, 1, 1]),
    ("standard", "spectral"): lambda n: ([1, 1, 1], [1, 1, 1]),
    ("mean-field", "gradient"): lambda n: ([n / 3, 1, 1 / n], [n, n, 1]),
    ("mean-field", "entrywise"): lambda n: ([3**-0.5, n**-0.5, 1 / n], [1, 1, 1]),
    ("mean-field", "spectral"): lambda n: ([3**-0.5, n**-0.5, 1 / n], [1, 1, 1]),
    ("mup:16", "gradient"): lambda n: ([n / 16, 1, 16 / n], [n / 16, n / 16, 1]),
    ("mup:16", "entrywise"): lambda n: ([1, 16 / n, 16 / n], [1, 1, 1]),
    ("mup:16", "spectral"): lambda n: ([(n / 16) ** 0.5, 1, (16 / n) ** 0.5], [1, 1, 1]),
}
VARIANCES = {
    "ntk": lambda n: [1 / 3, 1 / n, 1 / n],
    "standard": lambda n: [1 / 3, 1 / n, 1 / n],
    "mean-field": lambda n: [1 / 3, 1 / n, 1 / n**2],
    "mup:16": lambda n: [1 / 3, 1 / n, 16 / n**2],
}


@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize(("parametrisation", "geometry"), TABLE)
def test_rates_of_every_layer_at_two_widths(parametrisation, geometry, n):
    lambdas = {"lambda_W": [4.0, 9.0, 25.0], "lambda_b": [0.25, 0.36, 0.49]}
    net = fw.MLP((n, n), "relu", **lambdas, parametrisation=parametrisation)
    weights, biases = TABLE[parametrisation, geometry](n)
    power = 1.0 if geometry == "gradient" else 0.5
    rates = net.learning_rates(3, geometry)
    assert_close([r.weight for r in rates], np.array(weights) * np.array(lambdas["lambda_W"]) ** power)
    assert_close([r.bias for r in rates], np.array(biases) * np.array(lambdas["lambda_b"]) ** power)


@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("parametrisation", VARIANCES)
def test_variances_of_every_layer_at_two_widths(parametrisation, n):
    net = fw.MLP((n, n), "relu", parametrisation=parametrisation)
    found = [net.parametrisation.weight_variance(place) for place in net.places(3)]
    assert_close(found, np.array(VARIANCES[parametrisation](n)))


class Sizes(NamedTuple):
    """Root mean squares at initialisation and after two steps, averaged over draws."""

    outputs: float
    features: float
    change: float
    kernel: float


def exponents(parametrisation, learning_rate, optimizer="sgd", draws=4) -> Sizes:
    """Slopes of log(size) in log(width)."""
    x, y = X.astype(jnp.float32), 10 * Y.astype(jnp.float32)
    sizes = []
    for n in WIDTHS:
        net = fw.MLP(hidden=(int(n),) * 2, activation="relu", parametrisation=parametrisation)
        squares = []
        for draw in range(draws):
            params = net.init(jax.random.key(draw), 3, dtype=jnp.float32)
            run = fw.train(net, params, x, y, steps=2, learning_rate=learning_rate, optimizer=optimizer)
            before, after = net.preactivations(params, x), net.preactivations(run.params, x)
            parts = (before[2], after[1] - before[1], after[2] - before[2], fw.empirical_ntk(net, params, x))
            squares.append([float(jnp.mean(part**2)) for part in parts])
        sizes.append(0.5 * np.log(np.mean(squares, axis=0)))
    return Sizes(*np.polyfit(np.log(WIDTHS), sizes, 1)[0])


# Four draws of two widths: relative fluctuations of order (2 / (64 * 4))^(1/2) at one end, over log(32).
SLOPE = 0.1


def test_width_exponents_of_maximal_update_with_gradient_steps():
    slope = exponents("mup:64", 1e-3)
    assert abs(slope.features) < SLOPE
    assert abs(slope.change) < SLOPE
    assert abs(slope.kernel) < SLOPE


def test_width_exponents_of_maximal_update_with_adam():
    slope = exponents("mup:64", 1e-3, "adam")
    assert abs(slope.features) < SLOPE
    assert abs(slope.change) < SLOPE


def test_width_exponents_of_the_ntk_parametrisation():
    slope = exponents("ntk", 1e-3)
    assert abs(slope.features + 0.5) < SLOPE
    assert abs(slope.change) < SLOPE
    assert abs(slope.kernel) < SLOPE


def test_width_exponents_of_the_standard_parametrisation():
    slope = exponents("standard", 1e-7)
    assert abs(slope.change - 1) < SLOPE
    assert abs(slope.kernel - 1) < SLOPE


@pytest.mark.parametrize(
    ("parametrisation", "expected"), [("ntk", 0.0), ("mup:64", -0.5), ("mean-field", -0.5)]
)
def test_width_exponent_of_the_initial_outputs(parametrisation, expected):
    """The spread of 512 outputs that share two hidden layers, exact to 3 per cent and the draw of these."""
    spread = []
    for n in WIDTHS:
        net = fw.MLP((int(n),) * 2, "tanh", C_b=0.0, C_W=1.0, n_out=512, parametrisation=parametrisation)
        params = net.init(jax.random.key(5), 3, dtype=jnp.float32)
        spread.append(float(jnp.std(net.apply(params, X[:1].astype(jnp.float32)))))
    assert abs(np.polyfit(np.log(WIDTHS), np.log(spread), 1)[0] - expected) < SLOPE


@pytest.mark.parametrize("parametrisation", ["ntk", "standard", "mean-field", "mup"])
def test_a_linear_model_has_nothing_that_scales(parametrisation, key):
    net = fw.MLP(hidden=(), activation="linear", parametrisation=parametrisation)
    assert float(net.learning_rates(4)[0].bias) == 1.0
    assert net.init(key, 4)[0].weight.shape == (1, 4)


def test_unknown_parametrisation_lists_the_known():
    with pytest.raises(
        ValueError, match=r"unknown parametrisation 'mupp'. Known: ntk, standard, mean-field, mup"
    ):
        fw.MLP(hidden=(4,), parametrisation="mupp")
