"""Wrong theories of finite width that the claims must reject: (claim, prediction, what is wrong)."""

import numpy as np

from finitewidth.architecture import MLP
from finitewidth.statistics.paths import ntk_moments


def scaled(factor):
    return lambda setting, value: np.asarray(value * factor)


def without_depth(setting, value):
    """One hidden layer's fluctuation at every depth."""
    return np.broadcast_to(value[:1], value.shape)


def frozen_output_layer(setting, value):
    """L layers that learn instead of L + 1."""
    layers = np.array([len(hidden) for hidden in setting.hidden])
    return value * layers / (layers + 1)


def first_order_of_one_layer(setting, value):
    """1 + 3/n for every hidden layer, as if fluctuations of layers were independent."""
    layers = np.array([len(hidden) + 1 for hidden in setting.hidden])
    return (2.0 * layers) ** 2 * np.array([1 + sum(3 / n for n in hidden) for hidden in setting.hidden])


def first_order_of_the_limit(setting, value):
    return 1 + 11 / 3 * np.array(setting.depth_over_width)


def exponential_alone(setting, value):
    """exp(5 beta), to which the notes call the fluctuations comparable."""
    return np.exp(5 * np.array(setting.depth_over_width))


def sum_of_inverse_widths_alone(setting, value):
    """Layers of one width, with the depth and the sum of 1/n_l of the network with a narrow layer."""
    layers = len(setting.unequal)
    width = layers / sum(1 / n for n in setting.unequal)
    sizes = np.array([np.floor(width), np.ceil(width)]).astype(int)
    ratios = [ntk_moments(MLP((int(n),) * layers, "relu", lambda_b=0.0)).ratio for n in sizes]
    return np.asarray(np.interp(1 / width, 1 / sizes[::-1], ratios[::-1]))


WRONG = [
    ("excess-kurtosis-depth-width", "relu", scaled(2 / 5)),
    ("excess-kurtosis-depth-width", "tanh", scaled(1.5)),
    ("ntk-width-scaling", "mean", scaled(1.1)),
    ("ntk-width-scaling", "variance", scaled(1.5)),
    ("dntk-width-scaling", "z dH", scaled(-1.0)),
    ("dntk-width-scaling", "I", scaled(1 / 3)),
    ("dntk-width-scaling", "J", scaled(0.5)),
    ("depth-over-width", "variance", without_depth),
    ("ntk-diagonal-second-moment", "mean", frozen_output_layer),
    ("ntk-diagonal-second-moment", "second", first_order_of_one_layer),
    ("ntk-fluctuation-limit", "ratio", first_order_of_the_limit),
    ("ntk-fluctuation-limit", "ratio", exponential_alone),
    ("ntk-fluctuation-limit", "width 40", scaled(1.1)),
    ("ntk-fluctuation-limit", "bottleneck", sum_of_inverse_widths_alone),
    ("mean-kernel-shift", "G1 depth 3", scaled(1.5)),
    ("mean-kernel-shift", "H1 depth 3", scaled(1.3)),
    ("kernel-change-one-input", "change", scaled(2.0)),
    *(("finite-width-tensors-tanh", f"{name} depth 2", scaled(1.5)) for name in "VDFABQRSTU"),
    ("finite-width-tensors-tanh", "P depth 2", scaled(-1.0)),
    *(("finite-width-tensors-gelu", f"{name} depth 2", scaled(1.5)) for name in "VDFABPQRSTU"),
    *(("finite-width-tensors-relu", f"{name} depth 3", scaled(1.5)) for name in "VDFAB"),
    *(("finite-width-tensors-elu", f"{name} depth 2", scaled(1.5)) for name in "VDFABQSTU"),
    ("finite-width-tensors-elu", "P depth 2", scaled(-1.0)),
    *(("finite-width-tensors-selu", f"{name} depth 3", scaled(1.5)) for name in "VDFAB"),
]
