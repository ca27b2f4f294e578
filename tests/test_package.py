"""What others install: the wheel, its licence, and a description that package indexes can show."""

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
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
    sources = [p for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {p.relative_to(ROOT / "src").as_posix() for p in sources} <= names
    assert [
        name
        for name in names
        if name.startswith("finitewidth/course/_server/static/") and name.endswith(".js")
    ]
    assert not [name for name in names if not name.startswith(("finitewidth/", info))]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A Python outside the source tree with the wheel in it; the libraries are those of this Python."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path from a .pth file is searched last, and what an editable install has put there is not read.
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    subprocess.run(
        [*install, "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", wheel.filename],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def elsewhere(installed, tmp_path_factory):
    """Runs a program of that Python in an empty folder."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program, *arguments):
        return subprocess.run(
            [installed / "bin" / program, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=True,
        ).stdout  # fmt: skip

    return run


class TestInstalledWheel:
    """What a user has who knows nothing of this folder."""

    def test_python_finds_the_wheel_and_not_the_source_tree(self, elsewhere, installed):
        code = "import finitewidth; print(finitewidth.__file__, finitewidth.__version__)"
        place, version = elsewhere("python", "-c", code).split()
        assert Path(place).is_relative_to(installed)
        assert version == PROJECT["version"]

    def test_its_files_are_there(self, installed):
        (package,) = installed.glob("lib/python*/site-packages/finitewidth")
        sources = [
            p for p in (ROOT / "src" / "finitewidth").rglob("*") if p.suffix not in ("", ".py", ".pyc")
        ]
        assert len(sources) > 5
        for source in sources:
            copy = package / source.relative_to(ROOT / "src" / "finitewidth")
            assert copy.read_bytes() == source.read_bytes()

    def test_the_command_measures_a_claim(self, elsewhere):
        (record,) = json.loads(elsewhere("finitewidth", "lab", "run", "criticality-conditions", "--json"))
        assert record["holds"]
        assert record["versions"]["finitewidth"] == PROJECT["version"]


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
