"""Recorded default runs of the pages: `python -m finitewidth.course._server.record [SLUG ...]`.

Each page's experiment runs in its default state, and the result goes to static/defaults/SLUG.json.
"""

import argparse
import json
from pathlib import Path

from finitewidth._base.programs import keep_programs
from finitewidth.course._server.page import Page, Picture
from finitewidth.course._server.pages import PAGES
from finitewidth.course._server.state import defaults
from finitewidth.course._server.wire import plain

FOLDER = Path(__file__).parent / "static" / "defaults"


def recorded(page: Page) -> Picture:
    """The last piece of a run with the members of all pieces, and the state it belongs to."""
    assert page.experiment is not None
    state = {name: defaults(page.controls)[name] for name in page.experiment.depends}
    last: Picture = {}
    members = []
    for piece in page.experiment.pieces(state):
        last = plain(piece)
        if "members" in last:
            members.append(last["members"])
    if members:
        last["members"] = {"x": members[0]["x"], "ys": [y for some in members for y in some["ys"]]}
    return {"state": state, **last}


def main() -> None:
    """Record the pages that are named, or all that have an experiment."""
    keep_programs(print)
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("pages", nargs="*", choices=[[], *PAGES], metavar="SLUG")
    FOLDER.mkdir(exist_ok=True)
    for slug in options.parse_args().pages or PAGES:
        if PAGES[slug].experiment is not None:
            text = json.dumps(recorded(PAGES[slug]), separators=(",", ":"), allow_nan=False)
            (FOLDER / f"{slug}.json").write_text(text + "\n", encoding="utf-8")
            print(f"{slug}: {len(text):,} characters")


if __name__ == "__main__":
    main()
