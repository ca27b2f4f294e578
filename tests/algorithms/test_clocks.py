"""Chains against sums over all histories and high precision."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from finitewidth.algorithms.clocks import Flow, Steps
from tolerances import assert_close

EIGENVALUES = np.array([0.2, 0.7, 1.3])
ETAS = (0.4 / 1.3, 1.0 / 1.3, 1.7 / 1.3)


def complete_homogeneous(u, degree):
    """Sum over all monomials of one degree."""
    return sum(
        math.prod(x**j for x, j in zip(u, powers, strict=True))
        for powers in itertools.product(range(degree + 1), repeat=len(u))
        if sum(powers) == degree
    )


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6, 9])
@pytest.mark.parametrize("eta", ETAS)
def test_chain_counts_every_history(eta, steps):
    t = [np.array([v]) for v in EIGENVALUES]
    nodes = [(), (t[0],), (t[1], t[2]), (t[0], t[1], t[2])]
    u = [math.prod(1 - eta * float(v[0]) for v in node) for node in nodes]
    expected = complete_homogeneous(u, steps - 3) if steps >= 3 else 0.0
    assert_close(Steps(eta, steps).chain(nodes), np.array([expected]), scale=max(abs(expected), 1.0))


@pytest.mark.parametrize("steps", [10, 10**4, 10**9])
def test_chain_keeps_its_digits_where_nodes_coincide(steps):
    rates = [0.0, 1e-9, 1e-9, 3e-5, 0.4]
    with mpmath.workdps(60):
        matrix = mpmath.zeros(5)
        for i, r in enumerate(rates):
            matrix[i, i] = 1 - mpmath.mpf(r)
            if i < 4:
                matrix[i, i + 1] = 1
        expected = float((matrix**steps)[0, 4])
    nodes = [(np.array([r]),) for r in rates]
    assert_close(Steps(1.0, steps).chain(nodes), np.array([expected]))


@pytest.mark.parametrize("time", [0.0, 1e-3, 2.0, 1e4])
def test_flow_chain_is_an_entry_of_a_matrix_exponential(time):
    rates = [0.0, 0.3, 0.3, 1.1, 2.0]
    with mpmath.workdps(60):
        matrix = mpmath.zeros(5)
        for i, r in enumerate(rates):
            matrix[i, i] = -mpmath.mpf(r)
            if i < 4:
                matrix[i, i + 1] = 1
        expected = float(mpmath.expm(matrix * time, method="taylor")[0, 4])
    assert_close(Flow(time).chain([(np.array([r]),) for r in rates]), np.array([expected]))
