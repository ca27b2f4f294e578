"""What users type."""

import subprocess
import sys

import pytest

import finitewidth as fw


def test_every_public_name_exists():
    assert [name for name in fw.__all__ if not hasattr(fw, name)] == []


def test_the_laboratory_comes_on_demand():
    code = (
        "import sys, finitewidth as fw; assert 'matplotlib' not in sys.modules; "
        "assert fw.lab.claims(); assert 'matplotlib' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'kernls'"):
        fw.kernls  # noqa: B018


def test_importing_the_package_switches_to_64_bits(rng):
    assert fw.kernels(fw.MLP((4,), "relu"), rng.normal(size=(2, 3))).ntk.dtype == "float64"
