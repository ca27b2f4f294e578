"""Influence against derivatives of real training, and what is refused."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.measure.loss.influence import influence
from finitewidth.measure.loss.leave_one_out import fit_to_the_end, leave_one_out
from finitewidth.measure.specimen import specimen

RNG = np.random.default_rng(4)
X, X_TEST = RNG.normal(size=(20, 2)), RNG.normal(size=(5, 2))
Y, Y_TEST = (np.where(x[:, 0] > 0.3 * x[:, 1], 1, 0) for x in (X, X_TEST))
START = {"w": 0.1 * RNG.normal(size=(2, 3)), "v": 0.1 * RNG.normal(size=(3, 2))}


def neurons(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


@pytest.fixture(scope="module")
def trained():
    return fit_to_the_end(neurons, START, X, Y, ridge=0.05)


def test_influence_is_the_derivative_by_the_weight_of_a_point(trained):
    """One copy out of thirty is left out: thirty times the change is nearly the derivative."""
    copies = 30
    found = influence(specimen(neurons, X, Y, params=trained), X_TEST, Y_TEST, ridge=0.05)
    assert found.gradient < 1e-8
    many = np.repeat(X, copies, axis=0), np.repeat(Y, copies)
    left = leave_one_out(
        neurons, trained, *many, X_TEST, Y_TEST, ridge=0.05, points=[0, 7 * copies], tolerance=1e-13
    )
    np.testing.assert_allclose(copies * left.changes, found.changes[[0, 7]], rtol=0.05)
    less = leave_one_out(
        neurons, trained, X, Y, X_TEST, Y_TEST, ridge=0.05, points=[0, 7], share=1 / copies, tolerance=1e-13
    )
    np.testing.assert_allclose(less.changes, left.changes, rtol=1e-8)


def test_one_newton_step_knows_more_than_influence(trained):
    found = influence(specimen(neurons, X, Y, params=trained), X_TEST, Y_TEST, ridge=0.05)
    once, whole = (
        leave_one_out(neurons, trained, X, Y, X_TEST, Y_TEST, ridge=0.05, most_steps=steps)
        for steps in (1, 100)
    )
    assert whole.gradients.max() <= 1e-10
    error = lambda changes: np.linalg.norm(changes - whole.changes) / np.linalg.norm(whole.changes)
    assert error(once.changes) < 0.5 * error(found.changes)


def test_many_parameters_are_solved_by_products(trained, monkeypatch):
    s = specimen(neurons, X, Y, params=trained)
    dense = influence(s, X_TEST, Y_TEST, ridge=0.05).changes
    monkeypatch.setattr(importlib.import_module("finitewidth.measure.loss.influence"), "_DENSE", 2)
    np.testing.assert_allclose(influence(s, X_TEST, Y_TEST, ridge=0.05).changes, dense, rtol=1e-5)


def test_what_cannot_be_inverted_or_retrained_is_refused(trained):
    line = specimen(lambda w, x: x[:, :1] * w[0], X, X[:, :1], params=np.ones(2))
    with pytest.raises(ValueError, match="it cannot be inverted; pass a damping above"):
        influence(line, X_TEST, X_TEST[:, :1])
    assert np.isfinite(influence(line, X_TEST, X_TEST[:, :1], damping=0.1).changes).all()
    with pytest.raises(ValueError, match="damping must be zero or a positive number, got -1"):
        influence(line, X_TEST, X_TEST[:, :1], damping=-1)
    with pytest.raises(ValueError, match="share must be above 0 and at most 1, got 0"):
        leave_one_out(neurons, trained, X, Y, X_TEST, Y_TEST, ridge=0.05, share=0)
    with pytest.raises(ValueError, match="points must lie between 0 and 19"):
        leave_one_out(neurons, trained, X, Y, X_TEST, Y_TEST, ridge=0.05, points=[20])
    with pytest.raises(
        ValueError, match="the model has 2002 parameters; dense Hessians are for 1000 at most"
    ):
        fit_to_the_end(neurons, {"w": np.ones((2, 500)), "v": np.ones((501, 2))}, X, Y, ridge=0.1)
    with pytest.raises(ValueError, match="after 1 Newton steps the gradient is"):
        fit_to_the_end(neurons, START, X, Y, ridge=0.05, most_steps=1)
