"""Bulk and outliers of the loss Hessian: how many outliers a classifier has, and why."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, lower_bound, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.loss_landscape.networks.classifiers import Architecture, clusters, programs
from finitewidth.measure.loss.class_structure import class_structure
from finitewidth.measure.loss.operators import gauss_newton, hessian
from finitewidth.measure.loss.outliers import Outliers, outliers
from finitewidth.measure.loss.spectrum import eigenpairs, overlap
from finitewidth.measure.specimen import Specimen
from finitewidth.report import style
from finitewidth.report.style import Figure

_PARTS = ("class", "cross-class", "within", "same label", "H - G")


@dataclass(frozen=True)
class Separated(RandomProblem):
    """Classifiers of separated clusters, trained by stochastic gradient descent to a small loss.

    One has ReLU and inputs that all share a direction, `offset` times as long as the centres of the classes,
    as images do whose pixels are never negative. The other has tanh and centred inputs.
    """

    classes: int = 4
    per_class: int = 20
    n_in: int = 12
    hidden: tuple[int, ...] = (16, 16)
    offset: float = 3.0
    noises: tuple[float, ...] = (0.1, 3.0)
    steps: int = 3000
    batch: int = 16

    def trained(self, activation: str, noise: float, offset: float, eta: float) -> Specimen:
        """A classifier at the end of its training."""
        kind = Architecture(self.hidden, activation, self.n_in, self.classes)
        data = clusters(self.rng(0), (self.per_class,) * self.classes, self.n_in, noise, offset=offset)[0]
        start, key = kind.start(self.seed), jax.random.key(self.seed)
        path = programs(kind).noisy_descent(start, *data, key, eta, 1.0, self.batch, 1, self.steps)
        return kind.specimen(np.asarray(path[-1]), data)

    def theory(self) -> Prediction:
        """One outlier for each direction of the softmax, or all that class and cross-class parts can lift."""
        C = self.classes
        return {
            "shared": np.array(C - 1.0),
            "centred": np.array(C * (C - 1.0)),
            "most": np.full(len(self.noises), C * (C - 1.0)),
            "alignment": np.array(0.8),
            "left edge": np.array(-0.03),
        }

    def measure(self, key) -> Measurement:
        found = _found(self)
        return {
            "shared": exact(float(found.outliers.by_gap)),
            "alignment": exact(found.alignment),
            "left edge": exact(found.least / found.outliers.values[0]),
            "centred": exact(found.counts[0]),
            "all": exact(found.counts),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        left = measured["left edge"].value
        return [
            absolute_error("outliers of H, inputs with a shared direction", predicted["shared"],
                           measured["shared"], 0.1),
            lower_bound("overlap of their space with the mean gradients", predicted["alignment"],
                        measured["alignment"]),
            absolute_error("eigenvalues of G above its bulk, centred inputs", predicted["centred"],
                           measured["centred"], 0.1),
            upper_bound("the same at all noises", predicted["most"], measured["all"]),
            upper_bound("least eigenvalue over the largest, below zero", -1e-4, float(left)),
            lower_bound("and small", predicted["left edge"], measured["left edge"]),
        ]  # fmt: skip

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        found = _found(self).outliers
        picture, (values, counts) = style.panels("Outliers of the loss Hessian, and where they belong", 2)
        x, bottom = np.arange(1, len(found.values) + 1), np.zeros(len(found.values))
        parts = np.column_stack([found.attribution.parts, found.attribution.rest]) / found.values[0]
        for name, part, color in zip(_PARTS, parts.T, style.PALETTE, strict=False):
            values.bar(x, np.maximum(part, 0), bottom=bottom, color=color, label=name, width=0.8)
            bottom += np.maximum(part, 0)
        values.axhline(found.bulk_edge / found.values[0], color=style.GREY, ls="--", lw=1)
        values.annotate("edge of the bulk", (len(x), found.bulk_edge / found.values[0]), xytext=(0, 4),
                        textcoords="offset points", ha="right", fontsize=8.5, color=style.GREY)  # fmt: skip
        values.set(xlabel="eigenvalue of H, largest first", ylabel="eigenvalue / largest",
                   title=f"ReLU, inputs share a direction: C - 1 = {self.classes - 1}")  # fmt: skip
        values.legend(fontsize=8.5)
        style.whole_ticks(values.xaxis)
        counts.axhline(
            float(predicted["most"][0]), color=style.PALETTE[0], lw=1.7, label="C (C - 1), the most"
        )
        style.measured_points(
            counts,
            self.noises,
            measured["all"].value,
            np.zeros(len(self.noises)),
            style.PALETTE[1],
            "networks",
        )
        counts.set(xscale="log", xlabel="noise per coordinate, in units of the centres", ylim=(0, None),
                   title="tanh, centred inputs: eigenvalues of G above its bulk")  # fmt: skip
        style.plain_ticks(counts.xaxis, self.noises)
        counts.legend()
        return picture


class Found(NamedTuple):
    """What is measured on both kinds of networks."""

    outliers: Outliers
    least: float
    alignment: float
    counts: np.ndarray


@lru_cache(maxsize=4)
def _found(setting: Separated) -> Found:
    """Outliers of H with a shared direction, and counts above the bulk of G without one."""
    shared = setting.trained("relu", 0.3, setting.offset, 0.005)
    top = setting.classes - 1
    least = eigenpairs(hessian(shared), 1, "smallest").values[0]
    vectors = eigenpairs(hessian(shared), top).vectors
    counts = []
    for noise in setting.noises:
        network = setting.trained("tanh", noise, 0.0, 0.1)
        edge = eigenpairs(class_structure(network).bulk(), 1).values[0]
        values = eigenpairs(gauss_newton(network), setting.classes * top + 2).values
        counts.append(float(np.sum(values > edge)))
    return Found(outliers(shared), float(least), overlap(vectors, _mean_gradients(shared)), np.array(counts))


def _mean_gradients(network: Specimen) -> np.ndarray:
    """An orthonormal basis (parameters, C - 1) of what the softmax sees of Avg_i J_i, whatever the class."""
    shape = network.outputs().shape
    centred = np.eye(shape[1])[1:] - 1 / shape[1]
    columns = [network.transposed_jacobian_product(np.broadcast_to(row, shape)) for row in centred]
    return np.linalg.qr(np.stack(columns, axis=1))[0]


def _on_any_classifier(setting: Separated, value: np.ndarray) -> np.ndarray:
    """As many outliers as classes but one, with or without a shared direction."""
    return np.array(setting.classes - 1.0)


def _class_means(setting: Separated, value: np.ndarray) -> np.ndarray:
    """One outlier for each pair of a class and a wrong label, also with a shared direction."""
    return np.array(setting.classes * (setting.classes - 1.0))


CLAIMS = (
    Claim(
        id="hessian-bulk-and-outliers",
        title="a classifier's Hessian: bulk and outliers",
        statement="""A ReLU network that has learned C separated clusters, whose inputs share a direction
        three times as long as the centres of the clusters, has a loss Hessian with C-1 eigenvalues before the
        largest gap, and a bulk that begins slightly below zero. These outliers belong to the shared
        direction, once for each direction of the softmax. Without a shared direction other numbers appear:
        a tanh network of centred inputs has C(C-1) eigenvalues of G above its within-class and same-label
        parts if the clusters are far apart against their noise, and fewer if they overlap; class and
        cross-class part together have no larger rank. So C-1 outliers are no property of any classifier.""",
        source=orf_543("10/3") + " (about as many outliers as classes; conditions found here)",
        quick=Separated(),
        full=Separated(noises=(0.1, 0.2, 0.5, 1.0, 2.0, 3.0), per_class=40),
        bounds={"most": "above", "alignment": "below", "left edge": "below"},
        # Where the bulk begins depends on the data.
        notices={"left edge": 10.0},
        wrong={
            "shared": _class_means,
            "centred": _on_any_classifier,
            "alignment": scaled(1.25),
            "most": lambda setting, value: np.full(len(setting.noises), float(setting.classes)),
        },
    ),
)
