"""Specimens: derivatives of any model, in batches, in either framework."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import finitewidth as fw
from finitewidth.measure.specimen import specimen
from layer_models import JAX, LABELS, TORCH, VECTORS, jax_model, torch_model
from tolerances import PLAIN_DIFFERENCES, ROUNDING, assert_close

NET = fw.MLP((5, 4), "tanh", n_out=3)
PARAMS = NET.init(jax.random.key(1), 4)


def torch_twin(params=PARAMS, dtype=torch.float64):
    """The network of finitewidth in PyTorch, with its weights, which both keep in the same order."""
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)
    )
    row = torch.cat([torch.tensor(np.array(leaf)).ravel() for leaf in jax.tree.leaves(params)])
    torch.nn.utils.vector_to_parameters(row, model.to(dtype).parameters())
    return model


@pytest.fixture(scope="module", params=["jax", "torch"])
def whole(request):
    if request.param == "jax":
        return specimen(NET, VECTORS, LABELS, params=PARAMS)
    return specimen(torch_twin(), VECTORS, LABELS)


def direction(measured, seed=0):
    return np.random.default_rng(seed).normal(size=len(measured.weights))


def check_derivatives(measured):
    """Every derivative against differences, or against another that differences have confirmed."""
    v, u = direction(measured), direction(measured, 1)
    step = 1e-5 * v
    ahead, behind = measured.at(measured.weights + step), measured.at(measured.weights - step)
    assert_close(v @ measured.gradient(), (ahead.value() - behind.value()) / 2e-5, PLAIN_DIFFERENCES)
    hv = measured.hessian_product(v)
    assert_close(hv, (ahead.gradient() - behind.gradient()) / 2e-5, PLAIN_DIFFERENCES)
    assert abs(u @ hv - v @ measured.hessian_product(u)) < ROUNDING["float64"] * np.linalg.norm(
        u
    ) * np.linalg.norm(hv)
    jv = measured.jacobian_product(v)
    assert_close(jv, (ahead.outputs() - behind.outputs()) / 2e-5, PLAIN_DIFFERENCES)
    w = np.random.default_rng(2).normal(size=jv.shape)
    assert_close(v @ measured.transposed_jacobian_product(w), np.sum(w * jv))
    slopes = measured.loss_slopes()
    assert_close(measured.transposed_jacobian_product(slopes) / measured.points, measured.gradient())
    p = np.exp(measured.outputs() - measured.outputs().max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    curved = p * (jv - np.sum(p * jv, axis=1, keepdims=True)) / measured.points
    assert_close(measured.gauss_newton_product(v), measured.transposed_jacobian_product(curved))


@pytest.mark.parametrize("name", TORCH)
def test_derivatives_of_every_layer_of_pytorch(name):
    model, x = torch_model(name)
    check_derivatives(specimen(model, x, LABELS))


@pytest.mark.parametrize("name", JAX)
def test_derivatives_of_every_layer_of_jax(name):
    model, params, x = jax_model(name)
    check_derivatives(specimen(model, x, LABELS, params=params))


def test_batches_change_nothing(whole):
    v = direction(whole)
    u = np.random.default_rng(2).normal(size=(whole.points, 3))
    model, params = (whole.module, None) if hasattr(whole, "module") else (NET, PARAMS)
    for limit in (2**30, 0):
        parts = specimen(model, VECTORS, LABELS, params=params, batch_size=4, memory_limit=limit)
        for _ in range(2):
            assert_close(parts.value(), whole.value())
            assert_close(parts.gradient(), whole.gradient())
            assert_close(parts.outputs(), whole.outputs())
            assert_close(parts.loss_slopes(), whole.loss_slopes())
            assert_close(parts.hessian_product(v), whole.hessian_product(v))
            assert_close(parts.gauss_newton_product(v), whole.gauss_newton_product(v))
            assert_close(parts.jacobian_product(v), whole.jacobian_product(v))
            assert_close(parts.transposed_jacobian_product(u), whole.transposed_jacobian_product(u))
        kept = [batch.kept_bytes() for batch in parts._batches]
        assert len(kept) == 2
        assert all(kept) if limit else not any(kept)


def test_the_jacobian_itself(whole):
    v = direction(whole)
    jacobian = whole.jacobian()
    assert jacobian.shape == (whole.points, 3, len(v))
    assert_close(jacobian @ v, whole.jacobian_product(v))


def test_both_frameworks_find_the_same_numbers():
    """In float32, whose rounding is 6e-8: a fixed 1e-5 of the largest entry."""
    params = jax.tree.map(lambda leaf: leaf.astype(np.float32), PARAMS)
    ours = specimen(NET, VECTORS, LABELS, params=params)
    theirs = specimen(torch_twin(params, torch.float32), VECTORS, LABELS)
    v = direction(ours).astype(np.float32)
    for measure in ("value", "outputs", "loss_slopes", "gradient"):
        assert_close(getattr(theirs, measure)(), getattr(ours, measure)(), 1e-5)
    for product in ("hessian_product", "gauss_newton_product", "jacobian_product"):
        found = getattr(theirs, product)(v)
        assert found.dtype == getattr(ours, product)(v).dtype == np.float32
        assert_close(found, getattr(ours, product)(v), 1e-5)


def test_other_weights_and_other_data(whole):
    other = whole.at(0.5 * whole.weights).on(VECTORS[:4], LABELS[:4])
    assert_close(other.weights, 0.5 * whole.weights)
    assert other.points == 4
    p = jax.nn.log_softmax(other.outputs())
    assert_close(other.value(), -np.mean([row[label] for row, label in zip(p, LABELS, strict=False)]))


def test_no_program_is_compiled_for_other_weights():
    """A measurement along a training takes the same programs at every step."""
    measured = specimen(NET, VECTORS, LABELS, params=PARAMS)
    v = direction(measured)
    expected = measured.hessian_product(v), measured.gauss_newton_product(v), measured.gradient()
    later = measured.at(1.1 * measured.weights)
    with jax.log_compiles(), pytest.MonkeyPatch.context() as patch:
        compiled = []
        patch.setattr("logging.Logger.warning", lambda self, message, *rest: compiled.append(message))
        found = later.hessian_product(v), later.gauss_newton_product(v), later.gradient()
    assert [message for message in compiled if "ompil" in message] == []
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(found, expected, strict=True))


def test_training_the_module_further_does_not_change_the_specimen():
    model = torch_model("batch norm")[0]
    measured = specimen(model, torch_model("batch norm")[1], LABELS)
    before = measured.value()
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.mul_(2)
    assert measured.value() == before


def test_measuring_changes_nothing_in_the_module():
    model, x = torch_model("batch norm")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    measured = specimen(model, x, LABELS)
    measured.hessian_product(direction(measured))
    measured.gauss_newton_product(direction(measured))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


def test_a_state_dict_in_place_of_the_modules_weights():
    model, x = torch_model("batch norm")
    state = {
        name: 1.5 * tensor if tensor.is_floating_point() else tensor
        for name, tensor in model.state_dict().items()
    }
    there = specimen(model, x, LABELS, params=state).outputs()
    model.load_state_dict(state)
    assert_close(there, model(torch.tensor(x)).detach().numpy())


def test_frozen_and_shared_parameters_of_pytorch():
    model, x = torch_model("shared weights")
    model.first.bias.requires_grad_(False)
    measured = specimen(model, x, LABELS)
    assert list(measured.groups) == ["first.weight", "again.bias", "head.weight", "head.bias"]
    assert len(measured.weights) == 16 + 4 + 12 + 3
    assert_close(measured.outputs(), model(torch.tensor(x)).detach().numpy())


def test_parameters_without_influence_have_no_curvature():
    model, x = torch_model("linear")
    model.unused = torch.nn.Parameter(torch.ones(2).double())
    measured = specimen(_First(model), x, LABELS)
    hv = measured.hessian_product(direction(measured))
    place, _ = measured.groups["model.unused"]
    assert_close(hv[place], np.zeros(2), scale=1)
    assert np.abs(hv).max() > 0


class _First(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model[2](self.model[1](self.model[0](x)))


def test_a_linear_model_under_a_linear_loss_has_no_curvature():
    linear = torch.nn.Linear(4, 1).double()
    measured = specimen(linear, VECTORS, VECTORS[:, :1], loss=lambda f, y: (f * y).mean())
    v = direction(measured)
    assert_close(measured.hessian_product(v), np.zeros(5), scale=1)
    assert_close(measured.gauss_newton_product(v), np.zeros(5), scale=1)


def test_models_of_jax_with_the_same_weights():
    """A function, a Flax module and an Equinox module of one affine layer."""
    weight, bias = np.arange(12.0).reshape(4, 3) / 7, np.ones(3)
    expected = VECTORS @ weight + bias
    flat = eqx.nn.Linear(4, 3, key=jax.random.key(0))
    equinox = eqx.tree_at(lambda l: (l.weight, l.bias), flat, (jnp.asarray(weight.T), jnp.asarray(bias)))
    found = [
        specimen(lambda p, x: x @ p["w"] + p["b"], VECTORS, params={"w": weight, "b": bias}),
        specimen(nn.Dense(3), VECTORS, params={"params": {"kernel": weight, "bias": bias}}),
        specimen(equinox, VECTORS),
    ]
    for measured in found:
        assert_close(measured.outputs(), expected)
    assert list(found[0].groups) == ["b", "w"]


@pytest.mark.parametrize("kind", ["jax", "torch"])
def test_inputs_in_a_dictionary(kind):
    x = {"left": VECTORS, "right": 2 * VECTORS}
    if kind == "jax":
        measured = specimen(
            lambda p, x: (x["left"] + x["right"]) @ p, x, LABELS, params=np.ones((4, 3)), batch_size=4
        )
    else:

        class Sum(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x["left"] + x["right"])

        measured = specimen(Sum(4, 3).double(), x, LABELS, batch_size=4)
    check_derivatives(measured)


def test_precision_follows_the_weights():
    linear = torch.nn.Linear(4, 1)
    for measured in (
        specimen(linear, VECTORS, VECTORS[:, 0]),
        specimen(lambda p, x: x @ p, VECTORS, VECTORS[:, 0], params=np.ones((4, 1), np.float32)),
    ):
        assert measured.loss == "mse"
        assert measured.gradient().dtype == measured.outputs().dtype == np.float32
        assert measured.hessian_product(direction(measured)).dtype == np.float32


def test_the_squared_error_is_half_the_mean_square(whole):
    model, params = (whole.module, None) if hasattr(whole, "module") else (NET, PARAMS)
    other = specimen(model, VECTORS, np.ones((whole.points, 3)), params=params)
    assert other.loss == "mse"
    assert_close(other.value(), 0.5 * np.mean(np.sum((whole.outputs() - 1) ** 2, axis=1)))


MODEL = torch_twin()
NAN = np.where(np.arange(4) == 2, np.nan, VECTORS)


class NoWeights(torch.nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: specimen(NET, VECTORS), "params is missing: MLP does not carry its weights"),
        (lambda: specimen(jnp.dot, VECTORS), "params is missing: dot does not carry"),
        (lambda: specimen(nn.Dense(3), VECTORS), "params is missing: Dense does not carry"),
        (lambda: specimen(nn.Dense(3), VECTORS, params={"kernel": 1}), "all that `model.init` returned"),
        (lambda: specimen(jax_model("shared weights")[0], VECTORS, params={}), "params must be left out"),
        (lambda: specimen(3, VECTORS, params={}), "expected a network or a function"),
        (lambda: specimen(MODEL, VECTORS, LABELS[:4]), "y has 4 labels for 6 points"),
        (lambda: specimen(MODEL, VECTORS, LABELS + 1), "classes between 0 and 2"),
        (lambda: specimen(MODEL, VECTORS, VECTORS), r"real numbers of shape \(6, 3\)"),
        (lambda: specimen(MODEL, VECTORS, LABELS, loss="hinge"), "'cross_entropy' or 'mse' or a function"),
        (lambda: specimen(MODEL, VECTORS, LABELS, batch_size=0), "batch_size must be a whole number"),
        (lambda: specimen(MODEL, NAN, LABELS), "x holds NaN"),
        (lambda: specimen(MODEL, VECTORS[:0], LABELS), "at least one point"),
        (lambda: specimen(MODEL, {"a": VECTORS, "b": VECTORS[:2]}), "parts with 2 and with 6 points"),
        (lambda: specimen(MODEL, np.array([["a"]]), LABELS), "x must hold numbers"),
        (lambda: specimen(MODEL, VECTORS).value(), "needs a loss"),
        (lambda: specimen(MODEL, VECTORS).loss_slopes(), "needs a loss"),
        (lambda: specimen(NoWeights(), VECTORS), "nothing is trained"),
        (
            lambda: specimen(MODEL, VECTORS, params={"0.weight": torch.ones(2)}),
            r"has shape \(2,\); the module's",
        ),
        (lambda: specimen(MODEL, VECTORS, params={}), "params lacks '0.weight'"),
        (lambda: specimen(MODEL, VECTORS[:, :2]), r"does not take inputs of shape \(6, 2\)"),
        (lambda: specimen(NET, VECTORS[:, :2], params=PARAMS), r"does not take inputs of shape \(6, 2\)"),
        (lambda: specimen(MODEL, VECTORS, params=[]), "must be a state dict, got list"),
        (lambda: specimen(torch_twin().half(), VECTORS), "float16; second derivatives need float32"),
        (lambda: specimen(MODEL, VECTORS, LABELS).at(np.full(64, np.inf)), "hold NaN or infinite"),
        (
            lambda: specimen(
                NET, 1e200 * VECTORS, VECTORS[:, :3], params=jax.tree.map(lambda p: p * 1e200, PARAMS)
            ).value(),
            "the loss has NaN or infinite",
        ),
        (lambda: specimen(lambda p, x: p.sum(), VECTORS, params=np.ones(3)), r"6 inputs into shape \(\)"),
    ],
)
def test_refusals(call, sentence, unchecked_annotations):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        call()
    assert str(caught.value).count("\n") == 0
