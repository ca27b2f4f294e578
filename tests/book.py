"""The book, built from a copy as `make docs` builds it; its ledger shows one run under every claim."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
CHEAP_CLAIM = "criticality-conditions"


def load(path: Path) -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy_book(folder: Path) -> None:
    """Configuration, sources and pages; the ledger has every claim's words and the numbers of a cheap one."""
    from finitewidth import course as lab

    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    shutil.copytree(
        ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("ledger", "lab-full", "__pycache__")
    )
    records = folder / "records"
    lab.run(CHEAP_CLAIM, "quick", out=records)
    measured = json.loads((records / f"{CHEAP_CLAIM}.json").read_text(encoding="utf-8"))
    words = [
        {name: getattr(claim, name) for name in ("id", "title", "chapter", "statement", "source")}
        for claim in lab.claims()
    ]
    load(folder / "docs" / "ledger.py").write_pages([measured | claim for claim in words], records)


def build_command() -> str:
    """The line of the Makefile that builds the book."""
    dry = subprocess.run(
        ["make", "--dry-run", "docs", f"BIN={Path(sys.executable).parent}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = [line for line in dry.stdout.splitlines() if "mkdocs build" in line]
    return line


def build(folder: Path) -> subprocess.CompletedProcess:
    """Run that line in a copy."""
    return subprocess.run(
        build_command(), shell=True, cwd=folder, capture_output=True, text=True, timeout=600
    )
