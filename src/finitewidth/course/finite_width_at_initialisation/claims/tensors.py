"""Every tensor of order 1/width, from quadrature and from real networks at two widths."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.finite_width_at_initialisation.networks.kernel_shifts import measured_shifts
from finitewidth.course.finite_width_at_initialisation.networks.tensors import (
    DIFFERENTIALS,
    FLUCTUATIONS,
    extrapolated,
    measured_differentials,
    measured_fluctuations,
)
from finitewidth.statistics.first_order.corrections import dense_corrections

_X = np.array([[1.0, 0.3], [-0.4, 1.2]])
_SHIFTS = ("G1", "H1")
# Shifts of a tenth of the kernels, and less, drown in the noise of a few thousand networks.
_SMALL_SHIFTS = {f"{name} depth 3": 2.0 for name in _SHIFTS}
# What rounding leaves of the shifts of one hidden layer, which cancel draw by draw.
_ROUNDING = 1e-9


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

    def network(self, case: Case, times: int = 1) -> Layer:
        hidden = tuple(times * n for n in case.hidden)
        return MLP(hidden, self.activation, case.C_b, case.C_W, case.lambda_b, case.lambda_W, n_out=2)


def _names(setting: Tensors, case: Case) -> tuple[str, ...]:
    names = (*FLUCTUATIONS, *(DIFFERENTIALS if case.draws[1] else ()), *_SHIFTS)
    return tuple(name for name in names if name not in setting.unseen)


def _theory(setting: Tensors) -> Prediction:
    prediction = {}
    for case in setting.cases:
        tensors = dense_corrections(setting.network(case), _X)
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
        narrow, wide = (
            measured_shifts(net, _X, k, fluctuation_draws // 5, smooth=setting.smooth)
            for net, k in zip(nets, keys[4:], strict=True)
        )
        found |= {name: extrapolated(narrow[name], wide[name]) for name in _SHIFTS}
        if differential_draws:
            narrow, wide = (
                measured_differentials(net, _X, k, differential_draws)
                for net, k in zip(nets, keys[2:4], strict=True)
            )
            found |= {name: extrapolated(narrow[name], wide[name]) for name in DIFFERENTIALS}
        measurement |= {f"{name} depth {case.depth}": estimate for name, estimate in found.items()}
    return measurement


def _compare(setting: Tensors, predicted: Prediction, measured: Measurement) -> Checks:
    """Two widths remove the next order, which leaves (depth/width)^2."""
    for case in setting.cases:
        small = (case.depth / min(case.hidden)) ** 2
        for name in _names(setting, case):
            key = f"{name} depth {case.depth}"
            allowed = small * np.abs(predicted[key]).max()
            yield z_score(key, predicted[key], measured[key], allowed + _ROUNDING)


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
    activation: str,
    quick: tuple[Case, ...],
    full: tuple[Case, ...],
    *,
    smooth: bool = True,
    unseen: tuple[str, ...] = (),
    **about: Any,
) -> Claim:
    """Tensors that are off by half must be rejected."""
    setting, case = Tensors(activation, quick, smooth, unseen), quick[0]
    factors = dict.fromkeys(_names(setting, case)[:-2], 1.5)
    return Claim(
        id=f"finite-width-tensors-{activation}",
        source=(
            f"{BEYOND}: {BOOK}, chapters 4, 8 and 11; the "
            "recursions for several inputs and unequal layers are derived in this book"
        ),
        quick=setting,
        full=Tensors(activation, full, smooth, unseen),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        wrong={f"{name} depth {case.depth}": scaled(factor) for name, factor in factors.items()},
        **about,
    )


CLAIMS = (
    _claim(
        "tanh",
        (_equal((12,), (20_000, 4000)),),
        (
            _equal((24,), (20_000, 10_000)),
            _equal((20, 30), (12_000, 8000)),
            _equal((20, 30, 20), (8000, 6000)),
        ),
        title="tanh: thirteen tensors of order 1/n",
        statement="""G1, V, H1, D, F, A, B (fluctuations) and P, Q, R, S, T, U (mean differentials of the NTK)
        of tanh networks follow layer recursions whose averages are over a single neuron; real networks at
        widths n and 2n, extrapolated, agree entry by entry, depth 2 to 4.""",
    ),
    _claim(
        "gelu",
        (_unequal((12,), (20_000, 4000)),),
        (
            _unequal((24,), (20_000, 10_000)),
            _unequal((30, 20), (12_000, 8000)),
            _unequal((24, 30, 24), (8000, 6000)),
        ),
        title="GELU with unequal layers: the same tensors",
        statement="""The recursions hold for an activation without parity and for layers of different width,
        C_b, C_W, lambda_b and lambda_W: each step takes the values of its own layer.""",
    ),
    _claim(
        "relu",
        (_unequal((12, 16), (30_000, 0)),),
        (_unequal((20, 30), (20_000, 0)), _unequal((24, 30, 24), (10_000, 0))),
        title="ReLU: the fluctuations exist in spite of the kink",
        statement="""With the derivatives of the activation moved to the Gaussian density, G1, V, H1, D, F, A
        and B of ReLU networks are finite at all inputs, equal ones included; the differentials P to U are not
        defined.""",
        notices=_SMALL_SHIFTS,
        smooth=False,
    ),
    _claim(
        "elu",
        (_unequal((12,), (20_000, 4000)),),
        (_unequal((24,), (20_000, 10_000)), _unequal((30, 20), (12_000, 8000))),
        title="ELU: a jump of the curvature leaves all tensors finite",
        statement="""The slope of ELU is continuous and its curvature jumps at zero. All thirteen tensors
        exist at any inputs; in R a delta function counts, which automatic differentiation of a network does
        not see, so R is left out here.""",
        smooth=False,
        unseen=("R",),
    ),
    _claim(
        "selu",
        (_equal((12, 16), (20_000, 0)),),
        (_equal((20, 30), (20_000, 0)), _equal((24, 30, 24), (10_000, 0))),
        title="SELU: a kink between curved sides leaves the fluctuations",
        statement="""The slope of SELU jumps at zero and its left side is curved. G1, V, H1, D, F, A and B
        exist at any inputs; the differentials P to U are not defined.""",
        notices=_SMALL_SHIFTS,
        smooth=False,
    ),
)
