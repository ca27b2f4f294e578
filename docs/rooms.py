"""Writes the map of the house, docs/architecture.md, from the code: python docs/rooms.py

The order of the rooms is the contract of pyproject.toml; the first sentence of a package says what it is.
"""

import ast
import re
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SOURCE = ROOT / "src" / "finitewidth"
PAGE = DOCS / "architecture.md"

INTRODUCTION = """# The house

Describe a network, its data and how it is trained; choose a method; get the law p(f\\*) of the trained
networks; check it against real ones. The *framework* does this. The *course* holds every lecture as theory,
experiment, claim and page, one folder a topic, and the framework never imports it.

A room imports only from rooms below its own, and rooms in one row import none of each other. Theory
(`statistics`, `large`, `nearly_kernel_methods`, `prediction`) and experiment (`networks`, `measure`) never
import each other, not even through others: they meet in `verification`, and in the claims of the course.
`lint-imports` holds all of this without an exception. Inside a topic pages and claims stand above `theory`
and `networks`, which never import each other.

This page is made from the code by `python docs/rooms.py`; a test compares it.

## Where is what, and where does it go

| looked for, or to be added | place |
|---|---|
| an activation | a row of `BUILT_IN` in `architecture/activations.py` |
| a layer | a file in `architecture/`, its kernels in `statistics/wide/rules/` |
| an optimiser of real networks | `networks/training/optimizers.py` |
| a learning algorithm of the theory | a file in `algorithms/` |
| a loop of training | a recipe of `_base/follow.py` (steps) or `networks/training/descent.py` (gradients) |
| a way to compute p(f\\*), such as the covariance of order 1/width | a folder in `prediction/methods/` |
| a measurement on any network | a file in `measure/layers/` or `measure/loss/` that takes a `Specimen` |
| a fault that `diagnose` finds | a row in `measure/layers/faults.py`, its words in `advice/diagnosis/` |
| eigenvalues, Cholesky, Lanczos | `_base/linalg/`; of kernels beyond memory `large/solvers/` |
| a subject of the lectures, such as the catapult | its folder in `course/`: `large_learning_rates` |
| a claim, a page of the lab | a file among the claims or the pages of its topic |
| a command | a file in `cli/commands/` |

`CONTRIBUTING.md` has the recipes, each of which a test executes.

## The framework, from the top

"""


def sentence(package: Path) -> str:
    """The first sentence of a package, with its raw asterisks escaped."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return first.replace("*", "\\*")


def layers() -> list[list[str]]:
    """Rows of rooms, highest first, from the contract."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [[name.strip().split(".")[-1] for name in row.split("|")] for row in contract["layers"]]


def packages(folder: Path) -> list[Path]:
    """The packages directly inside one, public ones first by name."""
    return sorted(path.parent for path in folder.glob("*/__init__.py"))


def room(name: str) -> str:
    """One room with the packages in it."""
    place = SOURCE / name
    lines = [f"- **`{name}`**: {sentence(place)}"]
    inner = [] if name == "course" else packages(place)
    lines += [f"    - `{path.name}`: {sentence(path)}" for path in inner]
    return "\n".join(lines)


def topics() -> str:
    """A table of the topics in the order of the book, and what each has."""
    text = (SOURCE / "course" / "_lab" / "chapters.py").read_text(encoding="utf-8")
    lines = ["| topic | | has |", "|---|---|---|"]
    for name in re.findall(r'^    "(\w+)": "', text, re.MULTILINE):
        place = SOURCE / "course" / name
        parts = [p.name for p in packages(place)]
        lines.append(f"| `{name}` | {sentence(place)} | {', '.join(parts)} |")
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    rows = "\n\n".join("\n".join(room(name) for name in row) for row in layers() if row != ["course"])
    shared = "\n".join(
        f"- `{path.name}`: {sentence(path)}"
        for path in packages(SOURCE / "course")
        if path.name.startswith("_")
    )
    return f"{INTRODUCTION}{rows}\n\n## The course\n\n{topics()}\n\nWhat the topics share:\n\n{shared}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
