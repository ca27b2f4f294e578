"""Averages over one layer of neurons: the package's law against two-dimensional quadrature."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import oracle
from finitewidth.expectations.laws import Averages, PairLaw
from tolerances import assert_close


class Pairs(NamedTuple):
    """Averages for inputs of variances `q_a` (rows) and (`q_b`, `rho`) (columns).

    `value_scale` and `slope_scale` are the Cauchy-Schwarz bounds against which errors are measured.
    """

    value: np.ndarray
    slope: np.ndarray
    value_scale: np.ndarray
    slope_scale: np.ndarray


def averages(law: PairLaw, q_a, q_b, rho) -> Averages:
    """The law for every row q_a and every column (q_b, rho)."""
    return _averages(law, *(np.asarray(a, dtype=float) for a in (q_a, q_b, rho)))


@eqx.filter_jit
def _averages(law, q_a, q_b, rho) -> Averages:
    """In one program instead of twenty."""
    k = jnp.sqrt(q_a[:, None]) * jnp.sqrt(q_b) * rho
    return law.pair(law.features(q_a), law.features(q_b), k)


def expected(neuron: oracle.Neuron, q_a, q_b, rho) -> Pairs:
    """The same by two-dimensional quadrature, for every row and every column."""
    entries = np.array(
        [[oracle.pair_averages(neuron, a, b, r) for b, r in zip(q_b, rho, strict=True)] for a in q_a]
    )
    rows, columns = ([oracle.layer(neuron, q) for q in qs] for qs in (q_a, q_b))
    value_scale = np.sqrt(np.outer([r.g for r in rows], [c.g for c in columns]))
    slope_scale = np.sqrt(np.outer([r.h for r in rows], [c.h for c in columns]))
    return Pairs(entries[..., 0], entries[..., 1], value_scale, slope_scale)


def assert_averages(found: Averages, truth: Pairs, tolerance: float) -> None:
    """Both averages agree, measured against their Cauchy-Schwarz bounds."""
    assert_close(found.value, truth.value, tolerance, scale=truth.value_scale)
    assert_close(found.slope, truth.slope, tolerance, scale=truth.slope_scale)
