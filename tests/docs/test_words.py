"""Numbers that the pages state in words and the code in figures."""

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
    assert len(fw.ACTIVATION_NAMES) == 16
    assert "sixteen activations by name" in words(page)
    public = [
        n for n in vars(fw.estimators) if n.endswith(("Regressor", "Classifier")) and not n.startswith("_")
    ]
    assert len(public) == 6
    assert any(text in words(page) for text in ("six scikit-learn estimators", "six for scikit-learn"))


@pytest.mark.parametrize("page", ["docs/index.md", "docs/reference/index.md"])
def test_first_order_is_not_denied(page):
    assert "to first order in 1/width (order 1)" in words(page)
