"""Order 1/width with a ridge: numbers of an independent program, limits, and what `predict` says."""

import functools
import json
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.methods.first_order.dense.covariance import dense_covariance
from finitewidth.prediction.methods.first_order.dense.mean import dense_mean
from finitewidth.prediction.methods.first_order.sampled.covariance import sampled_covariance
from finitewidth.prediction.methods.first_order.sampled.mean import sampled_mean
from finitewidth.prediction.methods.first_order.sampled.stratified import Aim, Sampling
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.corrections import corrections
from finitewidth.statistics.first_order.hidden_layers import layer_kernels
from quick_compilation import optimisation
from tolerances import FIRST_ORDER, LIMIT, STIFF_SOLVE, TENSORS, assert_close

# Every entry of a sampled coefficient is within so many standard errors of the reference, and the largest
# is so many, or a missing part would not show; the tests of the covariance resolve each contraction alone.
Z_LIMIT, RESOLVED = 4.0, 5.0
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "ridge.json").read_text())
SAMPLED = ("tanh_L2_two", "gelu_L3", "tanh_L3_half")
SAMPLED_CASES = [case for case in REFERENCE["cases"] if case["name"] in SAMPLED]


CASES = {case["name"]: case for case in REFERENCE["cases"]}


@functools.cache
def tensors_of(name):
    """Computed once, although the tests that choose some of the cases come between those that take all."""
    with optimisation():
        return corrections(network(CASES[name]), np.array(CASES[name]["x"]))


@pytest.fixture(params=REFERENCE["cases"], ids=lambda case: case["name"])
def reference(request):
    return request.param, tensors_of(request.param["name"])


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


def test_sampled_neurons_take_training_that_stops_with_a_ridge():
    """The same law as that of the dense tensors, which a method may be asked for at any number of points."""
    x = np.random.default_rng(0).normal(size=(6, 2))
    problem = (fw.MLP((640,), "tanh"), x[:4], x[:4, 0], x[4:], fw.GradientFlow(1.5))
    dense = fw.predict(*problem, order=1, ridge=0.5)
    law = fw.predict(*problem, order=1, ridge=0.5, method=fw.SampledNeurons(0.05, covariance_error=0.1))
    off = np.abs(np.asarray(law.mean_correction - dense.mean_correction))
    assert (off < Z_LIMIT * np.asarray(law.mean_correction_error)).all()
    off = np.abs(np.asarray(law.covariance_correction - dense.covariance_correction))
    assert (off < Z_LIMIT * np.asarray(law.covariance_correction_error)).all()


def test_the_path_does_not_matter(reference):
    case, tensors = reference
    ridge = case["results"][0]["r"]
    algorithms = fw.GradientDescent(0.01), fw.GradientFlow(), fw.DirectOptimization("gauss-newton")
    laws = [dense_mean(tensors, modes_of(tensors, case["y"], ridge, a)).total for a in algorithms]
    assert_close(laws[1], laws[0])
    assert_close(laws[2], laws[0])


def test_a_strong_ridge_leaves_networks_at_their_start(reference):
    """To order 1/r the mean is that of the shifted mean kernel, and the covariance is the initial one."""
    case, tensors = reference
    ridge, n = 1e9, case["n_train"]
    modes = modes_of(tensors, case["y"], ridge)
    H1, G1 = np.asarray(tensors.H1)[n:, :n], np.asarray(tensors.G1)[n:, n:]
    origins, labels = dense_mean(tensors, modes), np.asarray(case["y"])
    scale = np.abs(np.asarray(tensors.Theta)[n:, :n] @ labels).max()
    assert_close(ridge * origins.total, H1 @ labels, LIMIT, scale=scale)
    own = np.kron(np.eye(case["n_out"]), G1).reshape(case["n_out"], len(G1), case["n_out"], len(G1))
    covariance = dense_covariance(tensors, modes)
    assert_close(covariance, own.transpose(1, 0, 3, 2), LIMIT, scale=np.abs(np.asarray(tensors.K)).max())


