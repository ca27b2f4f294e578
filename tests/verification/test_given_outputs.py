"""Networks of somebody else beside laws with and without a covariance."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.verification import compare_outputs
from tolerances import assert_close

X = np.random.default_rng(3).normal(size=(12, 3))
LAW = fw.predict(fw.MLP((64,), "erf", 0.2, 1.6), X[:4], X[:4, :2], X[4:], fw.GradientDescent(steps=3))
OUTPUTS = np.asarray(LAW.sample(jax.random.key(1), 400))


def large(law, rows):
    """A law of many rows: means everywhere, variances at some."""
    return LargeLaw(law.mean, np.array(rows), np.diag(np.asarray(law.covariance))[rows], None, 0.0)


def test_draws_of_the_law_agree_with_it_and_others_do_not():
    whole = compare_outputs(LAW, OUTPUTS)
    assert (whole.alarms, whole.whitened, whole.directions) == ((), True, 8)
    centre = np.asarray(LAW.mean)
    assert compare_outputs(LAW, centre + 1.1 * (OUTPUTS - centre)).alarms == ("spread",)
    assert compare_outputs(LAW, OUTPUTS + 0.4 * np.asarray(LAW.std)[:, None]).alarms == ("mean",)
    other = dataclasses.replace(LAW, covariance=jnp.diag(jnp.diag(LAW.covariance)))
    assert "shape" in compare_outputs(other, OUTPUTS).alarms
    assert compare_outputs(LAW, OUTPUTS, 0.05).directions < 8


def test_laws_of_variances_alone(unchecked_annotations):
    pointwise = PointwiseLaw(LAW.mean, jnp.diag(LAW.covariance))
    centre, rows = np.asarray(LAW.mean), [1, 5, 6]
    for law, points in ((pointwise, 8), (large(LAW, rows), 3)):
        whole = compare_outputs(law, OUTPUTS)
        assert (whole.alarms, whole.whitened, whole.directions, whole.shape) == ((), False, points, None)
        assert compare_outputs(law, centre + 1.3 * (OUTPUTS - centre)).alarms == ("spread",)
        assert compare_outputs(law, OUTPUTS + 0.4 * np.asarray(LAW.std)[:, None]).alarms == ("mean",)
    # Rows without a variance are not looked at.
    elsewhere = OUTPUTS.copy()
    elsewhere[:, [0, 2, 3, 4, 7]] += 100
    assert_close(
        compare_outputs(large(LAW, rows), elsewhere).mean, compare_outputs(large(LAW, rows), OUTPUTS).mean
    )


def test_outputs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"shape \(400, 7, 2\); this law needs \(networks, 8, 2\)"):
        compare_outputs(LAW, OUTPUTS[:, 1:])
    with pytest.raises(ValueError, match="3 networks or more"):
        compare_outputs(LAW, OUTPUTS[:2])
    with pytest.raises(ValueError, match="NaN or infinite"):
        compare_outputs(LAW, np.where(OUTPUTS > 0, np.nan, OUTPUTS))
    still = fw.predict(LAW.provenance.problem.net, X[:4], X[:4, 0], X[4:], initial=lambda x: x[:, :1])
    with pytest.raises(ValueError, match="no spread anywhere"):
        compare_outputs(still, OUTPUTS[:, :, :1])
