"""Every code block of the README and of the book runs, and prints what the page says."""

import doctest
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from book import load

ROOT = Path(__file__).resolve().parents[2]
_RUNNER = Path(__file__).with_name("page.py")

_spec = importlib.util.spec_from_file_location("page", _RUNNER)
page_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_module)

README = ROOT / "README.md"
PAGES = [
    path
    for path in [README, *sorted((ROOT / "docs").rglob("*.md"))]
    if "ledger" not in path.relative_to(ROOT).parts
]


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
notebooks = load(ROOT / "docs" / "hooks" / "notebooks.py")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if page != README], ids=name_of)
def test_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch, unchecked_annotations):
    blocks = page_module.blocks(page.read_text(encoding="utf-8"))
    if not blocks:
        assert "```python" not in page.read_text(encoding="utf-8")
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    _compare(page, blocks, page_module.run(page))


@pytest.mark.parametrize("script", TUTORIALS, ids=name_of)
def test_tutorials_run_and_print_and_draw_what_they_say(script, tmp_path, monkeypatch, unchecked_annotations):
    """On the page, in the notebook, and in the folder of pictures."""
    page = tmp_path / f"{script.stem}.md"
    page.write_text(notebooks.page(script), encoding="utf-8")
    blocks = page_module.blocks(page.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    _compare(script, blocks, page_module.run(page))
    found = nbformat.reads(notebooks.notebook(script), as_version=4)
    code = [cell for cell in found.cells if cell.cell_type == "code"]
    assert [cell.source + "\n" for cell in code] == [block.code for block in blocks]
    printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in code]
    assert printed == [block.output or "" for block in blocks]
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == set(re.findall(r"images/(tutorial-[a-z-]+\.png)", page.read_text(encoding="utf-8")))
    assert sum("image/png" in output.get("data", {}) for cell in code for output in cell.outputs) == 1
    assert "http" not in notebooks.notebook(script)


def test_every_tutorial_is_in_the_book():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(TUTORIALS) >= 4
    assert [script.stem for script in TUTORIALS if f"tutorials/{script.stem}.md" not in nav] == []


def test_the_readme_runs_in_a_process_of_its_own(tmp_path):
    """Nothing that the tests set up, such as checked annotations, may be what makes the page work."""
    damaged = "ignore:Error reading persistent compilation cache entry"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-W", damaged, str(_RUNNER), str(README)],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        timeout=900,
    )  # fmt: skip
    assert run.returncode == 0, f"README.md:\n{run.stderr[-3000:]}"
    _compare(README, page_module.blocks(README.read_text(encoding="utf-8")), json.loads(run.stdout))


def _compare(page: Path, blocks: list, printed: list[str]) -> None:
    for block, got in zip(blocks, printed, strict=True):
        if block.output is None:
            continue
        want, got = _tidy(block.output), _tidy(got)
        same = doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)
        assert same, f"{name_of(page)}:{block.line}\nthe page says\n{want}\nthe code printed\n{got}"


def _tidy(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.rstrip().splitlines())


def test_fences_are_of_known_kinds():
    """A block in an unknown language would silently not be run."""
    unknown = {}
    for page in PAGES:
        fences = [line.strip() for line in page.read_text(encoding="utf-8").splitlines()]
        kinds = {line.removeprefix("```") for line in fences if line.startswith("```")}
        unknown[name_of(page)] = kinds - {"", "python", "sh", "text"}
    assert {page: kinds for page, kinds in unknown.items() if kinds} == {}


def test_every_public_name_is_in_the_reference():
    import finitewidth

    text = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))
    missing = [name for name in finitewidth.__all__ if f".{name}\n" not in text and f"`{name}`" not in text]
    assert not missing


class TestRunner:
    """The runner itself: what it finds, and what it refuses."""

    def test_finds_code_and_the_output_that_follows(self):
        text = "a\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```sh\nmake test\n```\n"
        first, second = page_module.blocks(text)
        assert (first.line, first.code, first.output) == (3, "print(1)\n", "1\n")
        assert (second.kind, second.output) == ("sh", None)

    def test_output_belongs_only_to_the_block_right_above(self):
        text = "```python\nprint(1)\n```\n\nwords\n\n```text\n1\n```\n"
        assert page_module.blocks(text)[0].output is None

    def test_indented_blocks_lose_their_indent(self):
        text = '=== "tab"\n\n    ```python\n    if True:\n        print(1)\n    ```\n'
        assert page_module.blocks(text)[0].code == "if True:\n    print(1)\n"

    @pytest.mark.parametrize("line", ["make nonsense", "pip install '.[nonsense]'", "rm -rf /"])
    def test_refuses_lines_that_name_nothing(self, line):
        with pytest.raises(AssertionError):
            page_module.check_line(line)
