"""Every tensor of order 1/width, from quadrature and from real networks at two widths."""

from dataclasses import dataclass

import jax
import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Check, Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import z_score
from finitewidth.lab.framework.sources import BEYOND, BOOK
from finitewidth.lab.instruments.kernel_shifts import measured_shifts
from finitewidth.lab.instruments.tensors import (
    DIFFERENTIALS,
    FLUCTUATIONS,
    extrapolated,
    measured_differentials,
    measured_fluctuations,
    shift,
)
from finitewidth.report import style
from finitewidth.statistics.corrections import corrections

_CHAPTER = "Finite width at initialisation"
_X = np.array([[1.0, 0.3], [-0.4, 1.2]])
_SHIFTS = (("K", "G1"), ("H", "H1"))


@dataclass(frozen=True)
class Case:
    """A network at its smaller width, and how many are drawn for fluctuations and for differentials."""

    hidden: tuple[int, ...]
    C_b: tuple[float, ...]
    C_W: tuple[float, ...]
    lambda_b: tuple[float, ...]
    lambda_W: tuple[float, ...]
    draws: tuple[int, int]

    @property
    def depth(self) -> int:
        return len(self.hidden) + 1


@dataclass(frozen=True)
class Tensors:
    """Networks of one activation and several depths.

    `unseen` are tensors that automatic differentiation of a network does not see: R of ELU has a part from
    the delta function in its third derivative.
    """

    activation: str
    cases: tuple[Case, ...]
    smooth: bool = True
    unseen: tuple[str, ...] = ()

    def network(self, case: Case, times: int = 1) -> MLP:
        hidden = tuple(times * n for n in case.hidden)
        return MLP(hidden, self.activation, case.C_b, case.C_W, case.lambda_b, case.lambda_W, n_out=2)


def _names(setting: Tensors, case: Case) -> tuple[str, ...]:
    names = (*FLUCTUATIONS, *(DIFFERENTIALS if case.draws[1] else ()), "G1", "H1")
    return tuple(name for name in names if name not in setting.unseen)


def _coupled(setting: Tensors, case: Case) -> bool:
    """Whether networks and their halves can tell the shifts of the mean kernels."""
    return setting.smooth and case.depth > 2


def _theory(setting: Tensors) -> Prediction:
    prediction = {}
    for case in setting.cases:
        tensors = corrections(setting.network(case), _X)
        for name in _names(setting, case):
            prediction[f"{name} depth {case.depth}"] = np.asarray(getattr(tensors, name))
    return prediction


def _measure(setting: Tensors, key) -> Measurement:
    measurement = {}
    for case, case_key in zip(setting.cases, jax.random.split(key, len(setting.cases)), strict=True):
        nets = [setting.network(case, times) for times in (1, 2)]
        keys = jax.random.split(case_key, 6)
        fluctuation_draws, differential_draws = case.draws
        narrow, wide = (
            measured_fluctuations(net, _X, k, fluctuation_draws)
            for net, k in zip(nets, keys[:2], strict=True)
        )
        found = {name: extrapolated(narrow[name], wide[name]) for name in FLUCTUATIONS}
        for mean, name in _SHIFTS:
            found[name] = shift(narrow[mean], wide[mean], case.hidden[-1])
        if _coupled(setting, case):
            coupled = fluctuation_draws // 4
            narrow, wide = (
                measured_shifts(net, _X, k, coupled) for net, k in zip(nets, keys[4:], strict=True)
            )
            found |= {name: extrapolated(narrow[name], wide[name]) for _, name in _SHIFTS}
        if differential_draws:
            narrow, wide = (
                measured_differentials(net, _X, k, differential_draws)
                for net, k in zip(nets, keys[2:4], strict=True)
            )
            found |= {name: extrapolated(narrow[name], wide[name]) for name in DIFFERENTIALS}
        measurement |= {f"{name} depth {case.depth}": estimate for name, estimate in found.items()}
    return measurement


def _compare(setting: Tensors, predicted: Prediction, measured: Measurement) -> Verdict:
    """Two widths remove the next order, which leaves (depth/width)^2; as means they only find G1 and H1."""
    checks: list[Check] = []
    for case in setting.cases:
        small = case.depth / min(case.hidden)
        for name in _names(setting, case):
            key = f"{name} depth {case.depth}"
            mean_of_two_widths = name in ("G1", "H1") and not _coupled(setting, case)
            left_out = small if mean_of_two_widths else small**2
            allowed = left_out * np.abs(predicted[key]).max()
            checks.append(z_score(key, predicted[key], measured[key], allowed))
    return Verdict(tuple(checks))


