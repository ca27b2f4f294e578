"""Neural collapse: what training past zero error does to the last features of a classifier."""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled, shifted
from finitewidth.course.loss_landscape.networks.classifiers import Architecture, Clusters, clusters, programs
from finitewidth.measure.loss.collapse import Collapse, classifier, collapse
from finitewidth.measure.loss.layer_structure import as_rows, class_means
from finitewidth.measure.specimen import Specimen
from finitewidth.report import style
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class LateTraining(RandomProblem):
    """A classifier of equally distant clusters, trained with a little weight decay far past zero error.

    With `opposite` every second point is at the opposite place, so that each class has two clusters and its
    mean says nothing.
    """

    hidden: tuple[int, ...] = (32, 32, 32)
    classes: int = 4
    per_class: int = 20
    n_in: int = 12
    noise: float = 0.5
    eta: float = 0.01
    decay: float = 5e-3
    records: int = 15
    every: int = 200
    opposite: bool = False

    @property
    def architecture(self) -> Architecture:
        """A ReLU network with one output per class."""
        return Architecture(self.hidden, "relu", self.n_in, self.classes)

    @property
    def steps(self) -> np.ndarray:
        """When the network is looked at; the first time is the start."""
        return self.every * np.arange(self.records + 1)


class Run(NamedTuple):
    """A trained network: specimens at its records, and its last layer at the first and last of them."""

    path: tuple[Specimen, ...]
    fresh: Clusters
    layers: tuple[tuple[Collapse, ...], ...]
    rows: np.ndarray
    centred_means: np.ndarray

    def last(self, name: str) -> np.ndarray:
        """One number of the last layer's features at all records."""
        return np.array([getattr(found[-1], name) for found in self.layers])


@lru_cache(maxsize=4)
def trained(setting: LateTraining) -> Run:
    """The network of a problem, trained once for all claims about it."""
    kind = setting.architecture
    data, fresh = clusters(
        setting.rng(0), (setting.per_class,) * setting.classes, setting.n_in, setting.noise, fresh=True
    )
    if setting.opposite:
        signs = np.where(np.arange(len(data.y)) % 2, -1.0, 1.0)[:, None]
        data, fresh = data._replace(x=signs * data.x), fresh._replace(x=signs * fresh.x)
    start = kind.start(setting.seed)
    path = programs(kind).decayed_descent(
        start, *data, setting.eta, setting.decay, setting.records, setting.every
    )
    first = kind.specimen(start, data)
    specimens = (first, *(first.at(weights) for weights in np.asarray(path)))
    layers = tuple(collapse(specimen, fresh=fresh.x) for specimen in specimens)
    site = specimens[-1].look(np.zeros_like(specimens[-1].outputs()))[-1]
    rows = classifier(specimens[-1], site)
    assert rows is not None
    means = class_means(as_rows(site.entering), data.y, setting.classes)
    return Run(specimens, fresh, layers, rows - rows.mean(axis=0), means - means.mean(axis=0))


