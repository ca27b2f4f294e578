"""`tune`: how to initialise and train a network of a given activation, depth and width."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import is_number
from finitewidth.advice.tuning.aspect_ratio import aspect_ratio
from finitewidth.advice.tuning.initialisation import Choice, recommended_initialisation
from finitewidth.advice.tuning.largest_step import largest_ntk_eigenvalue
from finitewidth.advice.tuning.learning_rates import equal_layer_rates, kernel_change
from finitewidth.advice.tuning.propagation import Propagation, framework_defaults, propagate
from finitewidth.advice.tuning.snippets import snippets
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.critical_point import critical_point
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs


class Tuning(eqx.Module):
    """Advice for one network.

    Attributes
    ----------
    net
        The network with the recommended initialisation and learning-rate tensor.
    reason
        Why this initialisation.
    universality_class
        Of the activation.
    eta_max
        Largest stable step of gradient descent on the sum of squares: 2 / lambda_max of the NTK on
        the data; without data, for one training point.
    points
        Number of training points that `eta_max` is for.
    aspect_ratio
        Depth over width.
    optimal_aspect_ratio
        Depth over width at which groups of outputs share most information, for this activation,
        initialisation and number of outputs.
    verdict
        Where the network sits beside that optimum.
    signals
        Propagation with this and with the frameworks' default initialisations.
    pytorch, jax
        Code to paste.
    """

    net: MLP
    reason: str = eqx.field(static=True)
    universality_class: str = eqx.field(static=True)
    eta_max: float = eqx.field(static=True)
    points: int = eqx.field(static=True)
    aspect_ratio: float = eqx.field(static=True)
    optimal_aspect_ratio: float = eqx.field(static=True)
    verdict: str = eqx.field(static=True)
    signals: dict[str, Propagation]
    pytorch: str = eqx.field(static=True)
    jax: str = eqx.field(static=True)

    def kernel_change(self, square: float = 1.0, target: float | None = None) -> float:
        """Mean relative change of the NTK when one input is learned, to first order in 1/width.

        `square` is the mean square of the input, `target` the value to be learned (by default as large as
        the outputs are). The activation must be smooth.
        """
        return kernel_change(self.net, square, target)

    def to_dict(self) -> dict:
        """Plain numbers, lists and strings, ready for JSON."""
        return {
            "activation": self.net.activation.name,
            "depth": self.net.depth,
            "hidden": list(self.net.hidden),
            "universality_class": self.universality_class,
            "C_b": float(self.net.C_b[0]),
            "C_W": float(self.net.C_W[0]),
            "reason": self.reason,
            "lambda_b": [float(v) for v in self.net.lambda_b],
            "lambda_W": [float(v) for v in self.net.lambda_W],
            "eta_max": self.eta_max,
            "points": self.points,
            "aspect_ratio": self.aspect_ratio,
            "optimal_aspect_ratio": self.optimal_aspect_ratio,
            "verdict": self.verdict,
            "signals": {
                name: {
                    "variance": [float(v) for v in p.variance],
                    "gradient": [float(v) for v in p.gradient],
                    "correlation": p.correlation,
                }
                for name, p in self.signals.items()
            },
            "pytorch": self.pytorch,
            "jax": self.jax,
        }


def tune(
    activation: str | Activation | Elementwise | Layer,
    depth: int | None = None,
    width: int | None = None,
    x: ArrayLike | None = None,
    *,
    n_in: int | None = None,
    n_out: int = 1,
    C_b: float | None = None,
    C_W: float | None = None,
) -> Tuning:
    """Initialisation, learning rates and largest step for a network, and what its shape implies.

    Parameters
    ----------
    activation
        A name, an `Activation`, or any elementwise function. Or a whole network, whose shape and
        initialisation are kept: then leave out depth, width, n_out, C_b and C_W.
    depth
        Number of affine layers, at least 1.
    width
        Width of every hidden layer.
    x
        Training inputs (points, features). Without them the inputs are taken to have mean square
        one, as after standardisation, and `n_in` features (the width by default).
    n_in, n_out
        Numbers of inputs (when there is no `x`) and outputs.
    C_b, C_W
        Your own initialisation instead of the recommended one.

    Examples
    --------
    >>> import finitewidth as fw
    >>> advice = fw.tune("relu", depth=5, width=256)
    >>> float(advice.net.C_W[0]), advice.aspect_ratio < 0.02
    (2.0, True)
    """
    if n_in is not None:
        _check_size("n_in", n_in)
    if isinstance(activation, Layer):
        if (depth, width, C_b, C_W, n_out) != (None, None, None, None, 1):
            raise ValueError("a network has its own depth, width, n_out, C_b and C_W: leave them out.")
        net, reason = dense_stack(activation), "as given"
    else:
        net, reason = _recommended(as_activation(activation), depth, width, n_out, C_b, C_W)
    if x is None:
        inputs = jnp.ones((1, 1))
        n_in = n_in or width or (*net.hidden, net.n_out)[0]
    else:
        inputs = as_inputs("x", x, net).astype(float)
        n_in = inputs.shape[1]
    widths = (int(n_in), *net.hidden, net.n_out)
    net = dense_stack(equal_layer_rates(net, inputs))
    eta_max = 2 / largest_ntk_eigenvalue(net, inputs)
    shape = aspect_ratio(net, float(jnp.mean(inputs**2)), width)
    signals = {"recommended": propagate(net, inputs)}
    for name, (default_b, default_W) in framework_defaults(widths).items():
        other = dataclasses.replace(net, C_b=default_b, C_W=default_W)
        signals[name] = propagate(other, inputs)
    comment = (
        f"half the largest stable step for 0.5 * sum((model(x) - y)**2) over {len(inputs)} points"
        if x is not None
        else "half the largest stable step for one point: divide by the number of training points"
    )
    code = snippets(net, widths[0], eta_max / 2, comment)
    return Tuning(
        net=net,
        reason=reason,
        universality_class=critical_point(net.activation).universality_class,
        eta_max=eta_max,
        points=len(inputs),
        aspect_ratio=shape.ratio,
        optimal_aspect_ratio=shape.optimal,
        verdict=shape.verdict,
        signals=signals,
        pytorch=code.pytorch,
        jax=code.jax,
    )


def _recommended(
    activation: Activation,
    depth: int | None,
    width: int | None,
    n_out: int,
    C_b: float | None,
    C_W: float | None,
) -> tuple[MLP, str]:
    """The network with the variances given, or else recommended, and why."""
    hidden = (_check_size("width", width),) * (_check_size("depth", depth) - 1)
    if C_b is None and C_W is None:
        choice = recommended_initialisation(activation)
    elif C_b is None or C_W is None:
        raise ValueError("pass both C_b and C_W, or neither.")
    else:
        choice = Choice(C_b, C_W, "as given")
    return MLP(hidden, activation, choice.C_b, choice.C_W, n_out=n_out), choice.reason


def _check_size(name: str, value: int | None) -> int:
    if not (is_number(value) and value >= 1 and value == int(value)):
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)
