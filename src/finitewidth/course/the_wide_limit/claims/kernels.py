"""Networks of growing width approach the kernel recursion."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import Params
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import depth_over_width, relative_error, z_score
from finitewidth.course._lab.estimate import Estimate, propagated, sample_mean, stacked, variance
from finitewidth.course._lab.figures import Curves, power_laws
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BEYOND, BOOK, orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.report.style import Figure
from finitewidth.statistics.wide.kernels import kernels

_INPUTS = np.array([[1.0, 0.4, -0.6], [0.2, 1.1, 0.3], [-0.7, 0.5, 0.9]])
_HIDDEN_LAYERS = 2


@dataclass(frozen=True)
class Widths:
    """Two hidden tanh layers of each width."""

    widths: tuple[int, ...]
    draws: int
    C_b: float = 0.1
    C_W: float = 1.5

    def network(self, width: int, n_out: int = 1) -> Layer:
        """The network with hidden layers of this width."""
        return equal_layers(width, _HIDDEN_LAYERS, "tanh", self.C_b, self.C_W, n_out=n_out)


def output_covariance(net: Layer, params: Params, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """Covariance of an output unit over the last layer's weights, all other weights given."""
    net = dense_stack(net)
    features = net.activation(net.preactivations(params, x)[-2])
    return net.C_b[-1] + net.C_W[-1] * features @ features.T / features.shape[1]


def _outputs_and_covariance(net: Layer, params: Params, x: Float[Array, "n d"]) -> dict[str, Array]:
    return {"output": net.apply(params, x), "covariance": output_covariance(net, params, x)}


def _nngp_theory(setting: Widths) -> Prediction:
    return {"covariance": np.asarray(kernels(setting.network(1), _INPUTS).nngp)}


def _nngp_measure(setting: Widths, key) -> Measurement:
    covariance, across, fluctuation = [], [], []
    for n, draw_key in zip(setting.widths, jax.random.split(key, len(setting.widths)), strict=True):
        drawn = over_networks(
            setting.network(n, 2), _INPUTS, draw_key, setting.draws, _outputs_and_covariance
        )
        z = drawn["output"]
        covariance.append(sample_mean(np.einsum("tai,tbi->tab", z, z) / 2))
        across.append(sample_mean(np.einsum("ta,tb->tab", z[..., 0], z[..., 1])))
        diagonal = np.diagonal(drawn["covariance"], axis1=1, axis2=2)
        fluctuation.append(variance(np.sqrt(n) * diagonal))
    return {
        "covariance": stacked(covariance),
        "covariance of two units": stacked(across),
        "n Var": stacked(fluctuation),
    }


def _nngp_compare(setting: Widths, predicted: Prediction, measured: Measurement) -> Checks:
    K = predicted["covariance"]
    ratio = depth_over_width(_HIDDEN_LAYERS, np.array(setting.widths))[:, None, None]
    scale = np.sqrt(np.outer(np.diag(K), np.diag(K)))
    # Networks of different width are independent, those at several inputs are compared one by one.
    spread = propagated(lambda found: found[:-1] / found[-1], measured["n Var"])
    return [
        z_score("covariance of an output", K, measured["covariance"], ratio * scale),
        z_score("covariance of two outputs", 0.0, measured["covariance of two units"]),
        relative_error("n Var(K^), over that at the largest width", 1.0, spread, 0.1),
    ]


def _empirical_kernels(net: Layer, params: Params, x: Float[Array, "n d"]) -> dict[str, Array]:
    return {"nngp": output_covariance(net, params, x), "ntk": empirical_ntk(net, params, x)[0, 0]}


def _recursion_theory(setting: Widths) -> Prediction:
    nngp, ntk = kernels(setting.network(1), _INPUTS)
    return {"nngp": np.asarray(nngp), "ntk": np.asarray(ntk), "slope": np.array(-0.5)}


