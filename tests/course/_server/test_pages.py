"""Every page of the course: pictures in all corners, honest dependences, code that runs, recorded runs."""

import json
import math
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course._lab.registry import claim
from finitewidth.course._server import record
from finitewidth.course._server.pages import PAGES
from finitewidth.course._server.server import FORMULAS, describe
from finitewidth.course._server.state import Choice, Slider, defaults
from finitewidth.course._server.wire import plain
from finitewidth.course.criticality.pages import phase
from finitewidth.course.the_wide_limit.pages import wide
from finitewidth.course.trained_networks.pages import bands

ROLES = {
    "theory", "lines", "band", "outline", "measured", "members", "data", "points", "bars", "map", "edge",
    "polygons", "rule",
}  # fmt: skip
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))


def states(page) -> list[dict]:
    """The default, each slider at each end, all of them at one end, and other choices than the default."""
    first, sliders = defaults(page.controls), [c for c in page.controls if isinstance(c, Slider)]
    found = [first]
    found += [first | {c.name: end} for c in sliders for end in c.ends()]
    found += [first | {c.name: c.ends()[i] for c in sliders} for i in (0, 1)]
    for c in page.controls:
        if isinstance(c, Choice):
            # Every activation compiles programs of its own: one with a kink stands for the others.
            options = ("relu",) if c.name == "activation" else c.ends()
            found += [first | {c.name: option} for option in options if option in c.ends()]
    return found


