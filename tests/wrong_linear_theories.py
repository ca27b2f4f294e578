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


def ignoring_boundary(setting, value):
    """Sines that vanish at both ends: eigenvalues 1/(j pi)^2."""
    return 1 / ((np.arange(setting.modes) + 1) * np.pi) ** 2


def image_of_the_operator(setting, value):
    """Coefficients over squared eigenvalues: the norm of the image of T, not of its square root."""
    x = (np.arange(setting.grid) + 0.5) / setting.grid
    frequency = (np.arange(setting.grid // 2) + 0.5) * np.pi
    c = np.sqrt(2) * np.sin(np.outer(frequency, x)) @ (x**2 / 2) / setting.grid
    return np.append(np.sum(c**2 * frequency**4), value[1:])


def norm_of_coefficients(setting, value):
    """a^T a in place of a^T K a."""
    features, _, y, _ = setting.problem
    K = features @ features.T
    return np.array([np.sum(np.linalg.solve(K + r * np.eye(len(y)), y) ** 2) for r in setting.ridges])


def without_penalty(setting, value):
    features, tests, y, _ = setting.problem
    return np.tile(tests @ np.linalg.lstsq(features, y, rcond=None)[0], (len(setting.ridges), 1))


def first_layer_weight_squared(setting, value):
    """The weight that the notes print in the part of the hidden layer."""
    x, (w, _) = setting.data[0], setting.weights
    slope = 1 / np.cosh(x @ w.T / np.sqrt(setting.n_in)) ** 2
    return (slope * w[:, 0] ** 2) @ slope.T / setting.width * (x @ x.T / setting.n_in)


def sum_of_losses(setting, value):
    """The step without the 1/m of the mean loss."""
    x, (w, v) = setting.data[0], setting.weights
    start = np.tanh(x @ w.T / np.sqrt(setting.n_in)) @ v / np.sqrt(setting.width)
    return start + setting.points * (value - start)


def distinct_is_enough(setting, value):
    """No dip at the antipode."""
    middle = setting.angles // 2
    return np.concatenate([value[:middle], value[middle - 1 : middle], value[middle + 1 :]])


def without_dimension_and_half(setting, value):
    """exp(-t^2/(U + R t/3)), which exact tails of sums of signs exceed."""
    return (value / 2) ** 2


def root_of_points(setting, value):
    """The variance m/n of the notes, whatever the norm of the mean kernel."""
    return np.tile(np.sqrt(np.array(setting.points) / setting.points[0]), (2, 1))


def movement_like_one_over_width(setting, value):
    return value / np.sqrt(setting.widths)


def rate_without_points(setting, value):
    """exp(-lambda_0 t): the 1/m that the notes lose."""
    return value[0] * (value / value[0]) ** setting.points


def squares_for_fourth_powers(setting, value):
    """16 m^2 L(0)/lambda_0^2, as the notes print."""
    theorems = [setting.theorem(label) for label in setting.labels]
    return np.array([16 * 4 * t.initial_loss / t.smallest**2 for t in theorems])


def other_start(setting, value):
    """The exponents of doubled neurons for single ones, and the other way round."""
    return np.append(value[:2], -3 - value[2])


def weights_as_far_as_they_move(setting, value):
    """Weights of order 1/alpha away from those of the linearised model."""
    return np.array([value[0], -1.0, value[2]])


def start_of_training(setting, value):
    """A law that does not change."""
    return np.broadcast_to(value[:1], value.shape)


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
    ("mercer-feature-map", "eigenvalues", ignoring_boundary),
    ("mercer-feature-map", "eigenfunctions", scaled(1.01)),
    ("mercer-feature-map", "power", scaled(1.2)),
    ("rkhs-norm-and-reproducing", "norm", image_of_the_operator),
    ("rkhs-norm-and-reproducing", "values", scaled(1 + 1e-6)),
    ("rkhs-norm-and-reproducing", "norms of kernels", power(0.5)),
    ("rkhs-norm-and-reproducing", "least norm", scaled(1 + 1e-6)),
    ("rkhs-norm-and-reproducing", "interpolator", scaled(1 + 1e-6)),
    ("representer-ridge-duality", "squared norm", norm_of_coefficients),
    ("representer-ridge-duality", "predicted", without_penalty),
    ("representer-ridge-duality", "fitted", scaled(1 + 1e-6)),
    ("two-layer-ntk-formula", "hidden layer", first_layer_weight_squared),
    ("two-layer-ntk-formula", "output layer", scaled(1 + 1e-6)),
    ("two-layer-ntk-formula", "mean", scaled(1.2)),
    ("ntk-one-step", "outputs", sum_of_losses),
    ("ntk-one-step", "power", scaled(1.5)),
    ("kernel-pd-hermite", "tanh", distinct_is_enough),
    ("kernel-pd-hermite", "gelu", scaled(1 + 1e-4)),
    ("kernel-pd-hermite", "parabola", lambda setting, value: value + 1e-4),
    ("matrix-bernstein-kernel-concentration", "signs", without_dimension_and_half),
    ("matrix-bernstein-kernel-concentration", "sin growth", root_of_points),
    ("matrix-bernstein-kernel-concentration", "cos growth", root_of_points),
    ("matrix-bernstein-kernel-concentration", "sin bound", scaled(0.1)),
    ("kernel-lipschitz-lemma", "change per distance", scaled(0.5)),
    ("weight-movement-bound", "movement", movement_like_one_over_width),
    ("weight-movement-bound", "loss", rate_without_points),
    ("weight-movement-bound", "squared distance", scaled(1.5)),
    ("weight-movement-bound", "exponent", scaled(2.0)),
    ("width-threshold", "width", squares_for_fourth_powers),
    ("width-threshold", "exponent", scaled(2.0)),
    ("lazy-alpha-orders", "exponents", other_start),
    ("lazy-alpha-orders", "exponents", scaled(0.5)),
    ("lazy-alpha-orders", "exponents", weights_as_far_as_they_move),
    ("lazy-doubled-init", "exponents", other_start),
    ("lazy-doubled-init", "exponents", weights_as_far_as_they_move),
    ("trained-law", "mean", start_of_training),
    ("trained-law", "covariance", start_of_training),
    ("trained-law", "loss", scaled(1.2)),
]
