"""Wide networks that follow their linearisation: how fast the distance closes with width."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import jackknife, propagated, stacked
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import shifted
from finitewidth.course.lazy_training.networks.linearised_path import linearised_path
from finitewidth.course.lazy_training.networks.one_hidden_sum import tanh_neurons
from finitewidth.report.style import Figure

_EXPONENTS = {"neuron motion": -0.5, "kernel change": -1.0, "output gap": -1.0}


@dataclass(frozen=True)
class Widths:
    """Sums of tanh neurons over the root of their number, trained on small labels at every width."""

    widths: tuple[int, ...]
    networks: int
    points: int = 6
    n_in: int = 3
    steps: int = 100
    eta: float = 0.2
    label: float = 0.3

    def theory(self) -> Prediction:
        """The change of the kernel averages over output weights with mean zero: 1/m, not the root of it."""
        return {name: np.array(value) for name, value in _EXPONENTS.items()}

    def measure(self, key) -> Measurement:
        data_key, net_key = jax.random.split(key)
        x = jax.random.normal(data_key, (self.points, self.n_in))
        y = jnp.sin(2 * x[:, :1]) + x[:, 1:2]
        y = self.label * y / jnp.sqrt(jnp.mean(y**2))
        found: dict[str, list] = {name: [] for name in _EXPONENTS}
        for m in self.widths:
            rows = []
            for k in jax.random.split(jax.random.fold_in(net_key, m), self.networks):
                start = jax.random.normal(k, (m, self.n_in + 1))
                run = linearised_path(
                    tanh_neurons,
                    start,
                    x,
                    y,
                    learning_rate=self.eta,
                    steps=self.steps,
                    centred=True,
                    record_every=self.steps // 10,
                )
                rows.append((run.largest[0] ** 2 / m, run.kernel_change**2, run.largest[2] ** 2))
            squares = np.array(rows)
            for name, column in zip(_EXPONENTS, squares.T, strict=True):
                found[name].append(jackknife(column, np.sqrt))
        sizes = {name: stacked(parts) for name, parts in found.items()}
        fit = lambda values: fitted_power(np.array(self.widths), values)
        powers = {name: propagated(fit, values) for name, values in sizes.items()}
        return powers | {f"sizes of {name}": values for name, values in sizes.items()}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Kernel and outputs are known to the leading order in m^(-1/2) alone.
        within = {"neuron motion": 0.05, "kernel change": 0.15, "output gap": 0.15}
        return [
            absolute_error(f"exponent of the width: {name}", predicted[name], measured[name], within[name])
            for name in _EXPONENTS
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        laws = {name: (measured[f"sizes of {name}"], predicted[name]) for name in _EXPONENTS}
        title = "Wide networks follow their linearisation"
        return power_laws(title, self.widths, laws, r"width $m$", "root mean square")


CLAIMS = (
    Claim(
        id="lazy-width",
        title="neurons move like m^(-1/2), kernel and outputs leave the linearisation like 1/m",
        statement="""In the 1/sqrt(m) scaling with centred outputs and small labels, a neuron moves by order
        m^(-1/2) in training, and both the change of the tangent kernel and the distance of the outputs from
        those of the linearised network fall like 1/m: averages over output weights of mean zero cancel the
        order m^(-1/2).""",
        source=f"{IEMS_402}, lazy training (wide enough, made quantitative here)",
        quick=Widths((128, 1024), networks=48),
        full=Widths((256, 1024, 4096, 16384), networks=32, steps=600),
        # What follows the leading order falls like m^(-1/2) only, and may turn an exponent by 0.15.
        notices={"kernel change": 2.0, "output gap": 2.0},
        wrong={
            "neuron motion": shifted(-0.5),
            "kernel change": shifted(0.5),
            "output gap": shifted(0.5),
        },
    ),
)
