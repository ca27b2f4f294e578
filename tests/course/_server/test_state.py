"""What a visitor may set: clamped, rounded to the grid, and read the same way in the browser."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from finitewidth.course._server.pages import PAGES
from finitewidth.course._server.state import Choice, Slider, defaults, read_state

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "hooks"))

C_W = Slider("C_W", "", 0.2, 4.0, 0.02, 1.6)
WIDTH = Slider("width", "", 4, 9, 1, 64, log2=True)
RATE = Slider("rate", "", -3, 1, 0.25, 0.1, log10=True)
NAME = Choice("name", "", (("tanh", "tanh"), ("relu", "ReLU")), "tanh")


@pytest.mark.parametrize(
    ("slider", "text", "value"),
    [
        (C_W, "1.61", 1.6),
        (C_W, "-7", 0.2),
        (C_W, "1e300", 4.0),
        (WIDTH, "100", 128),
        (WIDTH, "90", 64),
        (WIDTH, "0", 16),
        (WIDTH, "-3", 16),
        (WIDTH, "1e9", 512),
        (RATE, "0.1", 0.1),
        (RATE, "0.0316228", 0.0316228),
        (RATE, "0", 0.001),
        (RATE, "99", 10.0),
        (Slider("depth", "", 1, 9, 1, 3, whole=True), "2.6", 3),
        (Slider("m", "", 1, 4, 1, 100, whole=True, log10=True), "950", 1000),
    ],
)
def test_a_number_is_moved_to_the_nearest_allowed_one(slider, text, value):
    read = slider.read(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "", "2**8", "__import__('os')", "1e999", "0x10"])
def test_what_is_no_finite_number_is_refused(text):
    with pytest.raises(ValueError, match="C_W must be a finite number"):
        C_W.read(text)


def test_a_choice_takes_only_its_own_values():
    assert NAME.read("relu") == "relu"
    with pytest.raises(ValueError, match="must be one of tanh, relu, got 'leaky_relu:"):
        NAME.read("leaky_relu:0.123")


def test_unknown_names_are_ignored_and_missing_ones_take_their_default():
    state = read_state((C_W, NAME), {"name": "relu", "path": "/etc/passwd"})
    assert state == {"C_W": 1.6, "name": "relu"}


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_defaults_are_allowed_values(page):
    written = {name: str(value) for name, value in defaults(page.controls).items()}
    assert read_state(page.controls, written) == defaults(page.controls)


def test_the_browser_rounds_as_the_server_does():
    from mathml import node

    sliders = [c for page in PAGES.values() for c in page.controls if isinstance(c, Slider)] + [RATE, WIDTH]
    places = [
        [min(c.low + i * c.step, c.high) for i in range(round((c.high - c.low) / c.step) + 1)]
        for c in sliders
    ]
    script = """
    import { value, position } from './values.js';
    const [sliders, places] = JSON.parse(process.argv[1]);
    const values = sliders.map((c, i) => places[i].map(p => value(c, p)));
    const again = sliders.map((c, i) => values[i].map(v => value(c, position(c, v))));
    console.log(JSON.stringify([values, again]));
    """
    import dataclasses

    given = json.dumps([[dataclasses.asdict(c) for c in sliders], places])
    static = Path(sys.modules["finitewidth.course._server.pages"].__file__).parent / "static"
    call = subprocess.run(
        [node(), "--input-type=module", "-e", script, given],
        cwd=static, capture_output=True, text=True, check=True,
    )  # fmt: skip
    values, again = json.loads(call.stdout)
    assert values == again
    for slider, found in zip(sliders, values, strict=True):
        assert [slider.read(str(v)) for v in found] == found, slider.name
        assert len(set(found)) == len(found) or slider.whole, slider.name
