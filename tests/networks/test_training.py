import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import finitewidth as fw
from finitewidth.networks.losses import LOSSES
from finitewidth.networks.models import as_model
from finitewidth.networks.training.observables import Sharpness, TrainingLoss
from finitewidth.networks.training.training import DivergenceError
from tolerances import assert_close

X = jax.random.normal(jax.random.key(1), (6, 3))
Y = jnp.stack([jnp.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1)


def by_hand(net, params, gradient, transformation, steps):
    """Training with a plain Python loop."""
    memory = transformation.init(params)
    for t in range(steps):
        updates, memory = transformation.update(gradient(params, t), memory, params)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("sgd", optax.sgd(0.02)),
        ("momentum", optax.sgd(0.02, momentum=0.9)),
        ("adam", optax.adam(0.02)),
        ("sign", optax.sign_sgd(0.02)),
    ],
)
def test_named_optimizers_are_those_of_optax(net, params, name, optimizer):
    gradient = jax.jit(jax.grad(lambda p: 0.5 * jnp.sum((net.apply(p, X) - Y) ** 2)))
    expected = by_hand(net, params, lambda p, t: gradient(p), optimizer, 6)
    run = fw.train(net, params, X, Y, steps=6, learning_rate=0.02, optimizer=name, rates=1.0)
    same = fw.train(net, params, X, Y, steps=6, optimizer=optimizer, rates=1.0)
    for a, b, c in zip(*map(jax.tree.leaves, (run.params, same.params, expected)), strict=True):
        assert_close(a, c)
        assert_close(b, c)


def test_muon_moves_matrices_by_orthogonal_steps(net, params):
    """Five Newton-Schulz iterations leave singular values between 0.68 and 1.13."""
    run = fw.train(net, params, X, Y, steps=1, learning_rate=0.1, optimizer="muon", rates=1.0)
    for before, after in zip(params, run.params, strict=True):
        singular = np.linalg.svd((after.weight - before.weight) / 0.1, compute_uv=False)
        assert np.all((singular > 0.6) & (singular < 1.2))
        assert_close(jnp.abs(after.bias - before.bias), np.full(before.bias.shape, 0.1), 1e-6)


def test_the_learning_rate_tensor_multiplies_every_group(net, params):
    gradient = jax.grad(lambda p: 0.5 * jnp.sum((net.apply(p, X) - Y) ** 2))(params)
    run = fw.train(net, params, X, Y, steps=1, learning_rate=0.1)
    for l, fan_in in enumerate((3, 4, 5)):
        assert_close(
            run.params[l].weight, params[l].weight - 0.1 * net.lambda_W[l] / fan_in * gradient[l].weight
        )
        assert_close(run.params[l].bias, params[l].bias - 0.1 * net.lambda_b[l] * gradient[l].bias)


def test_a_schedule_is_a_function_of_the_step(net, params):
    constant = fw.train(net, params, X, Y, steps=4, learning_rate=0.05)
    halves = fw.train(net, params, X, Y, steps=8, learning_rate=lambda t: jnp.where(t % 2 == 0, 0.05, 0.0))
    for a, b in zip(jax.tree.leaves(constant.params), jax.tree.leaves(halves.params), strict=True):
        assert_close(a, b)


def test_a_pass_of_mini_batches_shows_every_point_once(key):
    """With a linear loss the gradient of a batch is the sum of its inputs."""
    x = jax.random.normal(key, (6, 3))
    w = jnp.zeros((3, 1))
    run = fw.train(
        lambda w, x: x @ w, w, x, jnp.zeros(6), steps=3, learning_rate=1.0, batch_size=2, key=key,
        loss=lambda z, y: jnp.sum(z),
    )  # fmt: skip
    assert_close(run.params[:, 0], -3.0 * x.sum(axis=0))


def test_every_pass_has_an_order_of_its_own(key):
    """Losses of batches under weights that hardly move tell which points were in them."""
    x = jax.random.normal(key, (6, 3))
    w = jnp.ones((3, 1))
    run = fw.train(
        lambda w, x: x @ w, w, x, jnp.zeros(6), steps=12, learning_rate=1e-14, batch_size=2, key=key,
        loss=lambda z, y: jnp.sum(z),
    )  # fmt: skip
    passes = np.round(np.asarray(run.losses).reshape(4, 3), 9)
    assert_close(passes.sum(axis=1), np.full(4, 3 * float(x.sum())), 1e-7)
    assert len(np.unique(passes, axis=0)) > 1
    assert len(np.unique(passes)) > 3


def test_mini_batches_depend_on_the_key_and_full_batches_do_not(net, params):
    settings = {"steps": 5, "learning_rate": 0.02}
    keys = [jax.random.key(i) for i in (0, 0, 1)]
    a, b, c = (fw.train(net, params, X, Y, batch_size=2, key=k, **settings).losses for k in keys)
    assert np.array_equal(a, b)
    assert not np.allclose(a, c)
    whole = fw.train(net, params, X, Y, batch_size=6, key=keys[2], **settings)
    assert_close(whole.losses, fw.train(net, params, X, Y, **settings).losses)