def _figure(setting: Tensors, predicted: Prediction, measured: Measurement) -> Figure:
    case = setting.cases[-1]
    used = _names(setting, case)
    groups = [[n for n in names if n in used] for names in (FLUCTUATIONS, DIFFERENTIALS)]
    groups = [names for names in groups if names]
    figure, axes = style.panels(
        f"Coefficients of 1/width: {setting.activation}, depth {case.depth}, two inputs", len(groups)
    )
    for ax, names in zip(axes, groups, strict=True):
        for name, color in zip(names, style.PALETTE, strict=False):
            theory = predicted[f"{name} depth {case.depth}"]
            value, sem = measured[f"{name} depth {case.depth}"]
            scale = np.abs(theory).max()
            order = np.argsort(theory.ravel())
            style.measured_points(
                ax,
                (theory.ravel() / scale)[order],
                (value.ravel() / scale)[order],
                (sem.ravel() / scale)[order],
                color,
                name,
            )
        ax.axline((0, 0), slope=1, color=style.GREY, lw=1.2, zorder=0)
        ax.set(xlabel="predicted entry / largest entry", ylabel="measured entry / largest predicted")
        ax.legend(frameon=False, ncols=2)
    return figure


def _equal(hidden: tuple[int, ...], draws: tuple[int, int]) -> Case:
    depth = len(hidden) + 1
    return Case(hidden, *((value,) * depth for value in (0.1, 1.3, 0.3, 0.7)), draws=draws)


def _unequal(hidden: tuple[int, ...], draws: tuple[int, int]) -> Case:
    depth = len(hidden) + 1
    return Case(
        hidden,
        C_b=(0.3, 0.05, 0.15, 0.1)[:depth],
        C_W=(0.8, 2.0, 1.2, 1.7)[:depth],
        lambda_b=(0.5, 0.03, 0.2, 0.1)[:depth],
        lambda_W=(0.4, 1.8, 0.9, 0.5)[:depth],
        draws=draws,
    )


def _claim(
    activation: str, title: str, statement: str, quick: tuple[Case, ...], full: tuple[Case, ...], **options
) -> Claim:
    return Claim(
        id=f"finite-width-tensors-{activation}",
        title=title,
        chapter=_CHAPTER,
        statement=statement,
        source=(
            f"{BEYOND}: {BOOK}, chapters 4, 8 and 11; the "
            "recursions for several inputs and unequal layers are derived in this book"
        ),
        quick=Tensors(activation, quick, **options),
        full=Tensors(activation, full, **options),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    )


CLAIMS = (
    _claim(
        "tanh",
        "tanh: thirteen tensors of order 1/n",
        "G1, V, H1, D, F, A, B (fluctuations) and P, Q, R, S, T, U (mean differentials of the NTK) of tanh "
        "networks follow layer recursions whose averages are over a single neuron; real networks at widths n "
        "and 2n, extrapolated, agree entry by entry, depth 2 to 4.",
        (_equal((12,), (2000, 1000)),),
        (
            _equal((24,), (20_000, 10_000)),
            _equal((20, 30), (12_000, 8000)),
            _equal((20, 30, 20), (8000, 6000)),
        ),
    ),
    _claim(
        "gelu",
        "GELU with unequal layers: the same tensors",
        "The recursions hold for an activation without parity and for layers of different width, C_b, C_W, "
        "lambda_b and lambda_W: each step takes the values of its own layer.",
        (_unequal((12,), (2000, 1000)),),
        (
            _unequal((24,), (20_000, 10_000)),
            _unequal((30, 20), (12_000, 8000)),
            _unequal((24, 30, 24), (8000, 6000)),
        ),
    ),
    _claim(
        "relu",
        "ReLU: the fluctuations exist in spite of the kink",
        "With the derivatives of the activation moved to the Gaussian density, G1, V, H1, D, F, A and B of "
        "ReLU networks are finite at all inputs, equal ones included; the differentials P to U are not "
        "defined.",
        (_unequal((12, 16), (6000, 0)),),
        (_unequal((20, 30), (20_000, 0)), _unequal((24, 30, 24), (10_000, 0))),
        smooth=False,
    ),
    _claim(
        "elu",
        "ELU: a jump of the curvature leaves all tensors finite",
        "The slope of ELU is continuous and its curvature jumps at zero. All thirteen tensors exist at any "
        "inputs; in R a delta function counts, which automatic differentiation of a network does not see, so "
        "R is left out here.",
        (_unequal((12,), (2000, 1000)),),
        (_unequal((24,), (20_000, 10_000)), _unequal((30, 20), (12_000, 8000))),
        smooth=False,
        unseen=("R",),
    ),
    _claim(
        "selu",
        "SELU: a kink between curved sides leaves the fluctuations",
        "The slope of SELU jumps at zero and its left side is curved. G1, V, H1, D, F, A and B exist at any "
        "inputs; the differentials P to U are not defined.",
        (_equal((12, 16), (4000, 0)),),
        (_equal((20, 30), (20_000, 0)), _equal((24, 30, 24), (10_000, 0))),
        smooth=False,
    ),
)