# The interpolator closest to the start, and the end of gradient flow: three decimals from the same program.
WITHOUT_A_RIDGE = {
    "tanh_L2": ((0.298, -0.108), (0.440, 0.286)),
    "gelu_L2": ((0.087, -0.070), (0.020, 0.184)),
    "tanh_L3": ((0.695, 0.019), (0.677, 0.152)),
    "gelu_L3": ((0.380, -0.048), (0.152, 0.200)),
    "tanh_L2_two": ((-1.63, 3.29, 0.25, 3.71), (-0.80, 1.90, 0.39, -0.17)),
}


def test_a_vanishing_ridge_is_not_the_end_of_flow(reference):
    case, tensors = reference
    if case["name"] not in WITHOUT_A_RIDGE:
        assert case["name"] in ("tanh_L2_N8", "tanh_L3_half")
        return
    nearest, flow = WITHOUT_A_RIDGE[case["name"]]
    half_a_digit = 0.006 if case["n_out"] == 2 else 0.0006
    weak = modes_of(tensors, case["y"], 1e-9, fw.GradientFlow())
    none = modes_of(tensors, case["y"], 0.0, fw.GradientFlow())
    assert np.abs(dense_mean(tensors, weak).total.ravel() - nearest).max() < half_a_digit
    assert np.abs(dense_mean(tensors, none).total.ravel() - flow).max() < half_a_digit


class TestPredict:
    x = np.array([[1.1, 0.2], [-0.8, 1.0], [0.1, -1.2]])
    y, x_test = np.array([0.9, -0.7, 0.5]), np.array([[0.7, 0.8]])
    net = fw.MLP((4000, 4000), "tanh", 0.1, 1.3)

    def law(self, algorithm=None, ridge=0.5, **options):
        data = {"net": self.net, "x_train": self.x, "y_train": self.y, "x_test": self.x_test} | options
        return fw.predict(**data, algorithm=algorithm, order=1, ridge=ridge)

    def test_the_end_and_a_long_training_are_one_law(self):
        end = self.law(fw.DirectOptimization())
        infinite = fw.predict(self.net, self.x, self.y, self.x_test, ridge=0.5)
        assert_close(end.mean - end.mean_correction, infinite.mean)
        assert np.abs(end.mean_correction).max() > 1e-5
        for long in (fw.GradientDescent(steps=400), fw.GradientFlow(80.0)):
            law = self.law(long)
            assert_close(law.mean_correction, end.mean_correction, STIFF_SOLVE)
            assert_close(law.covariance_correction, end.covariance_correction, STIFF_SOLVE)

    def test_stopping_early_is_another_law(self):
        """The ridge pulls from the second step on."""
        first, second = (self.law(fw.GradientDescent(0.1, steps)) for steps in (1, 2))
        held = self.law(fw.GradientDescent(0.1, 1), ridge=0.0)
        assert_close(first.mean_correction, held.mean_correction)
        assert np.abs(np.asarray(second.mean_correction - first.mean_correction)).max() > 1e-6

    def test_equal_training_points_are_welcome(self):
        """They are the limit of two rows that approach each other."""
        twice = np.concatenate([self.x, self.x[:1]]), np.array([0.9, -0.7, 0.5, 0.1])
        law = self.law(x_train=twice[0], y_train=twice[1])
        near = self.law(x_train=twice[0] + np.array([[0.0], [0.0], [0.0], [1e-4]]), y_train=twice[1])
        assert_close(law.mean_correction, near.mean_correction, 10 * FIRST_ORDER)
        assert_close(law.covariance_correction, near.covariance_correction, 10 * FIRST_ORDER)

    def test_a_ridge_too_small_for_the_expansion_is_warned_of(self):
        """Two rows that nearly coincide: only a ridge keeps the expansion from diverging."""
        close = {"x_train": np.array([[1.1, 0.2], [1.1, 0.201], [0.1, -1.2]])}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            held = self.law(ridge=1.0, **close)
        with pytest.warns(UserWarning, match=r"trust the first correction from width \d+ on"):
            weak = self.law(ridge=1e-8, **close)
        assert weak.validity.trusted_width > 100 * held.validity.trusted_width

    def test_a_ridge_has_a_sign(self):
        with pytest.raises(ValueError, match="ridge must be zero or more"):
            self.law(ridge=-1.0)
