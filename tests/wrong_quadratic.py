"""Theories of quadratic models that the laboratory must refuse."""

import numpy as np

from finitewidth.lab.chapters.nearly_kernel_methods import algorithms
from finitewidth.lab.chapters.representation_learning import epsilon_star

THEORY = (
    "Spectrum", "best_epsilon", "deformation", "direct_coefficient", "dual_descent", "inverting",
    "kernel_step", "nearly_kernel", "nearly_kernel_machine", "output_step", "pair_projectors", "smoother",
    "trained_kernel",
)  # fmt: skip


def scaled(factor):
    return lambda setting, value: np.asarray(value * factor)


def off_by(power):
    """A formula with a mistake at this power of epsilon."""

    def wrong(setting, value):
        mistake = 0.3 * setting.epsilons**power
        return value + mistake.reshape(-1, *(1,) * (value.ndim - 1))

    return wrong


def flow_at_any_step(setting, value):
    """The projectors of gradient flow for gradient descent at a finite step."""
    return algorithms._descent_theory(setting)["flow formula"]


def exchanged(setting, value):
    """The two slots of a projector exchanged."""
    return np.swapaxes(value, 1, 2)


def without_the_factor_two(setting, value):
    """The denominator of epsilon* as it is printed."""
    problems = [setting.problem(i) for i in range(setting.problems)]
    series = [epsilon_star._test_series(p) for p in problems]
    pairs = zip(problems, series, strict=True)
    return np.array([float(np.sum(s.z_I**2 + (s.z_F - p.y_test) * s.z_II)) for p, s in pairs])


WRONG = [
    ("quad-feature-update", "two terms", off_by(1)),
    ("quad-feature-update", "features", off_by(2)),
    ("dual-z-update", "dressed outputs", off_by(2)),
    ("dual-z-update", "bare outputs", off_by(1)),
    ("dual-kE-update", "bare kernel", off_by(1)),
    ("dual-trajectory", "dual dynamics", off_by(1)),
    ("kE-trained", "k^E after minimum norm", off_by(1)),
    ("nk-eigenbasis", "outputs", scaled(1.0001)),
    ("nk-gd-finite-eta", "nearly kernel", flow_at_any_step),
    ("nk-gd-finite-eta", "small steps", off_by(1)),
    ("nk-ode", "nearly kernel", off_by(1)),
    ("nk-direct", "nearly kernel", off_by(1)),
    ("nk-sweep", "order", scaled(0.5)),
    ("nk-direct-not-unique", "coefficient", scaled(0.0)),
    ("nk-ZB-universal", "Z_A", exchanged),
    ("nk-ZB-universal", "symmetric Z_B", scaled(2.0)),
    ("nk-inverting-tensor", "X", scaled(1.001)),
    ("nk-nonzero-init", "dressed features", off_by(1)),
    ("nk-weight-split", "both parts", off_by(1)),
    ("nk-zII-direct", "three terms", off_by(2)),
    ("nk-zII-gauss-newton", "its own second order", off_by(2)),
    ("nk-trained-kernel", "k# for Gauss-Newton flow", off_by(1)),
    ("nk-one-sided-kernel", "one-sided kernel", off_by(2)),
    ("gen-derivative", "slope", scaled(1.01)),
    ("eps-star-curvature", "curvature", without_the_factor_two),
    ("eps-star", "epsilon", scaled(1.5)),
    ("eps-star", "refined", scaled(1.3)),
    ("eps-star-diabetes", "epsilon", scaled(-1.0)),
    ("eps-star-diabetes", "epsilon", scaled(1.01)),
    ("useful-meta-features", "useful", scaled(0.5)),
    ("useful-meta-features", "unrelated", scaled(2.0)),
    ("network-nearly-kernel", "NTK and dNTK", off_by(1)),
    ("network-machine-width", "slope", scaled(0.5)),
    ("mlp-cubic-model", "cubic", scaled(0.5)),
    ("mlp-cubic-model", "quadratic", scaled(2.0)),
]
