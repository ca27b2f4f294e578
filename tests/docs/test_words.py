"""Numbers that the pages state in words and the code in figures."""

import re
from pathlib import Path

import pytest

import finitewidth as fw
from finitewidth.prediction.methods.first_order.choice import FEW_POINTS

ROOT = Path(__file__).resolve().parents[2]


def words(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_points_up_to_which_tensors_are_dense():
    assert f"the first for at most {FEW_POINTS} points" in " ".join(fw.predict.__doc__.split())
    assert f"up to {FEW_POINTS} points, training and test together" in words("README.md")
    assert f"up to {FEW_POINTS} points, training and test together" in words(
        "docs/guide/finite-width-training.md"
    )


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "docs/index.md", "docs/guide/lab.md"])
def test_number_of_claims(page):
    assert f"{len(fw.lab.claims())} claims" in words(page)


@pytest.mark.parametrize("page", ["CHANGELOG.md", "docs/index.md"])
def test_numbers_of_activations_and_estimators(page):
    assert len(fw.ACTIVATION_NAMES) == 19
    assert "nineteen activations by name" in words(page)
    public = [name for name in fw.estimators.__all__ if name.endswith(("Regressor", "Classifier"))]
    assert len(public) == 6
    assert any(text in words(page) for text in ("six scikit-learn estimators", "six for scikit-learn"))


@pytest.mark.parametrize("page", ["docs/index.md", "docs/reference/index.md"])
def test_first_order_is_not_denied(page):
    assert "to first order in 1/width (order 1)" in words(page)


# Words that hold a place until somebody writes, halves of a merge, a heading that does not begin its line.
LEFT_BEHIND = re.compile(
    r"\b(?:TODO|FIXME|XXX|TBD|TKTK|PLACEHOLDER)\b|\b[A-Z]+HERE\b|(?i:lorem ipsum)"
    r"|^(?:<{7}|>{7}|={7})(?: |$)|^[^`|#\n]*[^`|#\s]#{2,6} \S",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    "text",
    ["a line\n\nSAVEHERE## On the command line", "see TODO", "<<<<<<< HEAD", "words.## Heading", "TEXTHERE"],
)
def test_a_marker_is_noticed(text):
    assert LEFT_BEHIND.search(text)
    assert not LEFT_BEHIND.search("## Here\n\n`a## b`, here; |---|\n=== equals")


def _prose() -> list[Path]:
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    return [*pages, *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("src/**/*.py"))]


def test_nothing_is_left_of_writing():
    found = {
        f"{path.relative_to(ROOT)}: {marker.group()}"
        for path in _prose()
        for marker in LEFT_BEHIND.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found
