"""Order 1/width with a ridge: reference numbers of an independent program, limits, and trained networks."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.finite_width.dense.covariance import dense_covariance
from finitewidth.prediction.finite_width.dense.mean import dense_mean
from finitewidth.prediction.finite_width.sampled.covariance import sampled_covariance
from finitewidth.prediction.finite_width.sampled.mean import sampled_mean
from finitewidth.prediction.finite_width.sampled.stratified import Aim, Sampling
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.statistics.corrections import corrections
from finitewidth.statistics.hidden_layers import layer_kernels
from tolerances import TENSORS, assert_close

# Every entry of a sampled coefficient is within so many standard errors of the reference, and the largest
# is so many, or a missing part would not show; the tests of the covariance resolve each contraction alone.
Z_LIMIT, RESOLVED = 4.0, 5.0
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "ridge.json").read_text())
SAMPLED = ("tanh_L2_two", "gelu_L3", "tanh_L3_half")
SAMPLED_CASES = [case for case in REFERENCE["cases"] if case["name"] in SAMPLED]


@pytest.fixture(scope="module", params=REFERENCE["cases"], ids=lambda case: case["name"])
def reference(request):
    case = request.param
    return case, corrections(network(case), np.array(case["x"]))


def network(case):
    hidden = tuple(round(1000 * ratio) for ratio in case["width_ratios"])
    hyper = (case[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W"))
    return fw.MLP(hidden, case["activation"], *hyper, case["n_out"])


def modes_of(tensors, y, ridge, algorithm=None):
    kernels = np.asarray(tensors.K), np.asarray(tensors.Theta)
    return TrainingModes.of(*kernels, np.asarray(y), algorithm or fw.GradientDescent(), ridge=ridge)


def test_mean_and_covariance_are_those_of_the_reference(reference):
    case, tensors = reference
    for result in case["results"]:
        modes = modes_of(tensors, case["y"], result["r"])
        origins = dense_mean(tensors, modes)
        scale = max(np.abs(part).max() for part in result["mean_origin"].values())
        for name, expected in result["mean_origin"].items():
            assert_close(getattr(origins, name), expected, TENSORS, scale=scale)
        assert_close(origins.total, result["mean"], TENSORS, scale=scale)
        assert_close(dense_covariance(tensors, modes), result["cov"], TENSORS)


def test_the_step_of_an_open_choice_counts_the_ridge(reference):
    case, tensors = reference
    modes = modes_of(tensors, case["y"], 2.0)
    largest = np.linalg.eigvalsh(np.asarray(tensors.Theta)[: case["n_train"], : case["n_train"]])[-1]
    assert_close(modes.algorithm.eta, 1 / (largest + 2.0))


@pytest.mark.parametrize("reference", SAMPLED_CASES, ids=lambda case: case["name"], indirect=True)
def test_sampled_neurons_have_the_reference_coefficients(reference):
    """The strength in the middle of each case, mean and variances averaged over outputs."""
    case, _ = reference
    result = sorted(case["results"], key=lambda found: found["r"])[len(case["results"]) // 2]
    kernels = layer_kernels(network(case), np.array(case["x"]))
    modes = modes_of(kernels, case["y"], result["r"])
    sampling, rng = Sampling.of(kernels, modes, jnp.float32), np.random.default_rng(2)
    # With so few points compilation would take longer than the work itself.
    with jax.disable_jit():
        mean = sampled_mean(sampling, Aim(0.05, 60_000), rng)
        spread = sampled_covariance(sampling, Aim(0.05, 60_000), rng)
    variances = np.einsum("aobo->ab", np.array(result["cov"])) / case["n_out"]
    for found, error, expected in (
        (mean.origins.total, mean.standard_error, np.array(result["mean"])),
        (spread.coefficient, spread.standard_error, variances),
    ):
        assert np.abs((found - expected) / error).max() < Z_LIMIT
        assert np.abs(expected / error).max() > RESOLVED


def test_sampled_neurons_refuse_training_that_stops_with_a_ridge():
    x = np.random.default_rng(0).normal(size=(15, 2))
    with pytest.raises(ValueError, match=r"with a ridge, here 0\.5, at its end only"):
        fw.predict(fw.MLP((64,), "tanh"), x[:9], x[:9, 0], x[9:], fw.GradientFlow(1.0), order=1, ridge=0.5)
