"""Every claim holds at quick scale, and none would hold for a theory that is clearly wrong."""

import ast
import dataclasses
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from finitewidth import lab
from finitewidth.lab import (
    ensembles,
    halves,
    linear_descent,
    linearised_moments,
    one_input,
    one_layer,
    perturbations,
    shallow_networks,
    tangent_draws,
    tensors,
    trained_ensembles,
    trained_moments,
    two_layers,
)
from finitewidth.lab.runner import run_claim, save
from wrong_finite_width_theories import WRONG as WRONG_FINITE_WIDTH_THEORIES
from wrong_linear_theories import WRONG as WRONG_LINEAR_THEORIES
from wrong_quadratic import THEORY as QUADRATIC_THEORY
from wrong_quadratic import WRONG as WRONG_QUADRATIC_THEORIES

IDS = [claim.id for claim in lab.claims()]

# The ledger shows these records, so that the book need not run the claims again.
RECORDS = Path(__file__).resolve().parents[2] / "build" / "lab-quick"

THEORY = (
    "Bernstein",
    "DirectOptimization",
    "GradientDescent",
    "LazyTraining",
    "Spectrum",
    "convergence_certificate",
    "corrections",
    "correlation_lengths",
    "criticality",
    "depth_growth",
    "fixed_point",
    "hidden_kernel_of_infinite_width",
    "kernel_change",
    "kernel_concentration",
    "kernels",
    "loss_curves",
    "mercer",
    "ntk_moments",
    "ntk_ratio_limit",
    "predict",
    "ridge_regression",
    "smoother",
    "susceptibilities",
    "trained_distribution",
    "trajectory",
)


def guarded(claim):
    """The claim with the theory out of reach of its measurement."""

    def measure(setting, key):
        with pytest.MonkeyPatch.context() as patch:
            for name in (*THEORY, *QUADRATIC_THEORY):
                patch.setattr(f"{claim.measure.__module__}.{name}", out_of_reach, raising=False)
            return claim.measure(setting, key)

    return dataclasses.replace(claim, measure=measure)


def out_of_reach(*arguments, **options):
    raise AssertionError("a measurement asked the theory")


def scaled(factor):
    return lambda setting, value: np.asarray(value * factor)


def growth_per_layer(setting, value):
    """The factor C_W^2 per layer that the notes print for linear networks, instead of C_W."""
    return value**2


def growth_of_xavier(setting, value):
    """ReLU without its factor of two: susceptibilities C_W / 4."""
    return value * 0.5 ** np.arange(value.shape[-1])


def exponential_path_count(setting, value):
    """exp(5 sum 1/n) in place of the product over (1 + 5/n)."""
    sums = np.array([sum(1 / n for n in hidden) for hidden in setting.architectures])
    products = np.array([np.prod([1 + 5 / n for n in hidden]) for hidden in setting.architectures])
    return value * np.exp(5 * sums) / products


def without_fan_in(setting, value):
    """The covariance block C_W instead of C_W / n that the notes print."""
    return value * np.array(setting.widths)


def half_the_rate(setting, value):
    """chi^(l/2), the growth of a length instead of a square."""
    return np.sqrt(value)


def without_fan_in_of_entries(setting, value):
    """A gradient of the first layer whose norm shrinks as its entries do."""
    return value / np.array(setting.widths)[:, None]


def powers_of_single_entries(setting, value):
    """A norm of the first gradient that falls as its entries do, n^(-1/2)."""
    return value - 1


def root_of_fan_in(setting, value):
    """Weight rates of n^(-1/2), as the notes print, would need squared gradients of order n^(1/2)."""
    return np.sqrt(value)


def lazy(setting, value):
    """The exponent of the NTK parametrisation."""
    return value - 0.5


