"""What others install: the wheel, its licence, and a description that package indexes can show."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

import finitewidth as fw
from book import load

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    return message_from_bytes(wheel.read(f"finitewidth-{PROJECT['version']}.dist-info/METADATA"))


def test_wheel_is_complete(wheel):
    names = set(wheel.namelist())
    info = f"finitewidth-{PROJECT['version']}.dist-info"
    assert {"finitewidth/py.typed", "finitewidth/report/page.css", f"{info}/licenses/LICENSE"} <= names
    modules = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.py")}
    assert modules <= names
    static = ROOT / "src/finitewidth/serve/static"
    files = {p.relative_to(ROOT / "src").as_posix() for p in static.rglob("*") if p.is_file()}
    assert {"finitewidth/serve/static/lab.js", "finitewidth/serve/static/defaults/bands.json"} <= files
    assert files <= names
    assert not [name for name in names if not name.startswith(("finitewidth/", info))]


def test_metadata_says_who_may_use_it_and_for_what(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The finitewidth authors"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert "neural tangent kernel" in metadata["Keywords"]
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_torch_may_be_any_recent_one(metadata):
    assert "torch>=2.4; extra == 'torch'" in metadata.get_all("Requires-Dist")


def test_description_has_no_relative_target(metadata):
    description = metadata.get_payload(decode=True).decode()
    targets = re.findall(r"\]\(([^)]*)\)", description) + re.findall(r'(?:src|href)="([^"]*)"', description)
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "import finitewidth as fw" in description
    assert "the guide" in description.lower()


def test_relative_targets_of_the_readme_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)\s]*)\)", readme) if not t.startswith("https://")]
    assert len(targets) > 10
    assert [target for target in targets if not (ROOT / target.partition("#")[0]).exists()] == []


class TestDescription:
    @pytest.fixture
    def shown(self):
        return load(ROOT / "hatch_metadata.py").without_relative_targets

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("see [the guide](docs/guide.md#a).", "see the guide."),
            ("[here](#first-steps)", "here"),
            ("[out](https://example.org/a)", "[out](https://example.org/a)"),
            ("![two curves](docs/a.png)", "*(Picture in the repository: two curves.)*"),
            ("![x](https://example.org/a.png)", "![x](https://example.org/a.png)"),
            ("```python\nf[a](b)\n```\n[c](d)", "```python\nf[a](b)\n```\nc"),
        ],
    )
    def test_words_stay(self, shown, written, expected):
        assert shown(written) == expected


def test_one_version_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert fw.__version__ == PROJECT["version"] == citation["version"]
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1].rstrip(",") == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


CORE = """
import sys

BLOCKED = {"fastexcel", "matplotlib", "narwhals", "polars", "rich", "sklearn", "typer"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is not needed here", name=name)

sys.meta_path.insert(0, Blocked())

import jax, numpy as np
import finitewidth as fw

for name in fw.__all__:
    getattr(fw, name)
net, key = fw.MLP((8, 8), "tanh"), jax.random.key(0)
x, y = np.linspace(-1.0, 1.0, 12).reshape(6, 2), np.arange(4.0)[:, None]
law = fw.predict(net, x[:4], y, x[4:], fw.GradientDescent(steps=5))
networks = fw.train_ensemble(
    net, key, 3, x[:4], y, x[4:], steps=5, learning_rate=0.01, progress=True
)
ntk = fw.empirical_ntk(net, net.init(key, 2), x)
print(fw.kernels(net, x).ntk.shape, law.mean.shape, ntk.shape, networks.outputs.shape)
print(fw.lab.run("fan-in-scaling").holds)
print(len(fw.verify(law, networks=8).outputs), fw.tune("tanh", depth=3, width=8).eta_max > 0)
"""


def test_the_core_needs_nothing_of_tables_figures_and_the_command_line():
    done = subprocess.run([sys.executable, "-c", CORE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["(6, 6) (2, 1) (1, 1, 6, 6) (3, 2, 1)", "True", "8 True", ""]


def test_every_module_can_be_imported():
    """A name that is nowhere defined shows here: the linters cannot tell it from an axis of an array."""
    for module in pkgutil.walk_packages(fw.__path__, "finitewidth."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
