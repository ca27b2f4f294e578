"""The pages that follow the lectures: every claim of a lecture is linked there, and no other."""

import re
from pathlib import Path

import pytest

from finitewidth import course as lab
from finitewidth.course._lab.sources import DAY_2, DAY_3, IEMS_402, ROBERTS

LECTURES = Path(__file__).resolve().parents[2] / "docs" / "lectures"
LINK = re.compile(r"\[([^]]*)\]\(claim:([^)]*)\)")
SOURCES = {"principles": ROBERTS, "day-2": DAY_2, "day-3": DAY_3, "iems-402": IEMS_402, "orf-543": "ORF 543"}


def links(page: str) -> list[tuple[str, str]]:
    return LINK.findall((LECTURES / f"{page}.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["index", *SOURCES])
def test_links_lead_to_claims_of_that_name(page):
    known = {claim.id for claim in lab.claims()}
    assert links(page)
    for words, claim in links(page):
        assert words == claim
        assert claim in known


@pytest.mark.parametrize("page", SOURCES)
def test_every_claim_from_a_lecture_is_on_its_page(page):
    stated = {claim.id for claim in lab.claims() if claim.source.startswith(SOURCES[page])}
    assert stated <= {claim for _, claim in links(page)}