def numbers_in(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers_in(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers_in(v)]
    return [value] if value is None or isinstance(value, int | float) else []


def check_layers(layers, where) -> None:
    for layer in layers:
        assert layer["role"] in ROLES, where
        found = numbers_in({k: v for k, v in layer.items() if k not in ("tone", "role", "name")})
        assert found, where
        assert sum(n is not None for n in found) > len(found) / 4, (where, layer["role"])


@every_page
def test_every_corner_gives_a_picture(page):
    for state in states(page):
        for figure in page.figures:
            used = {name: state[name] for name in figure.depends}
            picture = plain(figure.picture(used))
            where = (figure.name, state)
            json.dumps(picture, allow_nan=False)
            check_layers(picture["layers"], where)
            assert picture["alt"].endswith("."), where
            assert "nan" not in picture["alt"], where
            for axis in ("x", "y"):
                assert picture[axis]["label"], where
                low, high = picture[axis].get("range", (0, 1))
                assert math.isfinite(low), where
                assert low < high, where
                assert low > 0 or not (picture[axis].get("log") and "range" in picture[axis]), where
            for row in picture.get("numbers", []):
                assert len(row) == 3, where
                assert "nan" not in row[1].lower(), (where, row)


@every_page
def test_a_page_describes_itself_completely(page):
    controls, figures = {c.name for c in page.controls}, {f.name for f in page.figures}
    assert len(controls) == len(page.controls)
    assert sum(not getattr(c, "hidden", False) for c in page.controls) <= 7
    assert all(set(f.depends) <= controls for f in page.figures)
    assert page.idea.endswith(".")
    if page.experiment:
        assert set(page.experiment.depends) <= controls
        assert page.experiment.figure in figures
    described = describe(page)
    json.dumps(described, allow_nan=False)
    assert [c["title"] for c in described["claims"]] == [claim(id).title for id in page.claims]
    assert described["formula"].startswith("<math")


@every_page
def test_the_copied_code_runs(page, capsys):
    exec(compile(page.code(defaults(page.controls)), page.slug, "exec"), {"__name__": page.slug})
    said = capsys.readouterr().out
    assert said.strip()
    assert "nan" not in said


@pytest.mark.parametrize("page", [p for p in PAGES.values() if p.experiment], ids=lambda p: p.slug)
def test_the_default_run_is_shipped(page):
    kept = json.loads((record.FOLDER / f"{page.slug}.json").read_text())
    assert kept["state"] == {name: defaults(page.controls)[name] for name in page.experiment.depends}
    assert kept["done"] == kept["of"]
    check_layers(kept.get("layers", []), page.slug)
    for name, layers in kept.get("figures", {}).items():
        assert name in {f.name for f in page.figures}
        check_layers(layers, page.slug)


def test_formulas_are_up_to_date():
    sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
    from lab_formulas import converted

    assert converted() == FORMULAS, "run `python docs/lab_formulas.py`"


def test_the_course_is_in_order():
    assert [page.order for page in PAGES.values()] == list(range(1, len(PAGES) + 1))
    assert next(iter(PAGES)) == "phase"


def test_what_is_not_finite_becomes_a_gap():
    values = np.array([1.234567, np.nan, -np.inf, 1e-200, 0.0, 5e-324])
    assert plain({"y": values, "n": float("inf"), "k": np.int64(3), "j": jax.numpy.ones(1)}) == {
        "y": [1.2346, None, None, 1e-200, 0.0, 0.0],
        "n": None,
        "k": 3,
        "j": [1.0],
    }


# ---- theory equals the public functions -------------------------------------------------------------


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_phase_follows_the_kernel_recursion(activation):
    K, c = phase.theory(activation, 1.9, 0.12)
    net = fw.MLP((8,) * 7, activation, C_b=0.12, C_W=1.9)
    np.testing.assert_allclose(K[:8], fw.trajectory(net, phase.inputs(2)).nngp[:, :3], rtol=1e-6)
    nngp = np.asarray(fw.kernels(net, phase.inputs(2)).nngp)
    own = np.sqrt(np.diag(nngp))
    np.testing.assert_allclose(c[7], nngp[3, 4:] / own[3] / own[4:], atol=1e-6)
    np.testing.assert_allclose(K[0], 0.12 + 1.9 * phase.STARTS, rtol=1e-12)


def test_phase_measures_what_it_computes():
    """Four networks of width 200 in the first layers: within five standard errors of infinite width."""
    state = defaults(phase.CONTROLS)
    theory = phase.theory("tanh", state["C_W"], state["C_b"])
    for infinite, real in zip(theory, phase.drawn("tanh", state["C_W"], state["C_b"]), strict=True):
        error = real[:, :6].std(0, ddof=1) / np.sqrt(len(real)) + 0.01
        assert np.all(np.abs(real[:, :6].mean(0) - infinite[:6]) < 5 * error)


def test_phase_gives_the_memory_of_the_library():
    lengths = fw.correlation_lengths("tanh", C_b=0.05, C_W=1.6)
    assert 1 / abs(math.log(phase.growth("tanh", 1.6, 0.05))) == pytest.approx(lengths.perpendicular)


@pytest.mark.parametrize(("activation", "depth", "steps"), [("erf", 4, 512), ("tanh", 3, 16)])
def test_bands_are_the_law_that_predict_gives(activation, depth, steps):
    state = defaults(bands.CONTROLS) | {"activation": activation, "depth": depth, "steps": steps}
    mean, std, eta = bands.law(state)
    net = fw.MLP((64,) * (depth - 1), activation, C_b=state["C_b"], C_W=state["C_W"])
    law = fw.predict(
        net, bands.X[:, None], bands.TARGETS["wave"], bands.GRID[:, None], fw.GradientDescent(steps=steps)
    )
    np.testing.assert_allclose(mean, np.ravel(law.mean), atol=2e-3)
    np.testing.assert_allclose(std, np.ravel(law.std), atol=2e-3)
    largest = np.linalg.eigvalsh(fw.kernels(net, bands.X[:, None]).ntk)[-1]
    assert eta == pytest.approx(1 / largest, rel=1e-4)


def test_bands_offers_no_activation_whose_kernels_its_short_series_loses():
    offered = next(c for c in bands.CONTROLS if c.name == "activation").options
    assert {name: bands.kernels(name).error for name, _ in offered if bands.kernels(name).error > 0.01} == {}


def test_wide_has_the_kurtosis_of_the_library_and_of_the_exact_law():
    state = {"activation": "relu", "width": 64, "depth": 4}
    net = fw.MLP((64,) * (wide.DEEPEST - 1), "relu")
    np.testing.assert_allclose(wide.kurtosis(state), fw.depth_growth(net).excess_kurtosis, atol=1e-12)
    # The exact product, expanded: only the first order in 1/n is the same.
    far = wide.exact_kurtosis(state | {"width": 10**7}) * 10**7
    np.testing.assert_allclose(wide.kurtosis(state) * 64, far, rtol=1e-4)
    assert wide.exact_kurtosis(state | {"activation": "tanh"}) is None


def test_wide_networks_have_the_exact_kurtosis():
    """The recorded networks against the product over layers, where the error bars are small."""
    kept = json.loads((record.FOLDER / "wide.json").read_text())
    (layer,) = kept["figures"]["kurtosis"]
    exact = wide.exact_kurtosis(kept["state"])
    for l in range(6):
        assert abs(layer["y"][l] - exact[l]) < 2.5 * layer["err"][l], l
