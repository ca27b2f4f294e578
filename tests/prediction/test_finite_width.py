"""predict(order=1): reference numbers, two paths that agree, its range, and what it refuses."""

import json
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.sequential import Repeat, Sequential
from finitewidth.prediction.methods.first_order.dense.mean import dense_mean
from finitewidth.prediction.methods.first_order.kernel_variance import (
    dense_kernel_variance,
    sampled_kernel_variance,
)
from finitewidth.prediction.methods.first_order.sampled.mean import sampled_mean
from finitewidth.prediction.methods.first_order.sampled.stratified import Aim, Sampling
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.corrections import corrections
from finitewidth.statistics.first_order.hidden_layers import layer_kernels
from finitewidth.statistics.first_order.mean_shifts import mean_shifts
from tolerances import STIFF_SOLVE, TENSORS, assert_close

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "finite-width-training.json").read_text())
# No entry of a sampled coefficient may be further off than this many standard errors, and the largest of
# every part must be so many, or a missing part would not show; each contraction alone is resolved in the
# tests of the covariance.
Z_LIMIT, RESOLVED = 4.5, 3.0


@pytest.fixture(scope="module", params=REFERENCE["trained"], ids=lambda case: case["name"])
def reference(request):
    case = request.param
    x = np.array(case["x"])
    hidden = (10_000,) * (case["L"] - 1)
    net = fw.MLP(hidden, case["act"], case["Cb"], case["CW"], case["lambda_b"], case["lambda_W"])
    n = case["n_train"]
    laws = {
        name: fw.predict(net, x[:n], case["y"], x[n:], algorithm, order=1)
        for name, algorithm in (("descent", fw.GradientDescent(case["eta"])), ("flow", fw.GradientFlow()))
    }
    return case, laws, hidden[-1]


def test_mean_has_the_reference_coefficient(reference):
    case, laws, n = reference
    assert_close(n * laws["descent"].mean_correction[:, 0], case["coef"], TENSORS)
    assert_close(n * laws["flow"].mean_correction[:, 0], case["coef_gradient_flow"], TENSORS)
    assert_close(
        laws["descent"].mean[:, 0] - laws["descent"].mean_correction[:, 0], case["mean_inf"], STIFF_SOLVE
    )


def test_origins_are_those_of_the_reference(reference):
    case, laws, n = reference
    names = {"mean_ntk": "H1", "ntk_fluctuations": "AB", "dntk": "dH", "ddntk": "ddH"}
    for origin, letter in names.items():
        part = n * getattr(laws["descent"].origin, origin)[:, 0]
        assert_close(part, case["coef_parts"][letter], TENSORS, scale=np.abs(case["coef"]).max())


def test_covariance_has_the_reference_coefficient(reference):
    case, laws, n = reference
    assert_close(n * laws["descent"].covariance_correction, case["cov_coef"], TENSORS)


def six_points(out=1):
    rng = np.random.default_rng(5)
    return rng.normal(size=(6, 3)), rng.normal(size=(4, out))


SAMPLED = [
    ("tanh", (64,), 1, fw.GradientDescent(), 0.0),
    ("gelu", (60, 40), 2, fw.GradientFlow(4.0), 0.0),
    ("tanh", (40, 60), 2, fw.GradientDescent(steps=6), 0.0),
    ("gelu", (40, 80, 60), 1, fw.GradientFlow(), 0.0),
    ("gelu", (60, 40), 2, fw.DirectOptimization(), 0.3),
    ("tanh", (40, 60), 2, fw.GradientDescent(steps=6), 0.3),
    ("elu", (40, 60), 2, fw.GradientDescent(), 0.0),
]


@pytest.mark.parametrize(("activation", "hidden", "out", "algorithm", "ridge"), SAMPLED)
def test_sampled_neurons_agree_with_dense_tensors(request, activation, hidden, out, algorithm, ridge):
    x, y = six_points(out)
    if activation == "elu":
        # Millions of directions for the dense tensors.
        request.getfixturevalue("optimised")
        x = x[:5]
    net = fw.MLP(hidden, activation, 0.2, 1.3, [0.3] + [0.1] * len(hidden), [0.8] + [1.0] * len(hidden), out)
    tensors, kernels = corrections(net, x, tolerance=1e-5), layer_kernels(net, x)
    modes = TrainingModes.of(kernels.K, kernels.Theta, y, algorithm, ridge)
    exact = dense_mean(tensors, modes)
    sampling = Sampling.of(kernels, modes, jnp.float32)
    # The parts of a third derivative by parts are a quarter of the ddNTK and less.
    aim = Aim(0.003, 2_000_000) if activation == "elu" else Aim(0.02, 80_000)
    sampled = sampled_mean(sampling, aim, np.random.default_rng(3))
    assert_close(sampled.origins.mean_ntk, exact.mean_ntk, TENSORS, scale=np.abs(exact.total).max())
    for name in ("ntk_fluctuations", "dntk", "ddntk"):
        error = getattr(sampled.origins, name) - getattr(exact, name)
        assert np.abs(error / getattr(sampled.standard_errors, name)).max() < Z_LIMIT, name
        assert np.abs(getattr(exact, name) / getattr(sampled.standard_errors, name)).max() > RESOLVED, name
    seeds = range(4, 16)
    noises = np.array([sampled_kernel_variance(sampling, np.random.default_rng(seed)) for seed in seeds])
    error = noises.std(ddof=1) / np.sqrt(len(seeds))
    noise = dense_kernel_variance(tensors, modes)
    assert abs(noises.mean() - noise) < Z_LIMIT * error
    assert error < 0.05 * noise


