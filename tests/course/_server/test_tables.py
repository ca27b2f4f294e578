"""A visitor's own table: the report of `predict`, or one sentence that says what is wrong with it."""

import numpy as np
import pytest

from finitewidth.course._server.state import defaults
from finitewidth.course._server.tables import report
from finitewidth.course._server.worker import Stopped
from finitewidth.course.trained_networks.pages import bands

STATE = defaults(bands.CONTROLS) | {"depth": 2, "width": 16, "steps": 64, "activation": "relu"}


def csv(rows: int, columns: int) -> bytes:
    values = np.random.default_rng(0).normal(size=(rows, columns))
    values[:, -1] = values[:, 0] + 0.1 * values[:, -1]
    lines = [",".join(f"c{i}" for i in range(columns))]
    lines += [",".join(f"{v:.3f}" for v in row) for row in values]
    return "\n".join(lines).encode()


def made(content: bytes, target: str = "", stop=lambda: False) -> dict:
    (piece,) = report(stop, STATE, content, target)
    return piece


def test_a_table_gives_a_report():
    piece = made(csv(60, 3), "c0")
    assert piece["summary"].startswith("c0 from 48 rows, 12 held out: error ")
    assert piece["page"].lower().startswith("<!doctype html>")
    assert "<script" not in piece["page"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the table"),
        (b"\x00\xff\xfe\x01" * 40, "the table"),
        (b"a,b\n", "the table holds no rows of data, only a header."),
        (b"a,b\n1,2\n3,4,5\n", "the table"),
        (csv(2001, 2), "the table has 2,001 rows and 2 columns; the lab takes 2,000 rows and 50 columns."),
        (csv(30, 51), "the table has 30 rows and 51 columns"),
    ],
)
def test_a_broken_table_is_refused_in_a_sentence(content, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")) as error:
        made(content)
    assert "finitewidth-" not in str(error.value)
    assert "/tmp" not in str(error.value)


def test_a_target_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="c9"):
        made(csv(40, 3), "c9")


def test_a_report_stops_between_its_stages():
    with pytest.raises(Stopped):
        made(csv(40, 3), stop=lambda: True)
