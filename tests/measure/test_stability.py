"""Limits of optimisers by recursions and by running them; sharpness along training by dense Hessians."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.flatten_util import ravel_pytree

from finitewidth import MLP
from finitewidth.course.large_learning_rates.networks.phases import TrainingPhase, training_phases
from finitewidth.measure.loss.stability import edge_of_stability, stability_limit

OPTIMIZERS = {
    "sgd": lambda b: optax.sgd(1.0),
    "momentum": lambda b: optax.sgd(1.0, momentum=b),
    "nesterov": lambda b: optax.sgd(1.0, momentum=b, nesterov=True),
    # Adam on a frozen preconditioner.
    "adam": lambda b: optax.chain(optax.ema(b, debias=False), optax.scale(-1.0)),
}


def recursion(name, b, s):
    """One step of (position, memory) on the loss s p^2 / 2."""
    return {
        "sgd": np.array([[1 - s]]),
        "momentum": np.array([[1 - s, -b], [s, b]]),
        "nesterov": np.array([[1 - s * (1 + b), -(b**2)], [s, b]]),
        "adam": np.array([[1 - s * (1 - b), -b], [s * (1 - b), b]]),
    }[name]


@pytest.mark.parametrize("b", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_spectral_radius_passes_one_at_the_limit(name, b):
    limit = stability_limit(name, b)
    radius = [np.abs(np.linalg.eigvals(recursion(name, b, part * limit))).max() for part in (0.999, 1.001)]
    assert radius[0] < 1 < radius[1]


@pytest.mark.parametrize("b", [0.0, 0.9])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_real_optimisers_run_away_above_the_limit(name, b):
    optimizer = OPTIMIZERS[name](b)
    curvature = jnp.array([0.98, 1.02]) * stability_limit(name, b)

    def step(state, _):
        p, memory = state
        updates, memory = optimizer.update(curvature * p, memory)
        return (p + updates, memory), None

    start = jnp.ones(2)
    (end, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), None, length=3000)
    assert abs(end[0]) < 1e-3
    assert abs(end[1]) > 1e3


def test_values_of_the_table():
    found = [stability_limit(name, 0.9) for name in ("sgd", "momentum", "nesterov", "adam")]
    np.testing.assert_allclose(found, [2, 3.8, 3.8 / 2.8, 38])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(6, 2)))
    net = MLP((5,), "tanh", C_b=0.1, C_W=1.5, parametrisation="standard")
    y = jnp.sin(x[:, :1])
    return net.init(jax.random.key(1), 2), lambda p: 0.5 * jnp.mean((net.apply(p, x) - y) ** 2)


@pytest.fixture(scope="module")
def dense(problem):
    """The largest eigenvalue of scales H scales, as a function of weights and scales."""
    params, loss = problem
    _, unravel = ravel_pytree(params)
    hessian = jax.jit(jax.hessian(lambda q: loss(unravel(q))))
    return lambda params, scales: np.linalg.eigvalsh(
        hessian(ravel_pytree(params)[0]) * np.outer(scales, scales)
    )[-1]


@pytest.mark.parametrize("name", ["momentum", "nesterov", "adam"])
def test_sharpness_is_the_dense_hessian_s_along_the_optimiser_s_own_path(problem, dense, name):
    params, loss = problem
    slope = jax.jit(jax.grad(loss))
    eta, steps = 0.05, 20
    run = edge_of_stability(loss, params, learning_rate=eta, steps=steps, optimizer=name, record_every=10)
    made = {
        "momentum": optax.sgd(eta, momentum=0.9),
        "nesterov": optax.sgd(eta, momentum=0.9, nesterov=True),
        "adam": optax.adam(eta),
    }[name]

    @jax.jit
    def step(at, memory):
        updates, memory = made.update(jax.grad(loss)(at), memory, at)
        return optax.apply_updates(at, updates), memory

    at, memory = params, made.init(params)
    for t in range(steps + 1):
        if t in run.times:
            scales = np.ones(1)
            if name == "adam":
                gradient = ravel_pytree(slope(at))[0]
                nu = gradient**2 if t == 0 else ravel_pytree(memory[0].nu)[0] / (1 - 0.999**t)
                scales = 1 / np.sqrt(np.sqrt(np.asarray(nu)) + 1e-8)
            i = int(np.flatnonzero(run.times == t)[0])
            exact = dense(at, np.broadcast_to(scales, ravel_pytree(at)[0].shape))
            np.testing.assert_allclose(run.sharpness[i], exact, rtol=1e-6)
            np.testing.assert_allclose(run.losses[i], loss(at), rtol=1e-9)
        if t < steps:
            at, memory = step(at, memory)
    assert run.times.tolist() == [0, 10, 20]
    np.testing.assert_allclose(ravel_pytree(run.params)[0], ravel_pytree(at)[0], rtol=1e-9)
    assert (run.error < 1e-3 * run.sharpness).all()


def test_rates_precondition_the_hessian(problem, dense):
    params, loss = problem
    rates = jax.tree.map(lambda p: 0.3 + p.size / 7, params)
    run = edge_of_stability(loss, params, learning_rate=0.1, steps=1, rates=rates)
    tree = jax.tree.map(lambda p, r: jnp.broadcast_to(r, p.shape), params, rates)
    np.testing.assert_allclose(run.sharpness[0], dense(params, np.sqrt(ravel_pytree(tree)[0])), rtol=1e-6)


def test_descent_comes_to_the_edge_of_a_product():
    """(a b c - 1)^2 / 2 from a steep start: steps sharpen and end with eta lambda at 2."""
    loss = lambda p: (jnp.prod(p) - 1) ** 2 / 2
    run = edge_of_stability(loss, jnp.array([1.5, 1.5, 0.05]), learning_rate=0.3, steps=4000)
    assert run.start < 1
    assert run.late <= 1.01
    slow = edge_of_stability(loss, jnp.array([1.5, 1.5, 0.05]), learning_rate=0.05, steps=4000)
    assert slow.arrival() is None
    assert not slow.at_edge()
    assert not slow.diverged
    np.testing.assert_allclose(slow.ratio, 0.05 * slow.sharpness / 2)
    np.testing.assert_allclose(slow.start, slow.ratio[0])
    assert slow.late == pytest.approx(slow.ratio[-1], rel=1e-3)
    assert slow.sharpening == pytest.approx(slow.sharpness.max() / slow.sharpness[0])


def test_a_run_that_diverges_says_so():
    run = edge_of_stability(lambda p: jnp.sum(p**4), jnp.array([3.0]), learning_rate=1.0, steps=50)
    assert run.diverged
    assert np.isnan(run.sharpness[-1])


def test_phases_of_a_linear_network_on_one_point_are_those_of_its_weights():
    """z = v w / m^1/2 with labels of zero: lazy below 2, catapult below 4, divergent above."""
    rng = np.random.default_rng(2)
    m = 400
    params = {"v": jnp.asarray(rng.normal(size=m)), "w": jnp.asarray(rng.normal(size=m))}
    found = training_phases(
        lambda p: (p["v"] @ p["w"] / np.sqrt(m)).reshape(1, 1),
        params,
        jnp.zeros((1, 1)),
        edges=np.array([1.0, 1.9, 2.2, 3.0, 3.9, 4.1, 6.0]),
        steps=200,
    )
    assert found.phases.tolist() == [0, 0, 1, 1, 1, 2, 2]
    np.testing.assert_allclose(found.kernel, (params["v"] @ params["v"] + params["w"] @ params["w"]) / m)
    assert (found.sharpness[:5] < 2).all()
    assert found.threshold(TrainingPhase.CATAPULT) == pytest.approx(2.05)
    assert found.threshold(TrainingPhase.DIVERGENT) == pytest.approx(4.0)
    assert np.isnan(found.threshold(TrainingPhase.LAZY))
    np.testing.assert_allclose(found.rise[:2], 1.0)


def test_rates_enter_the_tangent_kernel_and_the_steps():
    params = {"v": jnp.array([2.0]), "w": jnp.array([0.5])}
    found = training_phases(
        lambda p: (p["v"] * p["w"]).reshape(1, 1),
        params,
        jnp.zeros((1, 1)),
        edges=np.array([1.0]),
        steps=1,
        rates={"v": 3.0, "w": 0.5},
    )
    kernel = 3.0 * 0.5**2 + 0.5 * 2.0**2
    np.testing.assert_allclose(found.kernel, kernel)
    v, w = 2.0 - 3.0 / kernel * 0.5, 0.5 - 0.5 / kernel * 2.0
    np.testing.assert_allclose(found.losses[0], [0.5, (v * w) ** 2 / 2])
    np.testing.assert_allclose(found.sharpness, (3.0 * w**2 + 0.5 * v**2) / kernel)


def test_arguments_that_cannot_be_meant():
    loss = lambda p: jnp.sum(p**2)
    with pytest.raises(ValueError, match="optimizer 'muon' has no known stability limit"):
        stability_limit("muon")
    with pytest.raises(ValueError, match="momentum must be at least 0 and below 1"):
        stability_limit("adam", 1.0)
    with pytest.raises(ValueError, match="loss must return one number"):
        edge_of_stability(lambda p: p, jnp.ones(2), learning_rate=0.1, steps=2)
    with pytest.raises(ValueError, match="learning_rate must be a positive number"):
        edge_of_stability(loss, jnp.ones(2), learning_rate=-0.1, steps=2)
    with pytest.raises(ValueError, match="edges must be positive and ascending"):
        training_phases(
            lambda p: p[:, None], jnp.ones(2), jnp.ones((2, 1)), edges=np.array([2.0, 1.0]), steps=2
        )
    with pytest.raises(ValueError, match=r"y has shape \(3, 1\); the outputs have shape \(2, 1\)"):
        training_phases(lambda p: p[:, None], jnp.ones(2), jnp.ones((3, 1)), edges=np.array([1.0]), steps=2)


class Twin(torch.nn.Module):
    """The network of `problem` in PyTorch, at the same weights."""

    def __init__(self, params):
        super().__init__()
        for name, layer in zip(("first", "last"), params, strict=True):
            linear = torch.nn.Linear(layer.weight.shape[1], layer.weight.shape[0]).double()
            with torch.no_grad():
                linear.weight.copy_(torch.tensor(np.array(layer.weight)))
                linear.bias.copy_(torch.tensor(np.array(layer.bias)))
            self.add_module(name, linear)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


@pytest.fixture(scope="module")
def twins():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 2))
    y = np.sin(x[:, :1])
    net = MLP((5,), "tanh", C_b=0.1, C_W=1.5, parametrisation="standard")
    params = net.init(jax.random.key(1), 2)
    inputs, labels = torch.tensor(x), torch.tensor(y)
    return (
        (lambda p: 0.5 * jnp.mean((net.apply(p, jnp.asarray(x)) - y) ** 2), params),
        (lambda module: 0.5 * ((module(inputs) - labels) ** 2).mean(), Twin(params)),
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_pytorch_and_jax_train_alike_and_meet_the_same_sharpness(twins, name):
    before = {key: value.clone() for key, value in twins[1][1].state_dict().items()}
    ours, theirs = (
        edge_of_stability(loss, start, learning_rate=0.1, steps=60, optimizer=name, record_every=20)
        for loss, start in twins
    )
    np.testing.assert_array_equal(ours.times, theirs.times)
    np.testing.assert_allclose(theirs.losses, ours.losses, rtol=1e-8)
    np.testing.assert_allclose(theirs.sharpness, ours.sharpness, rtol=1e-6)
    assert theirs.limit == ours.limit
    for layer, part in zip(("first", "last"), ours.params, strict=True):
        np.testing.assert_allclose(
            theirs.params[f"{layer}.weight"].numpy(), part.weight, rtol=1e-6, atol=1e-9
        )
    for key, value in twins[1][1].state_dict().items():
        assert torch.equal(value, before[key])


def test_rates_of_pytorch_precondition_the_hessian(twins):
    (jax_loss, params), (loss, module) = twins
    rates = {"first.weight": 0.5, "first.bias": 2.0, "last.weight": 1.5, "last.bias": 0.0}
    found = edge_of_stability(loss, module, learning_rate=0.1, steps=2, rates=rates)
    tree = [
        type(layer)(jnp.asarray(rates[f"{name}.weight"]), jnp.asarray(rates[f"{name}.bias"]))
        for name, layer in zip(("first", "last"), params, strict=True)
    ]
    tree = jax.tree.unflatten(jax.tree.structure(params), jax.tree.leaves(tree))
    expected = edge_of_stability(jax_loss, params, learning_rate=0.1, steps=2, rates=tree)
    np.testing.assert_allclose(found.sharpness, expected.sharpness, rtol=1e-6)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)
    assert torch.equal(found.params["last.bias"], module.state_dict()["last.bias"])


def test_pytorch_refuses_in_a_sentence(twins):
    loss, module = twins[1]
    with pytest.raises(ValueError, match=r"rates of a PyTorch module.*first\.weight, first\.bias"):
        edge_of_stability(loss, module, learning_rate=0.1, steps=1, rates={"first.weight": 1.0})
    with pytest.raises(ValueError, match=r"loss must return one number.*\(6, 1\)"):
        edge_of_stability(lambda m: m(torch.ones(6, 2).double()), module, learning_rate=0.1, steps=1)
    diverged = edge_of_stability(loss, module, learning_rate=1e6, steps=60, record_every=20)
    assert diverged.diverged
    assert np.isnan(diverged.sharpness[-1])
