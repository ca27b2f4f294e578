"""What finite width does to the mean kernels."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from finitewidth.architecture import MLP, Params
from finitewidth.lab.claim import Check, Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import z_score
from finitewidth.lab.ensembles import over_networks
from finitewidth.lab.estimate import sample_mean, stacked
from finitewidth.networks.tangent_kernel import empirical_ntk
from finitewidth.report import style
from finitewidth.statistics.corrections import corrections

_X = np.array([[1.0, 0.3], [-0.4, 1.2]])
_OUTPUTS = 4
_ENTRIES = ((0, 0), (0, 1), (1, 1))


@dataclass(frozen=True)
class Means:
    """GELU networks of depth 4, two inputs, several widths."""

    widths: tuple[int, ...]
    draws: int

    def network(self, width: int) -> MLP:
        return MLP((width,) * 3, "gelu", 0.2, 1.5, 0.5, 0.8, n_out=_OUTPUTS)

    @property
    def depth(self) -> int:
        return 4


def _entries(matrix: np.ndarray) -> np.ndarray:
    return np.array([matrix[i, j] for i, j in _ENTRIES])


def _theory(setting: Means) -> Prediction:
    tensors = corrections(setting.network(2), _X)
    one_over_n = 1 / np.array(setting.widths)[:, None]
    return {
        "nngp": _entries(np.asarray(tensors.K)),
        "ntk": _entries(np.asarray(tensors.Theta)),
        "nngp shift": one_over_n * _entries(np.asarray(tensors.G1)),
        "ntk shift": one_over_n * _entries(np.asarray(tensors.H1)),
    }


def _kernels(net: MLP, params: Params, x: Float[Array, "n d"]) -> dict[str, Array]:
    """Products of outputs and tangent kernel of one network, averaged over its outputs."""
    z, H = net.apply(params, x), empirical_ntk(net, params, x)
    nngp, ntk = z @ z.T / _OUTPUTS, jnp.einsum("iiab->ab", H) / _OUTPUTS
    rows, columns = zip(*_ENTRIES, strict=True)
    return {"nngp": nngp[rows, columns], "ntk": ntk[rows, columns]}


def _measure(setting: Means, key) -> Measurement:
    samples = [
        over_networks(setting.network(n), _X, k, setting.draws, _kernels)
        for n, k in zip(setting.widths, jax.random.split(key, len(setting.widths)), strict=True)
    ]
    return {name: stacked([sample_mean(s[name]) for s in samples]) for name in ("nngp", "ntk")}


def _compare(setting: Means, predicted: Prediction, measured: Measurement) -> Verdict:
    """The next order is depth/width times the shift."""
    small = setting.depth / np.array(setting.widths)[:, None]
    checks: list[Check] = []
    for name in ("nngp", "ntk"):
        shift = predicted[f"{name} shift"]
        allowed = small * np.abs(shift).max(axis=1, keepdims=True)
        checks.append(z_score(f"mean {name}", predicted[name] + shift, measured[name], allowed))
    return Verdict(tuple(checks))


def _figure(setting: Means, predicted: Prediction, measured: Measurement) -> Figure:
    figure, axes = style.panels("Finite width shifts the mean kernels by G1/n and H1/n (GELU, depth 4)", 2)
    x = 1 / np.array(setting.widths)
    for ax, name in zip(axes, ("nngp", "ntk"), strict=True):
        for k, (entry, color) in enumerate(zip(_ENTRIES, style.PALETTE, strict=False)):
            shift = predicted[f"{name} shift"][:, k]
            line_x = np.concatenate([[0.0], x])
            style.theory_line(
                ax, line_x, np.concatenate([[0.0], shift]), color, f"inputs {entry[0] + 1}, {entry[1] + 1}"
            )
            value, sem = (part[:, k] for part in measured[name])
            style.measured_points(ax, x, value - predicted[name][k], sem, color)
        ax.set(xlabel="1 / width", ylabel="mean less infinite-width value", title=name.upper())
        style.legend(ax, loc="upper left")
    return figure


CLAIMS = (
    Claim(
        id="mean-kernel-shift",
        title="mean kernels shift by G1/n and H1/n",
        chapter="Finite width at initialisation",
        statement=(
            "The mean of a product of two outputs and the mean NTK of networks of depth 4 differ from their "
            "infinite-width values by G1/n and H1/n, at equal and at different inputs."
        ),
        source="The Principles of Deep Learning Theory, chapters 4 and 8; several inputs derived here",
        quick=Means((12, 24), draws=6000),
        full=Means((12, 24, 48), draws=60_000),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    ),
)