def test_records_are_those_of_the_parameters_at_their_times(net, params):
    run = fw.train(
        net, params, X, Y, steps=7, learning_rate=0.05, record=["loss", "outputs", "ntk"], record_every=3
    )
    assert run.times.tolist() == [0, 3, 6, 7]
    for k, t in enumerate(run.times):
        at = fw.train(net, params, X, Y, steps=int(t), learning_rate=0.05).params if t else params
        assert_close(run.recorded["outputs"][k], net.apply(at, X), 1e-11)
        assert_close(run.recorded["ntk"][k], fw.empirical_ntk(net, at, X), 1e-11)
        assert_close(run.recorded["loss"][k], 0.5 * jnp.sum((net.apply(at, X) - Y) ** 2), 1e-11)
    assert_close(run.losses[jnp.array([0, 3, 6])], run.recorded["loss"][:3], 1e-11)


def test_sharpness_is_the_top_of_the_hessian(net, params):
    loss = TrainingLoss(as_model(net), LOSSES["mse"], X, Y)
    start = jax.tree.map(jnp.ones_like, params)
    run = fw.train(
        net,
        params,
        X,
        Y,
        steps=1,
        learning_rate=0.01,
        record={"sharpness": Sharpness(loss, start)},
    )
    theta, unravel = jax.flatten_util.ravel_pytree(params)
    eigenvalues = np.linalg.eigvalsh(jax.jit(jax.hessian(lambda t: loss(unravel(t))))(theta))
    found, top = run.recorded["sharpness"], eigenvalues[np.argmax(np.abs(eigenvalues))]
    assert abs(found.value[0] - top) <= found.error[0] <= 1e-5 * top
    assert_close(found.value[0], top, 1e-9)


def quadratic_sharpness(curvature, **settings):
    start = jax.random.normal(jax.random.key(0), curvature.shape)
    return Sharpness(lambda p: 0.5 * jnp.sum(curvature * p**2), start, **settings)(jnp.zeros(len(curvature)))


def test_sharpness_keeps_the_sign_of_the_curvature():
    assert_close(quadratic_sharpness(jnp.array([1.0, -5.0, 2.0])).value, -5.0)


@pytest.mark.parametrize("gap", [0.1, 0.01, 0.001])
def test_sharpness_bounds_its_error_where_two_eigenvalues_are_close(gap):
    curvature = jnp.concatenate([jnp.array([3.0, 3.0 - gap]), jnp.linspace(-1.0, 2.5, 98)])
    short = quadratic_sharpness(curvature, products=10, rounds=2)
    assert abs(short.value - 3.0) <= short.error
    found = quadratic_sharpness(curvature)
    assert abs(found.value - 3.0) <= found.error <= 3e-5


@pytest.mark.parametrize("curvature", [[4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 1.0]])
def test_sharpness_of_a_hessian_of_low_rank(curvature):
    found = quadratic_sharpness(jnp.array(curvature))
    assert_close(found.value, max(curvature), scale=1.0)
    assert found.error < 1e-12


@pytest.mark.parametrize(
    ("loss", "labels"),
    [("cross_entropy", [0, 1, 0, 1, 1, 0]), ("logistic", np.sign(Y)), ("exponential", np.sign(Y))],
)
def test_every_loss_trains(net, params, loss, labels):
    run = fw.train(net, params, X, labels, steps=200, learning_rate=0.1, loss=loss)
    assert run.losses[-1] < 0.5 * run.losses[0]


def test_gradient_descent_is_stable_up_to_two_over_the_top_of_the_kernel(net, params):
    """For the linearised network the limit is sharp."""
    linear = fw.expand(net, params, 1)
    H = np.asarray(fw.empirical_ntk(net, params, X)).transpose(0, 2, 1, 3).reshape(12, 12)
    limit = 2 / np.linalg.eigvalsh(H)[-1]
    run = fw.train(linear, params, X, Y, steps=3000, learning_rate=0.98 * limit)
    assert run.losses[-1] < run.losses[0]
    with pytest.raises(DivergenceError, match="training diverged with learning_rate"):
        fw.train(linear, params, X, Y, steps=3000, learning_rate=1.02 * limit)


def test_divergence_names_the_step_and_the_limit(net, params):
    with pytest.raises(
        ValueError, match=r"loss went from .* by step \d+; use a smaller .* below 2/lambda_max = 0\.\d+"
    ):
        fw.train(lambda p, x: net.apply(p, x) ** 3, params, X, Y, steps=100, learning_rate=50.0)


def test_bad_input_gets_one_sentence(net, params):
    sentences = {
        "needs a learning_rate": {},
        "learning_rate must be positive and finite, got -1": {"learning_rate": -1.0},
        "brings its own learning rate": {"learning_rate": 0.1, "optimizer": optax.sgd(0.1)},
        "unknown optimizer 'lbfgs'. Known: sgd": {"learning_rate": 0.1, "optimizer": "lbfgs"},
        "pass a key": {"learning_rate": 0.1, "batch_size": 2},
        "batch_size must be between 1 and the 6 training points, got 7": {
            "learning_rate": 0.1,
            "batch_size": 7,
        },
        "unknown observable 'ntkk'": {"learning_rate": 0.1, "record": ["ntkk"]},
        "loss cross_entropy needs whole-number classes": {"learning_rate": 0.1, "loss": "cross_entropy"},
        "record_every must be a whole number of at least 1": {"learning_rate": 0.1, "record_every": 0},
    }
    for sentence, arguments in sentences.items():
        with pytest.raises(ValueError, match=sentence):
            fw.train(net, params, X, Y, steps=5, **arguments)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        fw.train(net, params, X, Y, steps=0, learning_rate=0.1)
    with pytest.raises(ValueError, match=r"params\[0\].weight has shape \(4, 3\)"):
        fw.train(net, params, X[:, :2], Y, steps=5, learning_rate=0.1)