@dataclass(frozen=True)
class Variability(LateTraining):
    """NC1 at the start and at the end."""

    def theory(self) -> Prediction:
        return {"factor": np.array(6.0), "last": np.array(0.03)}

    def measure(self, key) -> Measurement:
        found = trained(as_plain(self)).last("variability")
        return {"path": exact(found), "inverse drop": exact(found[-1] / found[0]), "last": exact(found[-1])}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        bound = 1 / predicted["factor"]
        return [
            upper_bound("NC1 at the end over NC1 at the start", bound, measured["inverse drop"]),
            upper_bound("NC1 at the end", predicted["last"], measured["last"]),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        return over_training(self, "Features collapse to their class means", {"NC1": "variability"})


@dataclass(frozen=True)
class SimplexFrame(LateTraining):
    """Norms and angles of the centred class means at the end."""

    def theory(self) -> Prediction:
        off = np.full((self.classes, self.classes), -1 / (self.classes - 1))
        np.fill_diagonal(off, 1.0)
        return {"cosines": off, "norms": np.ones(self.classes)}

    def measure(self, key) -> Measurement:
        run = trained(as_plain(self))
        norms = np.linalg.norm(run.centred_means, axis=1)
        return {
            "cosines": exact(run.centred_means @ run.centred_means.T / np.outer(norms, norms)),
            "norms": exact(norms / norms.mean()),
            "spread of cosines": exact(run.last("equiangle")[[0, -1]]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        spread = measured["spread of cosines"].value
        return [
            absolute_error(
                "cosines between centred class means", predicted["cosines"], measured["cosines"], 0.1
            ),
            absolute_error("norms of centred class means", predicted["norms"], measured["norms"], 0.1),
            upper_bound("standard deviation of the cosines against the start", spread[0] / 3, spread[1]),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        names = {"norms, CV": "equinorm", "cosines, s.d.": "equiangle", "distance to frame": "frame_distance"}
        return over_training(self, "Class means become a simplex frame", names)


@dataclass(frozen=True)
class NearestMean(LateTraining):
    """Where the network and the nearest class mean disagree, on trained and on fresh points."""

    def theory(self) -> Prediction:
        return {"train": np.array(0.0), "fresh": np.array(0.0), "inputs": np.array(0.25)}

    def measure(self, key) -> Measurement:
        run = trained(as_plain(self))
        return {
            "train": exact(run.last("mismatch")[-1]),
            "fresh": exact(run.last("fresh_mismatch")[-1]),
            "inputs": exact(run.layers[-1][0].fresh_mismatch),
            "at the start": exact(run.last("mismatch")[0]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("mismatch on trained points", predicted["train"], measured["train"], 1e-12),
            absolute_error("mismatch on fresh points", predicted["fresh"], measured["fresh"], 0.05),
            upper_bound("match of the inputs", 1 - predicted["inputs"], 1 - measured["inputs"].value),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        names = {"trained points": "mismatch", "fresh points": "fresh_mismatch"}
        return over_training(self, "The nearest class mean takes over", names, scale="linear")


@dataclass(frozen=True)
class SelfDuality(LateTraining):
    """Rows of the classifier, and the centred means that they are proportional to."""

    def theory(self) -> Prediction:
        run = trained(as_plain(self))
        scale = np.linalg.norm(run.rows) / np.linalg.norm(run.centred_means)
        return {"rows": scale * run.centred_means / np.linalg.norm(run.rows)}

    def measure(self, key) -> Measurement:
        run = trained(as_plain(self))
        return {
            "rows": exact(run.rows / np.linalg.norm(run.rows)),
            "distance": exact(run.last("self_duality")[[0, -1]]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        apart = np.linalg.norm(measured["rows"].value - predicted["rows"])
        first = measured["distance"].value[0]
        return [
            absolute_error("distance of the rows from scaled means", 0.0, float(apart), 0.1),
            upper_bound("that distance against the start", first / 5, float(apart)),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        names = {"distance": "self_duality"}
        return over_training(self, "The classifier's rows align with the class means", names)


def as_plain(setting: LateTraining) -> LateTraining:
    """The problem without what is asked about it, so that all claims share one network."""
    return LateTraining(**dataclasses.asdict(setting))


def over_training(setting: LateTraining, title: str, names: dict[str, str], scale: str = "log") -> Figure:
    """Numbers of the last layer over training, and of all layers at the end."""
    run = trained(as_plain(setting))
    layers = {name: [getattr(found, name) for found in run.layers[-1]] for name in names.values()}
    by_layer = not np.isnan(list(layers.values())).any()
    picture, panels = style.panels(title, 1 + by_layer)
    for (label, name), color in zip(names.items(), style.PALETTE, strict=False):
        panels[0].plot(setting.steps, run.last(name), "o-", ms=4, color=color, label=label)
        if by_layer:
            panels[1].plot(layers[name], "o-", ms=4, color=color, label=label)
    panels[0].set(xlabel="step", title="Last features, over training")
    if by_layer:
        panels[1].set(xlabel="hidden layers below", title="All layers, at the end")
        style.whole_ticks(panels[1].xaxis)
    for axes in panels:
        axes.set_yscale(scale)
        if scale == "log":
            style.plain_ticks(axes.yaxis)
        axes.legend()
    return picture


def _orthogonal(setting: SimplexFrame, value: np.ndarray) -> np.ndarray:
    """Centred means at right angles."""
    return np.eye(setting.classes)


def _as_at_the_start(setting: NearestMean, value: np.ndarray) -> np.ndarray:
    """The mismatch of the random network: one that guesses among the classes."""
    return np.array(1 - 1 / setting.classes)


def _equal(setting: SelfDuality, value: np.ndarray) -> np.ndarray:
    """Rows that equal the centred means, without a scale."""
    run = trained(as_plain(setting))
    return run.centred_means / np.linalg.norm(run.rows)


_SOURCE = orf_543("10/5")
_DATA = """A ReLU network is trained with weight decay far past zero error on clusters whose centres are
equally far from each other."""

CLAIMS = (
    Claim(
        id="nc1-variability-collapse",
        title="variability within classes vanishes",
        statement=f"""{_DATA} Then the variability of its last features within classes, against that between
        them, NC1 = tr(Sigma_W Sigma_B^+)/C, falls to less than a sixth of its value at the start and below
        0.03. It does not vanish: weight decay leaves a small network with an NC1 of about 0.015.""",
        source=_SOURCE,
        quick=Variability(),
        full=Variability(hidden=(64, 64, 64), per_class=50, records=20, every=500),
        bounds={"factor": "below", "last": "above"},
        wrong={"last": lambda setting, value: np.array(1e-4), "factor": lambda setting, value: np.array(1e3)},
    ),
    Claim(
        id="nc2-simplex-frame",
        title="centred class means form a simplex",
        statement=f"""{_DATA} Then the class means of the last features, minus their mean, have equal norms
        and cosines -1/(C-1); they are not at right angles. Their mean cosine says nothing, since centred
        means sum to zero: what falls is the spread of the cosines and of the norms. The centres of the
        clusters form such a frame, which the random network does not keep; where they are not equally far
        apart some networks stop at other arrangements.""",
        source=f"{_SOURCE} (where the means are said to be mutually orthogonal)",
        quick=SimplexFrame(),
        full=SimplexFrame(hidden=(64, 64, 64), per_class=50, records=20, every=500),
        wrong={"cosines": _orthogonal, "norms": shifted(0.3)},
    ),
    Claim(
        id="nc3-nearest-class-mean",
        title="the network becomes a nearest-class-mean classifier",
        statement=f"""{_DATA} Each class has two of them, opposite to each other, so that the mean of its
        inputs tells nothing. Then the class that the network predicts is the one whose mean feature is
        nearest: on all trained points, and on fresh points of the same clusters but for one in twenty. The
        nearest mean of the inputs is another class for at least a quarter of the fresh points.""",
        source=f"{_SOURCE} (where it is called nearest neighbour)",
        quick=NearestMean(opposite=True),
        full=NearestMean(hidden=(64, 64, 64), per_class=50, records=20, every=500, opposite=True),
        bounds={"inputs": "below"},
        wrong={"train": _as_at_the_start, "fresh": _as_at_the_start, "inputs": scaled(5.0)},
    ),
    Claim(
        id="nc4-self-duality",
        title="rows of the classifier are proportional to class means",
        statement=f"""{_DATA} Then the centred rows of its last matrix are proportional to the centred class
        means of its last features, with one scale for all classes: at Frobenius norm one they are less than
        0.1 apart. The scale is not one.""",
        source=f"{_SOURCE} (where the scale is left out)",
        quick=SelfDuality(),
        full=SelfDuality(hidden=(64, 64, 64), per_class=50, records=20, every=500),
        wrong={"rows": _equal},
    ),
)
