"""Turns the formulas of the web lab's pages into MathML: `python docs/lab_formulas.py` writes
src/finitewidth/serve/static/formulas.json, so that neither the server nor the browser needs LaTeX."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "hooks"))
from mathml import Formula, convert

from finitewidth.course._server.pages import PAGES

FILE = Path(__file__).parents[1] / "src/finitewidth/serve/static/formulas.json"


def converted() -> dict[str, str]:
    """MathML by the name of the page."""
    formulas = {slug: Formula(page.formula.strip(), True) for slug, page in PAGES.items()}
    mathml = convert({formula: slug for slug, formula in formulas.items()})
    return {slug: mathml[formula] for slug, formula in sorted(formulas.items())}


def main() -> None:
    """Write the file, one page a line."""
    FILE.write_text(json.dumps(converted(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