@pytest.mark.parametrize(
    ("activation", "hidden"), [("gelu", (40, 60)), ("gelu", (40, 80, 60)), ("elu", (40, 80, 60))]
)
def test_mean_shifts_are_those_of_the_dense_recursion(activation, hidden):
    x, _ = six_points()
    # The recursion closes on pairs of points; the dense tensors of ELU are slow at more.
    x = x[: 2 if activation == "elu" else 4]
    net = fw.MLP(hidden, activation, 0.2, 1.3, 0.3, 0.8)
    tensors, shifts = corrections(net, x), mean_shifts(layer_kernels(net, x))
    assert_close(shifts.G1, tensors.G1, TENSORS)
    assert_close(shifts.H1, tensors.H1, TENSORS)


def test_many_points_are_sampled_and_the_error_is_stated():
    rng = np.random.default_rng(0)
    x, x_test = rng.normal(size=(12, 3)), rng.normal(size=(3, 3))
    seen = []
    law = fw.predict(
        fw.MLP((4000, 4000), "tanh", 0.1, 1.3),
        x,
        np.sin(x[:, 0]),
        x_test,
        fw.GradientFlow(),
        order=1,
        method=fw.SampledNeurons(0.2, covariance_error=None, key=jax.random.key(1)),
        progress=lambda done, error: seen.append((done, error)),
    )
    size = lambda a: float(jnp.sqrt(jnp.mean(a**2)))
    assert 0 < size(law.mean_correction_error) <= 0.2 * size(law.mean_correction)
    assert law.covariance_correction is None
    assert seen[-1][0] == 1.0
    assert_close(seen[-1][1], size(law.mean_correction_error) / size(law.mean_correction), 1e-6)
    assert_close(sum(law.origin), law.mean_correction)


@pytest.mark.parametrize(("points", "dense"), [(14, True), (15, False)])
def test_up_to_fourteen_points_have_dense_tensors(points, dense, monkeypatch):
    """Training and test points together decide."""

    class Chosen(Exception):
        pass

    def chosen(*arguments, **options):
        raise Chosen

    monkeypatch.setattr(
        f"finitewidth.prediction.methods.first_order.{'dense' if dense else 'sampled'}.method."
        f"{'dense_corrections' if dense else 'layer_kernels'}",
        chosen,
    )
    x = np.random.default_rng(0).normal(size=(points, 2))
    with pytest.raises(Chosen):
        fw.predict(fw.MLP((64,), "tanh", 0.1, 1.3), x[:9], x[:9, 0], x[9:], fw.GradientFlow(1.0), order=1)


def test_several_outputs_share_an_averaged_covariance():
    x, y = six_points(2)
    net = fw.MLP((500,), "tanh", 0.1, 1.3, n_out=2)
    law = fw.predict(net, x[:4], y, x[4:], order=1)
    full = law.output_covariance_correction
    assert full.shape == (2, 2, 2, 2)
    assert_close(full, full.transpose(2, 3, 0, 1))
    swapped = fw.predict(net, x[:4], y[:, ::-1], x[4:], order=1)
    assert_close(swapped.output_covariance_correction[:, 0, :, 0], full[:, 1, :, 1], TENSORS)
    own = (np.asarray(full[:, 0, :, 0]) + np.asarray(full[:, 1, :, 1])) / 2
    assert_close(law.covariance_correction, own)
    infinite = fw.predict(net, x[:4], y, x[4:])
    assert_close(law.covariance, np.asarray(infinite.covariance) + own)


def test_training_points_are_learnt_at_any_width():
    x, y = six_points()
    law = fw.predict(fw.MLP((5000, 5000), "tanh", 0.1, 1.3), x[:3], y[:3], x[:3], order=1)
    assert_close(law.mean, y[:3], STIFF_SOLVE)
    assert_close(law.covariance, np.zeros((3, 3)), STIFF_SOLVE, scale=1.0)


