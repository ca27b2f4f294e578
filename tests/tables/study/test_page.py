"""The report in a real browser: complete, quiet, self-contained, and as wide as the window."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from browser import Browser
from finitewidth.report.parts import inline_svg
from finitewidth.tables.study.page import SECTIONS, report_page
from finitewidth.tables.study.prediction_figures import loss_figure
from finitewidth.tables.study.preparation import Options, prepare
from finitewidth.tables.study.study import Choices, run_study
from finitewidth.tables.table import Table


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 60))
    columns = {"a": a, "a_rather_long_name_of_a_column_that_might_not_fit": b, "price <net> & tax": a * b}
    return Table("shop", columns | {"kind": np.where(a + 0.2 * b > 0, "cheap", "dear")})


def study(table: Table, target: str, networks: int):
    rest = {
        name: c for name, c in table.columns.items() if name == target or name not in ("kind", table.name)
    }
    data = prepare(table._replace(columns=rest), None, Options(target=target))
    return run_study(data, Choices((16, 16), "tanh", steps=40, networks=networks))


@pytest.fixture(scope="module")
def regression(table):
    return study(table, "price <net> & tax", 6)


@pytest.fixture(scope="module")
def classification(table):
    return study(table, "kind", 0)


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("which", "figures"), [("regression", 5), ("classification", 4)])
def test_in_the_browser(request, browser, tmp_path, which, figures, width):
    path = tmp_path / "report.html"
    path.write_text(report_page(request.getfixturevalue(which)), encoding="utf-8")
    page = browser.open(path, width)
    assert page.problems == []
    assert page.requests == [path.resolve().as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map(s => [s.getBoundingClientRect().width, "
        "s.getBoundingClientRect().height, s.querySelectorAll('path').length])"
    )
    assert len(sizes) == figures
    # Pictures fill a narrow page, and are drawn: marks, ticks and letters are paths.
    for drawn_width, height, paths in sizes:
        assert 0.75 * min(width, 460) < drawn_width <= width
        assert height > 0.5 * drawn_width
        assert paths > 20
    beyond = page.evaluate(
        "[...document.querySelectorAll('main *:not(svg *)')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.tagName)"
    )
    assert beyond == []
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 14


def test_a_broken_page_would_be_noticed(browser, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text(
        "<p style='width: 900px'>wide</p><img src='none.png'><script>console.error('no')</script>"
    )
    page = browser.open(path, 400)
    assert page.evaluate("document.documentElement.scrollWidth") > 400
    assert any("no" in problem for problem in page.problems)
    assert len(page.requests) == 2


class _Outside(HTMLParser):
    """Addresses that a page would load or link to, and identifiers."""

    def __init__(self):
        super().__init__()
        self.addresses, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "action", "data"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)


@pytest.mark.parametrize("which", ["regression", "classification"])
def test_nothing_comes_from_outside_and_no_identifier_is_used_twice(request, which):
    text = report_page(request.getfixturevalue(which))
    found = _Outside()
    found.feed(text)
    assert {a for a in found.addresses if not a.startswith("#")} <= {"data:,"}
    assert len(found.ids) == len(set(found.ids))
    assert {a.removeprefix("#") for a in found.addresses if a.startswith("#")} <= set(found.ids)
    assert not re.search(r"https?://|@import|url\((?!#)", text)


def test_words_of_the_table_are_escaped(regression):
    text = report_page(regression)
    assert "price &lt;net&gt; &amp; tax" in text
    assert "<net>" not in text


def test_words_say_what_was_measured(regression, classification):
    text = report_page(regression)
    check = regression.verification
    assert f"{check.networks} real networks were drawn and trained for 40 steps" in text
    assert f"{regression.scores.rmse:.4g} (root mean square)" in text
    words = report_page(classification)
    assert f"{100 * classification.scores.accuracy:.1f}&nbsp;%" in words
    assert "No networks were trained" in words


def test_a_study_without_answers_has_no_scores(table, tmp_path):
    columns = {name: c for name, c in table.columns.items() if name != "kind"}
    target = "price <net> & tax"
    unknown = Table("new", {name: c[:7] for name, c in columns.items() if name != target})
    data = prepare(Table("shop", columns), unknown, Options(target=target))
    text = report_page(run_study(data, Choices((8,), "relu", ridge=0.1)))
    drawn = [s.id for s in SECTIONS if f'<figure id="{s.id}"' in text]
    assert drawn == ["loss", "spectrum"]
    assert "no known answers" in text
    assert "Training rows, each left out of training, are missed by" in text
    assert 'id="comparison"' not in text


def test_pictures_are_the_same_every_time(regression):
    assert inline_svg(loss_figure(regression), "loss", "x") == inline_svg(
        loss_figure(regression), "loss", "x"
    )
