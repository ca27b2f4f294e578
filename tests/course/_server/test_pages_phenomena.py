"""Pages of what happens in training: their theory against other derivations, their networks against both."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize_scalar

from finitewidth.course._server.state import defaults
from finitewidth.course.implicit_bias.pages import bias
from finitewidth.course.large_learning_rates.pages import catapult, edge
from finitewidth.course.linear_regions.pages import regions
from finitewidth.course.loss_landscape.pages import collapse


def run(module, **moved) -> list[dict]:
    """All pieces of the experiment of a page."""
    experiment = module.PAGE.experiment
    state = {name: value for name, value in state_of(module, **moved).items() if name in experiment.depends}
    return list(experiment.pieces(state))


def state_of(module, **moved) -> dict:
    return defaults(module.CONTROLS) | moved


def layers(picture, role) -> list[dict]:
    return [layer for layer in picture["layers"] if layer["role"] == role]


# ---- catapult ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "width"), [(1.5, 100), (2.8, 10_000), (3.7, 1000)])
def test_the_catapult_is_its_recursion(step, width):
    z, kernel, losses, sharp = 1.0, 1.0, [], []
    for _ in range(21):
        losses.append(z**2 / 2)
        sharp.append(step * kernel)
        z, kernel = (
            z * (1 - step * kernel + step**2 * z**2 / width),
            kernel - step * z**2 / width * (4 - step * kernel),
        )
    state = state_of(catapult, edge=step, width=width)
    np.testing.assert_allclose(layers(catapult.draw_loss(state), "theory")[0]["y"], losses, rtol=1e-9)
    np.testing.assert_allclose(layers(catapult.draw_sharpness(state), "theory")[0]["y"], sharp, rtol=1e-9)


def test_real_networks_follow_the_recursion_with_their_own_start():
    start = catapult.starts(100)
    losses, sharp = catapult.trained(2.8, 100, "frozen", 12)
    for i, (w, v) in enumerate(zip(*start.active, strict=True)):
        z, kernel, eta = v @ w / 10, (v @ v + w @ w) / 100, 2.8 / start.kernels[i]
        for t in range(13):
            np.testing.assert_allclose([losses[t, i], sharp[t, i]], [z**2 / 2, eta * kernel], rtol=1e-8)
            z, kernel = (
                z * (1 - eta * kernel + eta**2 * z**2 / 100),
                kernel - eta * z**2 / 100 * (4 - eta * kernel),
            )


@pytest.mark.parametrize("gates", ["frozen", "real"])
def test_the_points_of_a_wide_catapult_lie_on_the_curve(gates):
    losses, sharp = catapult.law(2.8, 10_000, gates)
    seen_losses, seen_sharp = catapult.trained(2.8, 10_000, gates, 9)
    np.testing.assert_allclose(seen_losses.mean(axis=1)[:7], losses[:7], rtol=0.1)
    np.testing.assert_allclose(seen_sharp.mean(axis=1), sharp[:10], atol=0.06)


def test_the_steps_end_lazily_in_a_catapult_or_nowhere():
    pieces = run(catapult, width=1000)
    end = pieces[-1]["layers"][0]
    found, lazy = dict(zip(end["x"], end["y"], strict=True)), end["x"] < 2
    np.testing.assert_allclose(end["y"][lazy], end["x"][lazy], atol=0.02)
    assert all(found[step] < 2 for step in end["x"] if 2 < step < 4)
    assert all(np.isnan(found[step]) for step in end["x"] if step > 4)
    theory = dict(zip(catapult.EDGES["frozen"], catapult.ends(1000, "frozen"), strict=True))
    for step in (0.5, 1.0, 1.5, 2.5, 2.75):
        assert abs(theory[step] - found[step]) < 0.1, step
    assert pieces[-1]["done"] == pieces[-1]["of"] == len(pieces)


# ---- edge of stability ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def training():
    return run(edge, width=8, eta=0.3)


def test_the_limit_is_where_one_step_stops_to_shrink_an_error():
    for eta in (0.05, 0.3):
        (own, other), curve = edge.limits(eta), layers(edge.draw_factor({"eta": eta}), "theory")[0]
        assert other == edge.SMALLER * own
        np.testing.assert_allclose(np.interp(own, curve["x"], curve["y"]), 1.0, rtol=1e-12)
        assert (curve["y"][(curve["x"] > 0) & (curve["x"] < own - 1e-9)] < 1).all()


def test_training_comes_to_the_limit_by_itself(training):
    own = training[-1]["figures"]["sharpness"][1]
    assert own["y"][0] < 0.5 * 2 / 0.3
    late = own["y"][3 * len(own["y"]) // 4 :]
    np.testing.assert_allclose(late.mean(), 2 / 0.3, rtol=0.05)
    assert float(training[-1]["numbers"][0][1]) == pytest.approx(late.mean() * 0.3 / 2, abs=0.02)
    assert training[-1]["done"] == training[-1]["of"]


def test_a_training_in_pieces_is_one_training(training):
    loss, params = edge.problem(8, "waves")
    own = training[-1]["figures"]["loss"][1]
    step = jax.jit(lambda p: jax.tree.map(lambda w, g: w - 0.3 * g, p, jax.grad(loss)(p)))
    for _ in range(120):
        params = step(params)
    np.testing.assert_allclose(own["x"][12], 0.3 * 120)
    np.testing.assert_allclose(own["y"][12], float(loss(params)), rtol=1e-6)
    top = np.linalg.eigvalsh(_hessian(loss, params))[-1]
    np.testing.assert_allclose(training[-1]["figures"]["sharpness"][1]["y"][12], top, rtol=1e-3)


def _hessian(loss, params) -> np.ndarray:
    flat, unravel = ravel_pytree(params)
    return np.asarray(jax.hessian(lambda w: loss(unravel(w)))(flat))


def test_the_labels_are_those_of_the_copied_code():
    x = jax.random.normal(jax.random.key(2), (edge.POINTS, edge.N_IN))
    for data, (_, source) in edge.TARGETS.items():
        np.testing.assert_array_equal(eval(source, {"jnp": jnp, "x": x}), edge.labels_of(data, x))


# ---- implicit bias ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "fit"), [(0.01, (0.44, 0.74)), (0.1, (0.6, 0.2)), (2.0, (0.3, 0.5))])
def test_the_end_minimises_the_penalty_of_the_formula(alpha, fit):
    """Along the line of perfect fits, by a search in one dimension."""
    state = state_of(bias, alpha=alpha, fit_1=fit[0], fit_2=fit[1])
    short = np.array(fit)
    along = np.array([-short[1], short[0]]) / np.linalg.norm(short)

    def penalty(s):
        z = (short + s * along) / alpha**2
        return np.sum(alpha**2 * (2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2)))

    found: Any = minimize_scalar(penalty, bounds=(-1, 1), options={"xatol": 1e-12}, method="bounded")
    best = short + found.x * along
    sparse, shortest, end = (
        np.array([point["x"][0], point["y"][0]]) for point in layers(bias.draw_weights(state), "points")
    )
    np.testing.assert_allclose(end, best, atol=1e-5)
    np.testing.assert_allclose(shortest, short, rtol=1e-12)
    axis = int(np.argmax(short))
    np.testing.assert_allclose(sparse, np.eye(2)[axis] * (short @ short) / short[axis], atol=1e-12)
    network = bias.measured_weights(state)["layers"][1]
    np.testing.assert_allclose([network["x"][0], network["y"][0]], end, atol=1e-5)


def test_networks_end_on_the_curve_of_all_starts():
    last = run(bias)[-1]
    curves = layers(bias.draw_ends(state_of(bias)), "theory")
    for curve, points in zip(curves, last["layers"], strict=True):
        at = np.isin(np.log10(curve["x"]).round(6), np.log10(points["x"]).round(6))
        assert at.sum() == len(points["x"])
        np.testing.assert_allclose(points["y"], curve["y"][at], atol=1e-6)


def test_the_classifier_turns_to_the_largest_margin():
    state = state_of(bias)
    found, points = bias.margin_of(state["point_1"], state["point_2"]), bias.classes(state)
    # The largest margin by trying every pair of points that could hold it.
    best = 0.0
    for i, j in itertools.combinations(range(6), 2):
        signed = bias.SIGNS[[i, j], None] * points[[i, j]]
        w = np.linalg.solve(signed, np.ones(2))
        if (bias.SIGNS * (points @ w)).min() > 1 - 1e-9:
            best = max(best, 1 / np.linalg.norm(w))
    assert found.margin == pytest.approx(best, rel=1e-9)
    curve = layers(bias.draw_angle(state), "theory")[0]
    seen = bias.measured_angle(state)["layers"][0]
    late = seen["x"] >= 20
    theory = np.interp(seen["x"][late], curve["x"], curve["y"])
    np.testing.assert_allclose(seen["y"][late], theory, rtol=0.1)
    # Halved when log t doubles.
    np.testing.assert_allclose(np.interp([15, 30], curve["x"], curve["y"]) @ [1, -2], 0.0, atol=0.1)


def test_one_point_alone_that_holds_the_margin_has_no_law():
    picture = bias.draw_angle(state_of(bias, point_1=0.3, point_2=0.1))
    assert not layers(picture, "theory")
    assert picture["numbers"][0][1] == "open"


# ---- collapse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [3, 4, 6])
def test_corners_are_a_simplex_seen_from_one_side(classes):
    """A simplex in any rotation, put through the view of features, gives the corners."""
    rng = np.random.default_rng(classes)
    rotation = np.linalg.qr(rng.normal(size=(9, classes)))[0]
    frame = 3.7 * (np.eye(classes) - 1 / classes) @ rotation.T + rng.normal(size=9)
    points, means = collapse.view(frame, np.arange(classes), classes)
    np.testing.assert_allclose(points, collapse.corners(classes), atol=1e-12)
    np.testing.assert_allclose(means, points, atol=1e-12)


def test_features_collapse_to_the_corners():
    pieces = run(collapse)
    first, last = ({name[:3]: float(value) for name, value, _ in pieces[i]["numbers"][1:]} for i in (0, -1))
    assert last["NC1"] < first["NC1"] / 5
    assert last["NC2"] < first["NC2"] / 5
    assert last["NC3"] == 0 < first["NC3"]
    assert last["NC4"] < first["NC4"] / 20
    means = pieces[-1]["figures"]["features"][1]
    np.testing.assert_allclose(np.stack([means["x"], means["y"]], 1), collapse.corners(3), atol=0.05)
    cloud = pieces[-1]["figures"]["features"][0]
    x, y = np.stack([cloud["x"], cloud["y"]], 1), cloud["classes"]
    own = np.stack([x[y == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(own, np.stack([means["x"], means["y"]], 1), atol=1e-9)
    assert pieces[-1]["done"] == pieces[-1]["of"]


# ---- linear regions ---------------------------------------------------------------------------------


def test_kinks_of_one_hidden_layer_by_their_law():
    """A neuron has a zero between two points with probability arccos(correlation) / pi."""
    C_b, height = 0.4, 0.5
    start, end = regions.cut(height)
    dot = lambda a, b: C_b + regions.C_W / 2 * (a @ b)
    angle = np.arccos(dot(start, end) / np.sqrt(dot(start, start) * dot(end, end)))
    np.testing.assert_allclose(regions.expected(16, C_b, height)[0], 16 * angle / np.pi, rtol=1e-9)


def test_random_networks_have_as_many_kinks_as_expected():
    last = run(regions)[-1]["layers"][0]
    theory = regions.expected(16, 0.4, 0.5)
    np.testing.assert_array_less(np.abs(last["y"] - theory) / (last["err"] / 2), 4)
    state = state_of(regions)
    np.testing.assert_allclose(layers(regions.draw_depth(state), "theory")[0]["y"], theory)


def test_the_picture_is_the_network():
    state = state_of(regions)
    picture = regions.measured_plane(state)["layers"][0]
    xs, ys, colours = picture["xs"], picture["ys"], picture["classes"]
    found = regions.cells(16, 2, 0.4, state["seed"])
    pairs = found.neighbours().cells
    assert (colours[pairs[:, 0]] != colours[pairs[:, 1]]).all()
    # Corners go around each cell, so that the areas of all cells fill the square.
    x, y = (np.where(np.isnan(a), a[:, :1], a) for a in (xs, ys))
    areas = np.abs(np.sum(x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1), axis=1)) / 2
    np.testing.assert_allclose(areas.sum(), 36, rtol=1e-2)
    line, kinks = regions.measured_cut(state)["layers"]
    inputs = np.stack([line["x"], np.full(len(line["x"]), state["height"])], axis=1)
    h = inputs
    weights = regions.random_weights(16, 2, 0.4, state["seed"])
    for weight, shift in weights[:-1]:
        h = np.maximum(h @ weight.T + shift, 0)
    np.testing.assert_allclose(line["y"], (h @ weights[-1].weight.T + weights[-1].bias)[:, 0], atol=1e-9)
    assert len(kinks["x"]) == len(line["x"]) - 2 == int(regions.measured_cut(state)["numbers"][0][1])


# ---- the copied programs ----------------------------------------------------------------------------


def executed(module, **moved) -> dict:
    """What a copied program has computed."""
    names: dict[str, Any] = {"__name__": "copied"}
    exec(compile(module.code(state_of(module, **moved)), module.PAGE.slug, "exec"), names)
    return names


@pytest.mark.parametrize("gates", ["frozen", "real"])
def test_the_copied_catapult_is_the_one_on_the_page(gates):
    names = executed(catapult, edge=2.5, width=1000, gates=gates, steps=15)
    losses, sharp = catapult.law(2.5, 1000, gates)
    np.testing.assert_allclose(names["losses"], losses[:16], rtol=1e-6)
    np.testing.assert_allclose(names["sharpness"], sharp[:16], rtol=1e-6)
    # One more network of this width: kernels differ by a tenth or so.
    assert max(loss for loss, _ in names["seen"]) == pytest.approx(losses.max(), rel=0.5)
    assert names["seen"][-1][1] == pytest.approx(sharp[15], abs=0.15)


def test_the_copied_network_has_the_regions_on_the_page():
    names, state = executed(regions, seed=9, C_b=0.2), state_of(regions, seed=9, C_b=0.2)
    assert f"{names['found'].number:,}" == regions.measured_plane(state)["numbers"][0][1]
    assert str(len(names["line"].breakpoints)) == regions.measured_cut(state)["numbers"][0][1]
    assert f"{names['mean'].value.sum():.1f}" == regions.draw_cut(state)["numbers"][0][1]


def test_the_copied_classifier_is_the_one_on_the_page():
    names, state = executed(bias, time=10.0), state_of(bias)
    seen = bias.measured_angle(state)["layers"][0]
    assert np.degrees(names["angle"]) == pytest.approx(np.interp(10.0, seen["x"], seen["y"]), abs=0.02)
    assert names["margin"].margin == pytest.approx(bias.margin_of(state["point_1"], state["point_2"]).margin)
