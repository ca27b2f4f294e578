"""What is wrong with a network is found and named; networks that work are left in peace."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import finitewidth as fw
from finitewidth.advice.diagnosis.points import some_points
from finitewidth.measure.specimen import specimen
from networks_on_digits import CLASSES, FRAMEWORKS, WIDTH, deep, digits, train_torch
from tolerances import SINGLE_SOLVE, assert_close

FEW = {"points": 40, "steps": 3}


def named(found: fw.Diagnosis) -> str:
    return "; ".join(fault.name for fault in found.faults)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_network_that_works_has_no_fault(trained, data, framework):
    model, params = trained(framework)
    found = fw.diagnose(model, *data, params=params, learning_rate=0.01, **FEW)
    assert found.faults == ()
    assert found.verdict == "No fault found."
    assert found.accuracy > 0.9
    assert [row.units for row in found.layers] == [WIDTH, WIDTH, CLASSES]
    assert found.parameters == 64 * WIDTH + WIDTH**2 + WIDTH * CLASSES + 2 * WIDTH + CLASSES
    assert_close(found.next_steps.trained[0], found.loss, SINGLE_SOLVE)
    assert found.next_steps.trained[-1] < found.loss
    # Steps of a hundredth are too small for the kernel to move.
    assert found.next_steps.difference < 0.01
    assert_close(sum(row.share for row in found.layers), 1.0, SINGLE_SOLVE)
    assert 1 <= found.effective_depth <= 3
    assert found.depth_over_width == 2 / WIDTH


def test_the_order_model_params_data(trained, data):
    model, params = trained("linen")
    one, other = fw.diagnose(model, params, data, **FEW), fw.diagnose(model, *data, params=params, **FEW)
    assert one.to_dict() == other.to_dict()
    model = trained("torch").model
    assert fw.diagnose(model, None, data, **FEW).loss == fw.diagnose(model, *data, **FEW).loss


@pytest.mark.parametrize("framework", ["torch", "finitewidth"])
def test_the_largest_step_is_two_over_the_largest_eigenvalue_of_the_dense_hessian(trained, data, framework):
    model, params = trained(framework)
    small = (nn.Linear(64, CLASSES), None) if framework == "torch" else (model, params)
    found = fw.diagnose(small[0], *data, params=small[1], **FEW)
    x, y = data
    rng = np.random.default_rng(np.asarray(jax.random.key_data(jax.random.key(0))))
    subject = specimen(small[0], *some_points(x, y, 40, rng), params=small[1])
    if framework == "torch":
        dense = np.stack([subject.hessian_product(row) for row in np.eye(650, dtype=np.float32)])
        largest = np.linalg.eigvalsh((dense + dense.T) / 2)[-1]
    else:
        v = np.random.default_rng(0).normal(size=len(subject.weights))
        for _ in range(200):
            v = subject.hessian_product(v / np.linalg.norm(v))
        largest = np.linalg.norm(v)
    assert_close(found.step.largest, 2 / largest, 1e-2)
    assert_close(found.step.sharpness, largest, 1e-2)


def test_vanishing_signals(data):
    found = fw.diagnose(deep(nn.Tanh, 16, 0.5), *data, **FEW)
    assert "vanishing gradients" in named(found)
    assert found.layers[0].flag
    assert "tune" in found.faults[0].remedy
    # A layer of tanh with small signals multiplies them by the variance of its weights times the fan-in.
    factors = [row.forward for row in found.layers[1:]]
    assert_close(np.exp(np.mean(np.log(factors))), 0.25, 0.15)
    assert all(0.8 < row.critical_forward <= 1 for row in found.layers[3:])


def test_exploding_gradients(data):
    found = fw.diagnose(deep(nn.ReLU, 10, 4.0), *data, **FEW)
    assert "exploding gradients" in named(found)
    # Half of the squares pass a ReLU: 16 / 2 a layer, where a critical layer would have 2 / 2.
    factors = [row.backward for row in found.layers[:-1]]
    assert_close(np.exp(np.mean(np.log(factors))), 8.0, 0.25)
    assert_close(np.array([row.critical_backward for row in found.layers[:-1]]), np.ones(10))


def test_saturated_tanh(data):
    found = fw.diagnose(train_torch(deep(nn.Tanh, 2, 12.0), steps=5).model, *data, **FEW)
    assert "saturated units" in named(found)
    assert found.layers[0].saturated > 0.5


def test_dead_relu(data):
    found = fw.diagnose(train_torch(deep(nn.ReLU, 2, 1.4, bias=-5.0), 1e-4, steps=5).model, *data, **FEW)
    assert "dead units" in named(found)
    assert found.layers[0].dead > 0.7


@pytest.mark.parametrize("framework", ["torch", "nnx"])
def test_a_step_above_the_limit(trained, data, framework):
    model, params = trained(framework)
    limit = fw.diagnose(model, *data, params=params, **FEW).step.largest
    found = fw.diagnose(model, *data, params=params, learning_rate=3 * limit, **FEW)
    assert "step too large" in named(found)
    assert_close(found.step.ratio, 3.0, 1e-3)
    assert fw.diagnose(model, *data, params=params, learning_rate=0.9 * limit, **FEW).faults == ()


def test_a_class_that_is_never_predicted(trained, data):
    model = trained("torch").model
    x, y = data
    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    state["4.bias"][7] -= 100.0
    names = [f"digit {k}" for k in range(10)]
    found = fw.diagnose(model, x, y, params=state, class_names=names, **FEW)
    assert "class never predicted" in named(found)
    assert "digit 7" in found.faults[0].meaning


def test_the_start_of_training(data):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    start = {name: weight.clone() for name, weight in model.state_dict().items()}
    train_torch(model, steps=20)
    found = fw.diagnose(model, *data, start=start, **FEW)
    assert found.laziness.kernel_change > 0.1
    assert any(finding.name == "moved since the start" for finding in found.findings)
    same = fw.diagnose(model, *data, start=model, **FEW)
    assert same.laziness.kernel_change == 0


def test_the_start_of_training_in_jax(trained, data):
    net, params = trained("finitewidth")
    start = net.init(jax.random.key(0), 64, dtype=jnp.float32)
    assert fw.diagnose(net, *data, params=params, start=start, **FEW).laziness.weights_change > 0
    model = trained("equinox").model
    assert fw.diagnose(model, *data, start=model, **FEW).laziness.weights_change == 0


def test_without_labels_there_is_no_word_about_steps(trained, data):
    found = fw.diagnose(trained("torch").model, data[0], **FEW)
    assert found.step is found.next_steps is found.loss is found.accuracy is found.collapse is None
    assert found.kernel.points == 40  # 400 rows of 10 outputs


def test_regression(rng):
    x = rng.normal(size=(50, 3)).astype(np.float32)
    net = fw.MLP((16,), "tanh", n_out=2)
    params = net.init(jax.random.key(0), 3)
    y = np.sin(x[:, :2])
    found = fw.diagnose(net, x, y, params=params, learning_rate=0.1, optimizer="momentum", points=50, steps=3)
    assert found.accuracy is None
    assert found.loss_name == "mse"
    assert_close(found.step.largest, 3.8 / found.step.sharpness)
    expected = 0.5 * np.mean(np.sum((np.asarray(net.apply(params, jnp.asarray(x))) - y) ** 2, axis=1))
    assert_close(found.loss, expected, SINGLE_SOLVE)


def test_what_is_saved(trained, data, tmp_path):
    found = fw.diagnose(trained("torch").model, *data, learning_rate=0.1, **FEW)
    report = found.save(tmp_path / "page")
    assert sorted(path.name for path in report.parent.iterdir()) == ["report.html", "summary.json"]
    summary = json.loads((tmp_path / "page" / "summary.json").read_text())
    assert summary["faults"] == []
    assert summary["step"]["largest"] == found.step.largest
    assert len(summary["layers"]) == 3
    text = report.read_text()
    assert "No fault found." in text
    assert all(finding.name in text for finding in found.findings)


def test_a_block_without_gradients_changes_nothing(trained, data):
    model = trained("torch").model
    with torch.no_grad():
        found = fw.diagnose(model, *data, **FEW)
    assert found.to_dict() == fw.diagnose(model, *data, **FEW).to_dict()


def test_another_key_chooses_other_points(trained, data):
    model = trained("torch").model
    first, second = (fw.diagnose(model, *data, key=jax.random.key(k), **FEW) for k in (1, 2))
    assert first.loss != second.loss
    assert first.points == second.points == 40


class Normalised(nn.Module):
    """What frameworks' hooks stumble over: in-place and functional activations, a shared layer, attention."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.shared = nn.Linear(64, 64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.layer_norm, self.head = nn.LayerNorm(64), nn.Linear(64, CLASSES)

    def forward(self, x):
        tokens = self.act(self.norm(self.conv(x))).flatten(2)
        tokens = torch.tanh(self.shared(nn.functional.gelu(self.shared(tokens))))
        tokens = self.layer_norm(tokens + self.attention(tokens, tokens, tokens)[0])
        return self.head(tokens.mean(1))


def test_every_kind_of_layer_of_pytorch():
    x, y = digits(100)
    images = x.reshape(-1, 1, 8, 8)
    torch.manual_seed(0)
    model = train_torch(Normalised(), 1e-2, 30, (images, y)).model
    found = fw.diagnose(model, images, y, learning_rate=1e-3, optimizer="adam", points=10, steps=2)
    assert found.faults == ()
    kinds = {row.kind for row in found.layers}
    assert {"convolution", "dense", "attention"} <= kinds
    assert found.accuracy > 0.5


def scaled(params, x):
    return jnp.tanh(x @ params["a"]) @ params["b"]


BAD: dict = {
    "a model in training mode with dropout": (
        lambda x, y: fw.diagnose(nn.Sequential(nn.Linear(64, 10), nn.Dropout(0.5)), x, y),
        r"training mode, with dropout.*model\.eval\(\)",
    ),
    "batch statistics": (
        lambda x, y: fw.diagnose(nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10)), x, y),
        r"training mode, with batch statistics.*model\.eval\(\)",
    ),
    "labels beyond the outputs": (lambda x, y: fw.diagnose(nn.Linear(64, 5), x, y), "label|class"),
    "too few labels": (
        lambda x, y: fw.diagnose(nn.Linear(64, 10), x, y[:-1]),
        r"y has shape \(299,\) and x has 300 points",
    ),
    "a class without a sample": (
        lambda x, y: fw.diagnose(nn.Linear(64, 12), x, y),
        "class 10 and 1 more of the model's 12 has no sample",
    ),
    "a loss that is not finite": (
        lambda x, y: fw.diagnose(nn.Linear(64, 10), x * np.float32(1e38), y),
        "NaN or infinite",
    ),
    "weights that are not finite": (
        lambda x, y: fw.diagnose(scaled, x, y, params={"a": np.full((64, 3), np.nan), "b": np.ones((3, 10))}),
        "NaN or infinite",
    ),
    "inputs of another shape": (lambda x, y: fw.diagnose(nn.Linear(3, 10), x, y), "does not take inputs"),
    "no weights": (lambda x, y: fw.diagnose(scaled, x, y), "params is missing"),
    "a start that does not fit": (
        lambda x, y: fw.diagnose(nn.Linear(64, 10), x, y, start={"weight": torch.ones(3)}, points=20),
        "params",
    ),
    "learning rate": (
        lambda x, y: fw.diagnose(nn.Linear(64, 10), x, y, learning_rate=-1.0),
        "learning_rate must be a positive finite number, got -1.0",
    ),
    "optimizer": (
        lambda x, y: fw.diagnose(nn.Linear(64, 10), x, y, optimizer="lion"),
        "optimizer must be sgd, momentum, nesterov or adam, got 'lion'",
    ),
    "momentum": (lambda x, y: fw.diagnose(nn.Linear(64, 10), x, y, momentum=1.0), "momentum must be"),
    "points": (lambda x, y: fw.diagnose(nn.Linear(64, 10), x, y, points=1), "points must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(data, case, unchecked_annotations):
    call, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence) as refusal:
        call(*data)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith(".")
