"""Pages on modes, depth over width, nearly-kernel methods and laziness: theory beside networks."""

import json

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course._server import record
from finitewidth.course._server.state import defaults
from finitewidth.course.finite_width_at_initialisation.pages import finite
from finitewidth.course.lazy_training.pages import lazy
from finitewidth.course.nearly_kernel_methods.pages import nearly_kernel
from finitewidth.course.tangent_kernel.pages import modes
from tolerances import assert_close


def recorded(slug: str, figure: str) -> list[dict]:
    """The measured layers of a figure in the shipped run."""
    kept = json.loads((record.FOLDER / f"{slug}.json").read_text())
    return [layer for layer in kept["figures"][figure] if layer["role"] == "measured"]


# ---- modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.5, 1.9])
def test_what_is_learnt_is_the_mean_of_the_predicted_law(step):
    state = defaults(modes.CONTROLS) | {"activation": "relu", "step": step, "steps": 16, "data": "peak"}
    net = fw.MLP((64,) * 2, "relu", C_b=modes.C_B, C_W=modes.C_W)
    y = modes.TARGETS["peak"]
    largest = np.linalg.eigvalsh(fw.kernels(net, modes.X[:, None]).ntk)[-1]
    descent = fw.GradientDescent(step / float(largest), 16)
    law = fw.predict(net, modes.X[:, None], y, modes.GRID[:, None], descent)
    assert_close(modes.function(state), law.mean[:, 0], 1e-8)


def test_the_first_mode_dies_at_once_stands_still_or_grows():
    at = lambda step: modes.left({"activation": "relu", "step": step}, np.array([1, 2, 3]))[:, 0]
    assert_close(at(1.0), [0.0, 0.0, 0.0])
    assert_close(at(2.0), [-1.0, 1.0, -1.0])
    assert_close(at(2.2), [-1.2, 1.44, -1.728], 1e-12)


def test_recorded_networks_lose_their_modes_as_the_theory_says():
    """Mean of 8 networks of width 256: noise, and a bias of order depth/width of what has been learnt."""
    state = defaults(modes.CONTROLS)
    (function,) = recorded("modes", "function")
    theory = np.interp(function["x"], modes.GRID, modes.function(state))
    allowed = 2 * np.array(function["err"]) + modes.DEPTH / state["width"]
    assert (np.abs(function["y"] - theory) < allowed).all()
    for layer in recorded("modes", "modes"):
        seen = np.array([y is not None for y in layer["y"]])
        times, shares = np.array(layer["x"])[seen], np.array(layer["y"], float)[seen]
        theory = np.abs(modes.left(state, times))[:, layer["tone"]]
        assert (np.abs(shares - theory) < 0.03 + 2 * np.array(layer["err"], float)[seen]).all(), layer["tone"]


def test_a_real_network_starts_with_all_of_its_error():
    state = defaults(modes.CONTROLS) | {"width": 64, "steps": 4}
    eigenvalues, V, _ = modes.spectrum("erf")
    found = next(modes.networks(state, 1 / float(eigenvalues[0]), V))
    assert found is not None
    shares, learnt = found
    assert_close(shares[0], np.ones(len(modes.X)))
    assert shares.shape == (4, len(modes.X))
    assert learnt.shape == modes.GRID.shape
    # A network of width 64: its kernel differs from the limit by about 1/8.
    y = modes.TARGETS["wave"]
    theory = modes.left(state, np.array([4]))[0]
    assert np.linalg.norm((shares[-1] - theory) * (y @ V)) < 0.25 * np.linalg.norm(y)


# ---- depth over width ------------------------------------------------------------------------------


def test_kernels_of_drawn_networks_spread_and_move_by_the_coefficients():
    """One hidden layer of width 32: within 4 standard errors and a second order of 1/32 of the first."""
    width, draws = 32, 4096
    theory = {k: v[0] for k, v in finite.first_order({"activation": "tanh", "width": width}).items()}
    H, moved = map(
        np.asarray, finite.drawn(fw.MLP((width,), "tanh"), jax.random.split(jax.random.key(1), draws))
    )
    theta = finite.coefficients("tanh")["kernel"][0]
    squares = ((H - H.mean()) / theta) ** 2
    for found, expected in ((squares, theory["spread"] ** 2), (moved / theta**2, theory["motion"])):
        assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(draws) + abs(expected) / width
    assert abs(H.mean() / theta - theory["mean"]) < 4 * H.std() / theta / np.sqrt(draws)