def _recursion_measure(setting: Widths, key) -> Measurement:
    means: dict[str, list[Estimate]] = {"nngp": [], "ntk": []}
    spreads: dict[str, list[Estimate]] = {"nngp": [], "ntk": []}
    for n, draw_key in zip(setting.widths, jax.random.split(key, len(setting.widths)), strict=True):
        drawn = over_networks(setting.network(n), _INPUTS, draw_key, setting.draws, _empirical_kernels)
        for name, kernel in drawn.items():
            means[name].append(sample_mean(kernel))
            spreads[name].append(sample_mean(np.sum((kernel - kernel.mean(axis=0)) ** 2, axis=(1, 2))))
    return {f"{name} mean": stacked(means[name]) for name in means} | {
        f"{name} spread": stacked(spreads[name]) for name in spreads
    }


def _error(name: str, predicted: Prediction, measured: Measurement) -> Estimate:
    """Root mean square distance of one network's kernel from the recursion, relative, by width."""
    distance = np.sum((measured[f"{name} mean"].value - predicted[name]) ** 2, axis=(1, 2))
    value = np.sqrt(distance + measured[f"{name} spread"].value)
    size = np.sqrt(np.sum(predicted[name] ** 2))
    spread = measured[f"{name} spread"]
    return Estimate(value / size, spread.sem / (2 * value * size), spread.dof)


def _slope(widths: np.ndarray, error: Estimate) -> Estimate:
    """Slope of log error against log width, by least squares."""
    log_width = np.log(widths) - np.log(widths).mean()
    weight = log_width / np.sum(log_width**2)
    return propagated(lambda found: weight @ np.log(found), error)


def _recursion_compare(setting: Widths, predicted: Prediction, measured: Measurement) -> Checks:
    widths = np.array(setting.widths)
    ratio = depth_over_width(_HIDDEN_LAYERS + 1, widths)
    # The squared error is A/n (1 + B/n) with |B| of the order of the depth; this is what B does to the slope.
    bend = 0.5 * ratio[0] / np.log(widths[-1] / widths[0])
    for name in ("nngp", "ntk"):
        size = np.sqrt(np.outer(np.diag(predicted[name]), np.diag(predicted[name])))
        slope = _slope(widths, _error(name, predicted, measured))
        yield z_score(f"{name}: slope of log error", predicted["slope"], slope, bend, "depth / width")
        mean = measured[f"{name} mean"]
        yield z_score(f"{name}: mean", predicted[name], mean, ratio[:, None, None] * size, "depth / width")


def _recursion_figure(setting: Widths, predicted: Prediction, measured: Measurement) -> Figure:
    laws = {name.upper(): (_error(name, predicted, measured), predicted["slope"]) for name in ("ntk", "nngp")}
    title, ylabel = "One network's kernels approach the recursion", "relative error of one network's kernel"
    return power_laws(title, setting.widths, laws, r"hidden width $n$", ylabel)


CLAIMS = (
    Claim(
        id="nngp-covariance",
        title="wide outputs are Gaussian with covariance from the recursion",
        statement="""As hidden widths grow, outputs on a finite set of inputs become jointly Gaussian and
        independent across units, with covariance K^(l+1) = C_b + C_W <sigma sigma>_K(l); bias and variance of
        the conditional covariance K^ are O(1/n).""",
        source=orf_543("9/21"),
        quick=Widths((8, 20, 50), draws=8000),
        full=Widths((8, 16, 32, 64, 128, 256), draws=20_000),
        theory=_nngp_theory,
        measure=_nngp_measure,
        compare=_nngp_compare,
        figure=Curves("widths", r"hidden width $n$", along=0),
        wrong={"covariance": scaled(1.2)},
    ),
    Claim(
        id="kernel-recursion-width",
        title="NNGP and NTK of one network reach the recursion as n^-1/2",
        statement="""The NNGP kernel and the NTK of a single random network of width n differ from the kernel
        recursion by an error that falls as n^-1/2.""",
        source=f"{BEYOND}: {BOOK}, chapters 4 and 8",
        quick=Widths((16, 32, 64, 128), draws=1000),
        full=Widths((16, 32, 64, 128, 256, 512), draws=2000),
        theory=_recursion_theory,
        measure=_recursion_measure,
        compare=_recursion_compare,
        figure=_recursion_figure,
        wrong={"nngp": scaled(1.2), "ntk": scaled(1.2), "slope": scaled(2.0)},
    ),
)