WRONG = [
    ("fan-in-scaling", "variance", scaled(1.2)),
    ("conditional-gaussian-layer", "excess kurtosis", without_fan_in),
    ("conditional-gaussian-layer", "shared variance", without_fan_in),
    ("relu-output-fourth-moment", "fourth moment", exponential_path_count),
    ("nngp-covariance", "covariance", scaled(1.2)),
    ("kernel-recursion-width", "nngp", scaled(1.2)),
    ("kernel-recursion-width", "ntk", scaled(1.2)),
    ("kernel-recursion-width", "slope", scaled(2.0)),
    ("criticality-conditions", "parallel", scaled(0.5)),
    ("criticality-conditions", "perpendicular", scaled(1 + 1e-6)),
    ("linear-critical", "variance", growth_per_layer),
    ("linear-critical", "critical C_W", scaled(1.05)),
    ("relu-critical", "variance", growth_of_xavier),
    ("relu-critical", "difference", growth_of_xavier),
    ("critical-initialisation-gelu-silu", "gelu point", scaled(1.01)),
    ("critical-initialisation-gelu-silu", "silu curvature", scaled(-1.0)),
    ("critical-initialisation-gelu-silu", "silu variance", scaled(1.2)),
    ("tanh-critical-kernel-decay", "variance", scaled(1.3)),
    ("tanh-critical-kernel-decay", "law", scaled(2.0)),
    ("elu-critical-kernel-decay", "variance", scaled(1.3)),
    ("elu-critical-kernel-decay", "law", scaled(0.5)),
    ("relu-angle-decay", "angle", scaled(1.2)),
    ("relu-angle-decay", "law", scaled(2 / 3)),
    ("off-criticality-exponential", "ordered parallel", half_the_rate),
    ("off-criticality-exponential", "chaotic perpendicular", half_the_rate),
    ("off-criticality-exponential", "vanishing variance", scaled(1.2)),
    ("mlp-step-taylor", "order", scaled(0.75)),
    ("first-layer-gradient-width", "norms", without_fan_in_of_entries),
    ("first-layer-gradient-width", "entries", scaled(1.2)),
    ("first-layer-gradient-width", "powers", powers_of_single_entries),
    ("layerwise-learning-rates", "weights", root_of_fan_in),
    ("layerwise-learning-rates", "biases", scaled(1.2)),
    ("lazy-versus-mean-field", "ntk exponent", scaled(0.0)),
    ("lazy-versus-mean-field", "mean-field exponent", lazy),
    ("lr-transfer", "standard exponent", scaled(0.0)),
    ("lr-transfer", "difference", scaled(0.0)),
    *WRONG_LINEAR_THEORIES,
    *WRONG_QUADRATIC_THEORIES,
    *WRONG_FINITE_WIDTH_THEORIES,
    ("trained-mean-width", "coefficient", scaled(1.5)),
    ("trained-mean-gelu", "coefficient", scaled(1.5)),
    ("trained-mean-depth-3", "coefficient", scaled(2.0)),
    ("trained-mean-stopped", "coefficient", scaled(1.5)),
    ("trained-covariance-width", "coefficient", scaled(1.5)),
    ("trained-covariance-depth-3", "coefficient", scaled(2.0)),
]


@pytest.mark.parametrize("id", IDS)
def test_claim_holds_and_wrong_theories_fail(id):
    """Each claim is measured once, and compared with right and wrong theories."""
    claim = lab.claim(id)
    outcome = run_claim(guarded(claim))
    assert not [check for check in outcome.verdict.checks if not check.holds]
    save(outcome, RECORDS)
    for name, wrong in [(name, wrong) for wrong_id, name, wrong in WRONG if wrong_id == id]:
        changed = {name: wrong(outcome.problem, outcome.prediction[name])}
        verdict = claim.compare(outcome.problem, {**outcome.prediction, **changed}, outcome.measurement)
        assert not verdict.holds, f"{name} by {wrong} was not rejected"


@pytest.mark.parametrize(
    "instrument",
    [
        ensembles,
        halves,
        linear_descent,
        linearised_moments,
        one_input,
        one_layer,
        perturbations,
        shallow_networks,
        tangent_draws,
        tensors,
        trained_ensembles,
        trained_moments,
        two_layers,
    ],
)
def test_instruments_know_no_theory(instrument):
    tree = ast.parse(inspect.getsource(instrument))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    theory = ("statistics", "expectations", "dynamics", "nearly_kernel_methods", "prediction")
    assert not {name for name in imported if name.startswith(tuple(f"finitewidth.{t}" for t in theory))}


def test_a_run_of_all_claims_rarely_fails_by_noise_alone():
    """Of the claims whose records are there: all of them after a run of the whole file."""
    records = [RECORDS / f"{id}.json" for id in IDS]
    rates = [json.loads(path.read_text(encoding="utf-8"))["false_alarm"] for path in records if path.exists()]
    assert sum(rates) <= 0.01


def test_every_claim_has_a_wrong_theory():
    assert {id for id, _, _ in WRONG} == set(IDS)


@pytest.mark.parametrize("id", IDS)
def test_sizes_of_both_scales_are_of_one_kind(id):
    claim = lab.claim(id)
    assert type(claim.quick) is type(claim.full)
    assert dataclasses.asdict(claim.quick) != dataclasses.asdict(claim.full)


def test_outcome_depends_on_the_seed_only():
    claim = lab.claim("linear-critical")
    first, again, other = (run_claim(claim, seed=seed).measurement["variance"].value for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