def test_a_narrow_network_is_warned_of():
    x, y = six_points()
    with pytest.warns(UserWarning, match="expansion in 1/width is not small"):
        law = fw.predict(fw.MLP((2,), "tanh", 0.1, 1.3), x[:3], y[:3], x[3:4], order=1)
    assert law.validity.width < law.validity.trusted_width
    assert "from width" in law.validity.words
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = fw.predict(fw.MLP((10**6,), "tanh", 0.1, 1.3), x[:3], y[:3], x[3:4], order=1)
    assert "can be trusted here" in wide.validity.words
    # Both numbers from the definitions: the correction's size, and tr E[Theta^-1 dH Theta^-1 dH] / N.
    n, tensors = 10**6, corrections(fw.MLP((64,), "tanh", 0.1, 1.3), x[:4])
    size = lambda a: float(np.sqrt(np.mean(np.asarray(a) ** 2)))
    ratio = n * size(wide.mean_correction) / size(wide.mean - wide.mean_correction)
    inverse = np.linalg.inv(np.asarray(tensors.Theta)[:3, :3])
    A, B = (np.asarray(t)[:3, :3, :3, :3] for t in (tensors.A, tensors.B))
    moment = A + B.transpose(0, 2, 1, 3) + B.transpose(0, 2, 3, 1)
    kappa = np.einsum("da,abcd,bc->", inverse, moment, inverse) / 3
    assert_close(n * wide.validity.fluctuation, kappa, TENSORS)
    assert_close(n * wide.validity.ratio, ratio, TENSORS)
    expected = int(np.ceil(max(ratio / 0.01, kappa / 0.02)))
    assert wide.validity.trusted_width == law.validity.trusted_width == expected
    assert (wide.validity.depth_over_width, law.validity.depth_over_width) == (2e-6, 1.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"order": 2}, "order must be 0"),
        ({"net": fw.MLP((64,), "relu")}, 'cross it or are held at it; use order="1/2"'),
        ({"net": fw.MLP((64,), "selu", 0.1, 1.0)}, 'use order="1/2"'),
        ({"net": fw.MLP((64, 1), "tanh")}, "layer of width 1"),
        ({"net": fw.MLP((), "tanh")}, "no hidden layer"),
        ({"net": fw.MLP((64,), "tanh", parametrisation="mup")}, "'ntk' only"),
        ({"algorithm": fw.DirectOptimization()}, "path of training"),
        ({"algorithm": fw.BayesianInference(0.1)}, "not Bayesian"),
        ({"algorithm": fw.GradientDescent(100.0)}, "gradient descent diverges"),
        ({"initial": jnp.sin}, "random start"),
        ({"x_train": [[0.5, 1.0], [0.5, 1.0]]}, "training points 0 and 1 are equal"),
    ],
)
def test_refusals_say_why(change, sentence):
    arguments = {
        "net": fw.MLP((64,), "tanh"),
        "x_train": [[0.5, 1.0], [1.0, -0.3]],
        "y_train": [1.0, -1.0],
        "x_test": [[0.1, 0.2]],
        "order": 1,
    }
    with pytest.raises(ValueError, match=sentence):
        fw.predict(**(arguments | change))


def test_a_singular_kernel_needs_an_end():
    x = np.array([[1.0], [2.0], [3.0]])
    net = fw.MLP((64,), "linear", 0.0, 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="singular"):
        fw.predict(net, x, [1.0, 2.0, 3.0], x[:1], order=1)


def test_infinite_width_has_no_corrections():
    law = fw.predict(fw.MLP((64,), "tanh"), [[0.5, 1.0], [1.0, -0.3]], [1.0, -1.0], [[0.1, 0.2]])
    with pytest.raises(AttributeError, match="order=1"):
        _ = law.mean_correction


@pytest.mark.parametrize(
    ("options", "name"), [({"relative_error": 0.0}, "relative_error"), ({"most_samples": 0}, "most_samples")]
)
def test_options_are_checked(options, name):
    with pytest.raises(ValueError, match=name):
        fw.SampledNeurons(**options)


def test_the_tolerance_of_quadrature_is_positive():
    with pytest.raises(ValueError, match="tolerance must be a positive number, got 0"):
        fw.DenseTensors(0.0)


def test_a_sequence_of_dense_layers_has_the_law_of_the_same_perceptron():
    """Repeated layers are unrolled; any other network is refused."""
    hyper = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.1, "lambda_W": 0.9}
    block = Sequential(Activate("tanh"), Dense(4000, **hyper))
    layers = Sequential(Dense(4000, **hyper), Repeat(block, 1), Activate("tanh"), Dense(1, **hyper))
    data = [[0.5, 1.0], [1.0, -0.3]], [1.0, -1.0], [[0.1, 0.2]]
    asked = {"algorithm": fw.GradientFlow(2.0), "order": 1}
    expected = fw.predict(fw.MLP((4000, 4000), "tanh", **hyper), *data, **asked)
    found = fw.predict(layers, *data, **asked)
    assert_close(found.mean_correction, expected.mean_correction)
    assert_close(found.covariance_correction, expected.covariance_correction)
    assert_close(found.mean, expected.mean)
    assert found.provenance.problem.net == layers
    with pytest.raises(ValueError, match="dense layers with an activation between each two"):
        fw.predict(Sequential(Dense(40, **hyper), Dense(1, **hyper)), *data, **asked)
