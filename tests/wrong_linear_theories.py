"""Theories of linear models and kernel regression that are wrong in a typical way."""

import numpy as np
from scipy.linalg import expm


def scaled(factor):
    return lambda setting, value: np.asarray(value * factor)


def power(exponent):
    return lambda setting, value: value**exponent


def contracted_wrongly(setting, value):
    """The index clash of the notes: the inverse kernel summed over its free index."""
    features, tests, y, _ = setting.problem
    return tests @ features.T @ (np.linalg.inv(features @ features.T).sum(axis=0) * y)


def infinitesimal_steps(setting, value):
    """Gradient flow in place of descent."""
    features, _, y, start = setting.problem
    decay = [[expm(-eta * t * features @ features.T) for t in setting.at] for eta in setting.steps()]
    return np.array(decay) @ (features @ start - y)


def start_forgotten(setting, value):
    """The outputs that would follow from a start at zero."""
    return value - setting.problem.test @ setting.problem.start


def slowest_mode_alone(setting, value):
    """1 - eta lambda_min at any step, as the notes print."""
    return 1 - np.array(setting.etas) * min(setting.eigenvalues)


def shortest_from_anywhere(setting, value):
    """The interpolator of least norm, without a condition on the start."""
    return np.linalg.lstsq(setting.problem.train, setting.problem.y, rcond=None)[0]


WRONG = [
    ("lin-two-forms", "output", contracted_wrongly),
    ("lin-residual-propagator", "residual", infinitesimal_steps),
    ("lin-test-solution-any-t", "output", start_forgotten),
    ("lin-test-solution-any-t", "end", start_forgotten),
    ("lin-eta-independence", "gap", scaled(0.0)),
    ("lin-stability-edge", "residual", scaled(1 + 1e-6)),
    ("lin-stability-edge", "largest step", scaled(1.05)),
    ("gd-linear-rate", "factor", slowest_mode_alone),
    ("gd-linear-rate", "best", scaled(0.5)),
    ("gd-min-norm", "from zero", scaled(1 + 1e-6)),
    ("gd-min-norm", "from the start", shortest_from_anywhere),
    ("pd-kernel-linear-convergence", "bound", power(1.01)),
    ("pd-kernel-linear-convergence", "kernel", scaled(1 + 1e-6)),
]