def test_recorded_networks_grow_with_depth_over_width():
    state = defaults(finite.CONTROLS)
    theory = finite.first_order(state)
    variance, motion = recorded("finite", "growth")
    at = np.round(np.array(variance["x"]) * state["width"]).astype(int) - 2
    for layer, expected in ((variance, theory["spread"] ** 2), (motion, np.abs(theory["motion"]))):
        second_order = expected[at] * np.array(layer["x"])
        gap = np.abs(np.array(layer["y"]) - expected[at])
        assert (gap < 2 * np.array(layer["err"]) + second_order).all()


def test_twice_the_width_halves_both_effects():
    narrow, wide = (finite.first_order({"activation": "erf", "width": n}) for n in (32, 64))
    assert_close(narrow["spread"] ** 2, 2 * wide["spread"] ** 2)
    assert_close(narrow["motion"], 2 * wide["motion"])
    growth = fw.depth_growth(fw.MLP((32,) * (finite.DEEPEST - 1), "erf"))
    assert_close(narrow["spread"] ** 2, growth.ntk_variance[1:], 1e-6)


# ---- nearly-kernel methods -------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "order"), [("direct", 3), ("descent", 2), ("flow", 2)])
def test_the_series_misses_the_trained_model_by_the_next_order(algorithm, order):
    state = defaults(nearly_kernel.CONTROLS) | {"algorithm": algorithm}
    series = nearly_kernel.series(state)
    missed = [
        np.abs(nearly_kernel.trained(state, e) - np.asarray(series.at(e))[:, 0]).max() for e in (0.01, 0.02)
    ]
    assert 0 < missed[0] < missed[1]
    assert np.log2(missed[1] / missed[0]) == pytest.approx(order, abs=0.3)


def test_the_teacher_is_found_again_at_its_own_epsilon():
    state = defaults(nearly_kernel.CONTROLS)
    truth = nearly_kernel.problem("useful").truth
    assert_close(nearly_kernel.trained(state, nearly_kernel.TEACHER), truth, 1e-6)
    best, opposite = (nearly_kernel.second_order(state | {"psi": psi}) for psi in ("useful", "opposite"))
    assert best is not None
    assert opposite is not None
    assert best.slope < 0
    assert best.epsilon == pytest.approx(nearly_kernel.TEACHER, rel=nearly_kernel.TEACHER)
    assert opposite.slope == pytest.approx(-best.slope)


def test_recorded_losses_are_lowest_at_the_teachers_epsilon():
    (losses,) = recorded("nearly_kernel", "loss")
    assert losses["x"][int(np.argmin(losses["y"]))] == pytest.approx(nearly_kernel.TEACHER)


# ---- laziness --------------------------------------------------------------------------------------


def test_recorded_networks_approach_their_twin_as_one_over_alpha():
    """alpha times each distance, extrapolated to 1/alpha = 0 from two alphas: their squares are left over."""
    state = defaults(lazy.CONTROLS)
    found = lazy.twin(state["width"], state["scaling"])
    gap, motion = recorded("lazy", "orders")
    assert gap["x"][-2:] == [32, 64]
    for layer, expected in ((gap, np.sqrt(np.mean(found.correction**2))), (motion, found.motion)):
        nearer, farther = np.array(layer["y"][-2:]) * np.array([32, 64])
        assert 2 * farther - nearer == pytest.approx(expected, rel=0.02)


def test_the_twin_is_the_linearised_network_trained():
    assert_close(lazy.twin(8, "mean-field").linear, lazy.trained(8, "mean-field", 1.0, order=1)[0], 1e-6)


def test_the_correction_is_the_slope_in_one_over_alpha():
    linear, correction, motion = lazy.twin(32, "ntk")
    function, moved = lazy.trained(32, "ntk", 256.0)
    assert_close(256 * (function - linear), correction, 0.05)
    assert moved * 256 == pytest.approx(motion, rel=0.02)
