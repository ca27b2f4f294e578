"""The command starts at once: nothing heavy is imported before there is work for it."""

import os
import resource
import subprocess
import sys

import pytest

HEAVY = ("jax", "jaxlib", "equinox", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "optax")
LIGHT_LINES = (
    ["--help"],
    ["--version"],
    ["predict", "--help"],
    ["tune", "--help"],
    ["kernel", "--help"],
    ["train-ensemble", "--help"],
    ["lab", "run", "--help"],
    ["serve", "--help"],
    ["serve", "--host", "0.0.0.0"],
    ["predict", "diabetes", "--seed", "-1"],
    ["kernel", "x.npy", "--hidden", "8y2", "--out", "k.npz"],
)


@pytest.mark.parametrize("line", LIGHT_LINES, ids=" ".join)
def test_help_and_refusals_import_nothing_heavy(line, tmp_path):
    code = (
        "import sys; from finitewidth.cli import main\n"
        "try: main()\n"
        f"finally: found = {{*{HEAVY}}} & {{*sys.modules}}; assert not found, found"
    )
    result = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, cwd=tmp_path)
    assert "AssertionError" not in result.stderr, result.stderr
    assert result.returncode == (2 if "help" not in line[-1] and line != ["--version"] else 0)


def test_help_takes_less_than_a_second_and_a_half_of_the_processor():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "finitewidth", "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5


def test_tune_imports_neither_matplotlib_nor_scikit_learn():
    code = (
        "import sys; from finitewidth.cli import main\n"
        "try: main()\n"
        "finally: assert not {'matplotlib', 'sklearn', 'pandas', 'optax'} & {*sys.modules}"
    )
    line = ["tune", "--activation", "relu", "--depth", "2", "--width", "8", "--code", "none"]
    subprocess.run([sys.executable, "-c", code, *line], check=True, capture_output=True)


def test_the_version(command):
    from importlib.metadata import version

    import finitewidth

    assert finitewidth.__version__ == version("finitewidth")
    assert command("--version").out == f"finitewidth {version('finitewidth')}\n"


def test_the_module_is_the_command(tmp_path):
    command = [sys.executable, "-m", "finitewidth", "kernel", "no.npy", "--hidden", "8", "--out", "k.npz"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (2, "error: no.npy does not exist.\n")


def test_flags_are_listed_as_flags(command):
    for line in (["--help"], ["predict", "--help"], ["lab", "--help"], ["lab", "run", "--help"]):
        page = command(*line).out
        assert "--help" in page
        assert "bool" not in page
    assert "--traceback" in page
    assert "--seed" in page


def test_completion_of_commands_and_options():
    environment = os.environ | {"_FINITEWIDTH_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['finitewidth']; from finitewidth.cli import main; main()"

    def completions(words: str, position: str) -> list[str]:
        asked = environment | {"COMP_WORDS": words, "COMP_CWORD": position}
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=asked
        ).stdout.split()

    assert completions("finitewidth tr", "1") == ["train-ensemble"]
    assert "--most-steps" in completions("finitewidth predict --m", "2")
