"""What users type."""

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import finitewidth as fw


def test_every_public_name_exists():
    assert [name for name in fw.__all__ if not hasattr(fw, name)] == []


def test_the_laboratory_comes_on_demand():
    code = (
        "import sys, finitewidth as fw; assert 'finitewidth.course' not in sys.modules; "
        "assert fw.lab.claims(); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'kernls'"):
        fw.kernls  # noqa: B018


def test_importing_the_package_switches_to_64_bits(rng):
    assert fw.kernels(fw.MLP((4,), "relu"), rng.normal(size=(2, 3))).ntk.dtype == "float64"


ORDERS = {
    "before JAX": "import finitewidth, jax.numpy as jnp",
    "after JAX": "import jax.numpy as jnp, finitewidth",
    "by a part of it": "import finitewidth.statistics.wide.kernels, jax.numpy as jnp",
    "after an array": "import jax.numpy as jnp; jnp.ones(1); import finitewidth",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("setting", [None, "0"])
def test_64_bits_in_every_order_of_imports(order, setting):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    code = f"{ORDERS[order]}; assert jnp.ones(1).dtype == 'float64'; assert finitewidth.kernels"
    given = {} if setting is None else {"JAX_ENABLE_X64": setting}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment | given)


def test_importing_the_package_imports_no_jax():
    code = (
        "import sys, finitewidth as fw; assert 'jax' not in sys.modules; assert 'predict' in dir(fw); "
        "assert fw.statistics.kernels is fw.kernels; assert fw.lab.claims; assert fw.estimators"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_also_a_module_keeps_its_meaning():
    """Whatever is imported first: the module is loaded before the function of its name is asked for."""
    code = (
        "from finitewidth.measure import Specimen, specimen; "
        "import finitewidth.measure.specimen; from finitewidth.measure.specimen import specimen as again; "
        "assert specimen is again is finitewidth.measure.specimen"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_module_is_an_attribute():
    modules = [module.name for module in pkgutil.iter_modules(fw.__path__) if not module.name.startswith("_")]
    assert [name for name in modules if not hasattr(fw, name)] == []


def test_a_name_is_listed_once_and_found_where_type_checkers_see_it():
    tree = ast.parse(Path(fw.__file__).read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(fw.__all__) == seen.keys() - {"exports", "find_old_packages", "Any", "TYPE_CHECKING"}
    for name in fw.__all__:
        assert getattr(fw, name) is getattr(importlib.import_module(seen[name]), name)


def test_code_in_the_book_imports_from_packages_only():
    """A reader learns rooms, not files: `from finitewidth.prediction import X`, never `.prediction.file`."""
    root, source = Path(__file__).parents[1], Path(fw.__file__).parent
    found = []
    for page in [root / "README.md", *(root / "docs").rglob("*.md")]:
        code = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        rooms = re.findall(r"from finitewidth\.([\w.]+) import", "\n".join(code))
        found += [(page.name, room) for room in rooms if not source.joinpath(*room.split(".")).is_dir()]
    assert [place for place in found if place[1] != "lab"] == []


def test_old_places_of_names_work_and_say_the_new_one():
    import finitewidth.algorithms
    from finitewidth.course.large_learning_rates import theory

    with pytest.warns(DeprecationWarning, match="large_learning_rates.theory.CatapultPath;"):
        from finitewidth.dynamics import CatapultPath
    assert CatapultPath is theory.CatapultPath
    with pytest.warns(DeprecationWarning, match="is now finitewidth.algorithms.Steps;"):
        from finitewidth.dynamics.algorithms import Steps
    assert Steps is finitewidth.algorithms.Steps
    # The warning names the line that uses the old place, so that Python shows it there by default.
    code = "import finitewidth as fw; assert fw.networks.train_to_margin"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "DeprecationWarning: finitewidth.networks.train_to_margin is now finitewidth.course" in run.stderr
    for wrong in ("finitewidth.dynamics.nothing", "finitewidth.networks.nothing", "finitewidth.nothing"):
        package, _, name = wrong.rpartition(".")
        with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
            getattr(importlib.import_module(package), name)


def test_every_old_place_leads_somewhere():
    """All entries of the table, most of which no other test reads."""
    from finitewidth._base import moved

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for old, homes in moved.NAMES.items():
            for home, names in homes.items():
                new = importlib.import_module(f"finitewidth.{home}")
                for name in names.split():
                    assert moved.moved(f"finitewidth.{old}", name) is getattr(new, name)
        for old, new in moved.PACKAGES.items():
            importlib.import_module(f"finitewidth.{old}")
            importlib.import_module(f"finitewidth.{new}")


_ROOMS = [
    name for _, name, package in pkgutil.iter_modules(fw.__path__) if package and not name.startswith("_")
]


@pytest.mark.parametrize("room", _ROOMS)
def test_every_room_says_what_it_offers(room):
    package = importlib.import_module(f"finitewidth.{room}")
    assert package.__doc__
    offered = getattr(package, "__all__", [])
    assert [name for name in offered if not hasattr(package, name)] == []
    if room not in (
        "advice",
        "cli",
        "expectations",
    ):  # rooms of rooms, what commands and the theory are made of
        assert offered
