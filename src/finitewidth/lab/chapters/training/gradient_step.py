"""One step of gradient descent as a series in the learning rate."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import absolute_error
from finitewidth.lab.framework.estimate import exact
from finitewidth.lab.framework.sources import DAY_3
from finitewidth.networks.differentials import empirical_ddntk, empirical_dntk
from finitewidth.networks.tangent_kernel import empirical_ntk
from finitewidth.networks.training import train
from finitewidth.report import style

_CHAPTER = "Training"


@dataclass(frozen=True)
class OneStep:
    """A small tanh network with two outputs, and learning rates that are halved each time."""

    halvings: int
    eta: float = 0.01
    hidden: tuple[int, ...] = (4, 4)
    points: int = 3

    @property
    def etas(self) -> np.ndarray:
        return self.eta * 0.5 ** np.arange(self.halvings + 1)


def _theory(setting: OneStep) -> Prediction:
    """What is left out after 0 to 3 terms of the series begins with the next power of eta."""
    return {"order": np.arange(1.0, 5.0)}


def _measure(setting: OneStep, key) -> Measurement:
    data_key, net_key = jax.random.split(key)
    net = MLP(setting.hidden, "tanh", C_b=0.1, C_W=1.2, lambda_W=1.5, n_out=2)
    x = jax.random.normal(data_key, (setting.points, 3))
    y = jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    params = net.init(net_key, 3)
    z = net.apply(params, x)
    e = z - y
    terms = [
        z.T,
        -jnp.einsum("ijab,bj->ia", empirical_ntk(net, params, x), e),
        jnp.einsum("ijkabc,bj,ck->ia", empirical_dntk(net, params, x), e, e) / 2,
        -jnp.einsum("ijklabcd,bj,ck,dl->ia", empirical_ddntk(net, params, x).I, e, e, e) / 6,
    ]
    errors = np.zeros((4, len(setting.etas)))
    for k, eta in enumerate(setting.etas):
        after = net.apply(train(net, params, x, y, steps=1, learning_rate=float(eta)).params, x).T
        for order in range(4):
            series = sum(eta**p * terms[p] for p in range(order + 1))
            errors[order, k] = float(jnp.linalg.norm(after - series))
    return {"errors": exact(errors), "order": exact(np.log2(errors[:, -2] / errors[:, -1]))}


def _compare(setting: OneStep, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict(
        (absolute_error("power of the learning rate", predicted["order"], measured["order"].value, 0.05),)
    )


def _figure(setting: OneStep, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Each tensor of the series removes one power of the learning rate")
    names = ("outputs of the start", "+ NTK", "+ dNTK", "+ ddNTK")
    for k, (name, color) in enumerate(zip(names, style.PALETTE, strict=False)):
        errors = measured["errors"].value[k]
        line = errors[-1] * (setting.etas / setting.etas[-1]) ** predicted["order"][k]
        style.theory_line(axes, setting.etas, line, color, name)
        style.measured_points(axes, setting.etas, errors, np.zeros(len(errors)), color)
    axes.set(xscale="log", yscale="log", xlabel=r"learning rate $\eta$", ylabel="error after one step")
    style.legend(axes, "one step of a network", loc="best", error_bars=False)
    return figure


CLAIMS = (
    Claim(
        id="mlp-step-taylor",
        title="one step is NTK, dNTK and ddNTK up to the fourth power of the learning rate",
        chapter=_CHAPTER,
        statement=(
            "One step of gradient descent with a learning-rate tensor changes the outputs by "
            "-eta H e + eta^2/2 dH e e - eta^3/6 ddH e e e, summed over points and outputs, up to eta^4."
        ),
        source=f"{DAY_3} (sum over outputs as well as points)",
        quick=OneStep(halvings=1, eta=0.005),
        full=OneStep(halvings=5, eta=0.1),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    ),
)
