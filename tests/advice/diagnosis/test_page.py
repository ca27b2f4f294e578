"""The page in a real browser: complete, quiet, self-contained, and as wide as the window."""

import pytest
from torch import nn

import finitewidth as fw
from browser import Browser
from finitewidth.advice.diagnosis.page import diagnosis_page
from networks_on_digits import deep, digits


@pytest.fixture(scope="module")
def sick() -> fw.Diagnosis:
    return fw.diagnose(deep(nn.ReLU, 12, 0.7), *digits(), learning_rate=0.1, points=30, steps=3)


@pytest.mark.parametrize("width", [1280, 400])
def test_in_the_browser(sick, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(diagnosis_page(sick), encoding="utf-8")
    with Browser() as browser:
        page = browser.open(path, width)
        assert page.problems == []
        assert page.requests == [path.resolve().as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelectorAll('figure svg').length") == 4
        assert page.evaluate("document.querySelectorAll('.layers tbody tr').length") == 13
        assert page.evaluate("document.querySelectorAll('.complaints .fault').length") == len(sick.faults) > 0


def test_words_of_the_user_are_no_markup(sick):
    text = diagnosis_page(sick._replace(name="<b>net</b> & co"))
    assert "<b>net</b>" not in text
    assert "&lt;b&gt;net&lt;/b&gt; &amp; co" in text
