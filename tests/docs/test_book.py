"""The book as readers get it: built by the command of the Makefile, opened from disk in a real browser."""

import html
import importlib
import inspect
import json
import re
import time
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import book
from browser import Browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    book.copy_book(folder)
    run = book.build(folder)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "WARNING" not in run.stderr
    return folder / "site"


@pytest.fixture(scope="session")
def pages(site) -> list[Path]:
    """Every page but the one for missing addresses, which only a server can show."""
    return [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


def small_book(folder: Path, pages: dict[str, str], *copied: str) -> Path:
    """A book of a few pages with everything that the real one is built with."""
    docs = folder / "docs"
    (docs / "ledger").mkdir(parents=True)
    (docs / "ledger" / "chapters.json").write_text("[]")
    for name, text in pages.items():
        (docs / name).write_text(text)
    for name in copied:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        (docs / name).write_text(text.replace("[lectures](lectures/index.md)", "lectures"), encoding="utf-8")
    for name in ("hooks", "assets", "book.css"):
        (docs / name).symlink_to(ROOT / "docs" / name)
    (folder / "src").symlink_to(ROOT / "src")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["nav"] = [*pages, *copied]
    (folder / "mkdocs.yml").write_text(json.dumps(settings))
    return folder


class TestBuild:
    @pytest.mark.parametrize(
        ("target", "status"), [("other.md", 0), ("nowhere.md", 1), ("other.md#nowhere", 1)]
    )
    def test_dead_link_stops_the_build(self, tmp_path, target, status):
        pages = {"index.md": f"# One\n\nSee [the other]({target}).\n", "other.md": "# Other\n"}
        run = book.build(small_book(tmp_path, pages))
        assert run.returncode == status, run.stderr
        assert ("nowhere" in run.stderr) == bool(status)

    @pytest.mark.parametrize(("key", "status"), [("neal-1996", 0), ("nobody-2099", 1)])
    def test_an_unknown_citation_stops_the_build(self, tmp_path, key, status):
        pages = {"index.md": f"# One\n\nSee [@{key}].\n"}
        run = book.build(small_book(tmp_path, pages, "bibliography.md"))
        assert run.returncode == status, run.stderr
        assert (f"no entry '{key}'" in run.stderr) == bool(status)
        if not status:
            site = tmp_path / "site"
            assert f'href="bibliography.html#{key}">Neal 1996</a>' in (site / "index.html").read_text()
            assert 'Cited in</em> <a href="index.html">One</a>' in (site / "bibliography.html").read_text()

    def test_copies_of_others_work_come_with_their_licences(self, site):
        for library in ("stix-two-math", "iframe-worker"):
            assert (site / "assets" / library / "LICENSE").stat().st_size > 500
        assert (ROOT / "docs" / "hooks" / "temml" / "LICENSE").stat().st_size > 500
        assert not (site / "hooks").exists()


SIGNATURES = {
    "prediction": [
        "GradientDescent(eta: AnyNumber | Literal['auto'] = 'auto', steps: AnyNumber = math.inf)",
        "GradientFlow(time: AnyNumber = math.inf)",
        'DirectOptimization(solution: Literal["row-space", "gauss-newton", "minimum-norm"] = "row-space", '
        "step: float | int = 1.0,)",
        'BayesianInference(noise: float | int = 0.0, width: Literal["infinite", "finite"] = "infinite")',
    ],
    "nearly-kernel": [
        "LinearModel(phi: FeatureFunction)",
        'QuadraticModel(phi: FeatureFunction, psi: FeatureFunction, epsilon: Float[Array, ""] = 1.0)',
        "CubicModel(phi: FeatureFunction, psi: FeatureFunction, Psi: FeatureFunction, "
        'epsilon: Float[Array, ""] = 1.0,)',
        "TangentModel(function: Function, params: PyTree, order: int | None = None, rates: PyTree = 1.0, "
        'epsilon: Float[Array, ""] = 1.0,)',
    ],
}


@pytest.mark.parametrize(
    ("page", "signature"), [(page, signature) for page, group in SIGNATURES.items() for signature in group]
)
def test_equinox_modules_have_types_and_defaults(site, page, signature):
    text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
    shown = [
        re.sub(
            r"(?<=\()\s+|\s+(?=\))",
            "",
            re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", "", block)).strip()),
        )
        for block in re.findall(r'<div class="doc-signature.*?</div>', text, re.DOTALL)
    ]
    assert signature in shown


# Parts of the package that nobody is meant to import: the command, the server, the lab's own tools.
INTERNAL = (
    "finitewidth.cli",
    "finitewidth.course._server",
    "finitewidth.course.",
    "finitewidth._base.linalg",
    "finitewidth.tables",
)


def public_packages() -> list[str]:
    root = ROOT / "src"
    found = [".".join(file.parent.relative_to(root).parts) for file in root.rglob("__init__.py")]
    return sorted(name for name in found if not name.startswith(INTERNAL))


def test_every_public_name_of_every_package_is_in_the_reference(site):
    """With its signature, or by name for constants and aliases of types."""
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    documented = {line.split()[0] for line in inventory.splitlines()}
    assert len(documented) > 1000
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))
    missing = []
    for package in public_packages():
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            described = inspect.isclass(thing) or inspect.isfunction(thing)
            home = f"{thing.__module__}.{thing.__qualname__}" if described else ""
            found = {f"{package}.{name}", f"finitewidth.{name}", home} & documented
            if not found and (described or f"`{name}`" not in pages) and not inspect.ismodule(thing):
                missing.append(f"{package}.{name}")
    assert not missing, ", ".join(missing)


