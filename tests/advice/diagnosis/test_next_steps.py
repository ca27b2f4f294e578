"""Linear models train exactly as their tangent kernel says; others part from it where the kernel moves."""

import numpy as np
import pytest
import torch

from finitewidth.advice.diagnosis.next_steps import loss_and_slope, next_steps
from finitewidth.advice.diagnosis.tangent_kernel import tangent_kernel_spectrum
from finitewidth.advice.diagnosis.training import TrainingPlan
from finitewidth.measure.specimen import specimen
from tolerances import assert_close

RULES = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.8),
    "nesterov": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.8, nesterov=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.1, betas=(0.8, 0.999)),
}


@pytest.fixture
def data(rng):
    x = rng.normal(size=(12, 3))
    return x, {"mse": rng.normal(size=(12, 2)), "cross_entropy": rng.integers(0, 2, 12)}


def linear_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2).double()


def losses_of_torch(model, rule, x, y, loss, steps) -> list[float]:
    """Training by PyTorch's own optimiser."""
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    found = []
    for _ in range(steps + 1):
        rule.zero_grad()
        outputs = model(x)
        if loss == "mse":
            value = 0.5 * ((outputs - y) ** 2).sum(1).mean()
        else:
            value = torch.nn.functional.cross_entropy(outputs, y)
        value.backward()
        rule.step()
        found.append(value.item())
    return found


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_a_linear_model_trains_as_its_kernel_says_and_as_pytorch_does(data, loss, name):
    x, labels = data
    model = linear_model()
    found = next_steps(specimen(model, x, labels[loss], loss=loss), TrainingPlan(0.1, name, 0.8, 7))
    expected = losses_of_torch(model, RULES[name](model.parameters()), x, labels[loss], loss, 7)
    assert_close(found.trained, np.array(expected))
    assert_close(found.predicted, np.array(expected))
    assert found.difference < 1e-8


def test_the_kernel_is_held_fixed(data):
    """Gradient descent of the kernel J J^T in the space of functions, for a network that is not linear."""
    x, labels = data
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    subject = specimen(model, x, labels["mse"])
    rows = subject.jacobian().reshape(24, -1)
    f, expected = subject.outputs().ravel(), []
    for _ in range(10):
        error = f - labels["mse"].ravel()
        expected.append(0.5 * np.sum(error**2) / 12)
        f = f - 0.2 * rows @ rows.T @ error / 12
    found = next_steps(subject, TrainingPlan(0.2, steps=9))
    assert_close(found.predicted, np.array(expected))
    assert found.difference > 1e-3


def test_training_that_runs_away_stops(data):
    x, labels = data
    found = next_steps(specimen(linear_model(), x, labels["mse"]), TrainingPlan(1e3, steps=50))
    assert found.diverges
    assert len(found.trained) < 10
    calm = next_steps(specimen(linear_model(), x, labels["mse"]), TrainingPlan(1e-2, steps=5))
    assert not calm.diverges


def test_no_curve_for_a_loss_whose_slope_is_unknown(data):
    x, labels = data
    mean = lambda outputs, y: ((outputs - y) ** 4).mean()
    assert next_steps(specimen(linear_model(), x, labels["mse"], loss=mean), TrainingPlan(0.1)) is None
    assert next_steps(specimen(linear_model(), x, labels["mse"]), TrainingPlan(None)) is None


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_slopes_are_derivatives(data, rng, loss):
    outputs, shift = rng.normal(size=(2, 12, 2))
    labels = data[1][loss]
    slope = loss_and_slope(loss, outputs, labels)[1]
    above, below = (loss_and_slope(loss, outputs + sign * 1e-6 * shift, labels)[0] for sign in (1, -1))
    assert_close(np.sum(slope * shift), (above - below) / 2e-6, 1e-7)


def test_the_kernel_of_a_linear_model_is_the_gram_matrix(data):
    """J J^T of W x + b is x.x' + 1 for each output, and zero between outputs."""
    x, _ = data
    spectrum = tangent_kernel_spectrum(specimen(linear_model(), x))
    expected = np.sort(np.repeat(np.linalg.eigvalsh(x @ x.T + 1), 2))[::-1]
    assert_close(spectrum.eigenvalues[:8], expected[:8])
    assert_close(spectrum.largest, expected[0] / 12)
    assert spectrum.points == 12
    assert spectrum.condition == np.inf  # 12 points, 4 weights for each output
    assert_close(spectrum.effective_rank, expected.sum() ** 2 / np.sum(expected**2))


def test_the_condition_number(rng):
    x = rng.normal(size=(3, 3))
    model = torch.nn.Linear(3, 1, bias=False).double()
    assert_close(tangent_kernel_spectrum(specimen(model, x)).condition, np.linalg.cond(x) ** 2, 1e-6)