class Leaves(HTMLParser):
    """The texts inside the formulas of a page."""

    def __init__(self):
        super().__init__()
        self.inside, self.formulas, self.leaves = False, 0, []

    def handle_starttag(self, tag, attrs):
        if tag == "math":
            self.inside, self.formulas = True, self.formulas + 1

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "math"

    def handle_data(self, data):
        if self.inside:
            self.leaves.append(data.strip())


class TestFormulas:
    def test_none_shows_its_source(self, pages):
        total = 0
        for path in pages:
            text = path.read_text(encoding="utf-8")
            assert 'class="arithmatex"' not in text, path
            parser = Leaves()
            parser.feed(text)
            raw = [leaf for leaf in parser.leaves if leaf == "&" or leaf.startswith("\\")]
            assert not raw, (path, raw)
            total += parser.formulas
        assert total > 600

    def test_those_of_the_theory_fit_into_the_column(self, site, browser):
        wide = (
            "[...document.querySelectorAll('.formula')].filter(box => box.scrollWidth > box.clientWidth)"
            ".map(box => box.textContent)"
        )
        displayed = 0
        for path in sorted((site / "theory").glob("*.html")):
            with browser.open(path, 1280) as page:
                assert page.evaluate(wide) == [], path.name
                displayed += page.evaluate("document.querySelectorAll('.formula').length")
        assert displayed >= 84

    def test_the_font_is_the_one_that_comes_with_the_book(self, site, browser):
        with browser.open(site / "theory" / "kernels-and-criticality.html", 1280) as page:
            faces = "[...document.fonts].filter(f => f.status == 'loaded').map(f => f.family)"
            assert wait(lambda: page.evaluate(faces)) == ["STIX Two Math"]
            assert page.evaluate("getComputedStyle(document.querySelector('math')).fontFamily").startswith(
                '"STIX Two Math"'
            )


class TestFromDisk:
    def test_no_page_is_wider_than_a_telephone_or_complains(self, pages, browser):
        with browser.open(pages[0], 400) as page:  # one tab for all: a new one takes as long as its page
            for path in pages:
                page.visit(path)
                assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
                assert page.problems == [], path
                assert all(address.startswith(("file:", "data:")) for address in page.requests), path

    @pytest.mark.parametrize("width", [1280, 400])
    def test_search_finds_words(self, site, browser, width):
        with browser.open(site / "index.html", width) as page:
            page.evaluate("document.querySelector('[data-md-toggle=search]').click()")
            page.evaluate(
                "(() => { const box = document.querySelector('[data-md-component=search-query]');"
                "box.focus(); box.value = 'dNTK'; box.dispatchEvent(new Event('input', {bubbles: true}));"
                "box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
            )
            found = (
                "[...document.querySelectorAll('.md-search-result__item')]"
                ".filter(e => e.getBoundingClientRect().height > 0).map(e => e.textContent)"
            )
            results = wait(lambda: page.evaluate(found))
            assert len(results) >= 5
            assert any("dNTK" in text for text in results)


def wait(question, seconds: float = 20.0):
    """The answer to a question as soon as it is not empty."""
    end = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer
