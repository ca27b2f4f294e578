"""What the command says when something goes wrong that no check foresaw."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

from finitewidth.algorithms.optimizers import OPTIMIZER_NAMES
from finitewidth.architecture.weights import DRAWS
from finitewidth.cli import errors
from finitewidth.cli.commands.train_ensemble import LOSSES, WEIGHTS
from finitewidth.networks.losses import LOSSES as KNOWN_LOSSES
from finitewidth.networks.training.optimizers import _named

# The package's attribute of this name is the command.
MODULE = importlib.import_module("finitewidth.cli.commands.tune")
TUNE = ("tune", "--activation", "relu", "--depth", "3", "--width", "8", "--plot", "tune.png")


def raising(error: BaseException):
    def check_output(*_, **__):
        raise error

    return check_output


@pytest.mark.parametrize(
    "wrong",
    [lambda *_, **__: {}["missing"], lambda *_, **__: int("no number"), lambda *_, **__: len(3)],
    ids=["key", "value", "type"],
)
def test_a_bug_is_called_a_bug(command, monkeypatch, wrong):
    monkeypatch.setattr(MODULE, "check_output", wrong)
    result = command(*TUNE)
    assert result.code == 70
    assert result.err.startswith("error: this is a bug in finitewidth, not in your input (")
    assert "run it again with --traceback" in result.err
    assert result.err.count("\n") == 1


def test_an_error_of_another_library_is_a_bug_too(command, monkeypatch):
    monkeypatch.setattr(MODULE, "check_output", lambda *_, **__: np.linalg.inv(np.zeros((2, 2))))
    result = command(*TUNE)
    assert result.code == 70
    assert "LinAlgError: Singular matrix" in result.err


@pytest.mark.parametrize(
    "place", [("--traceback", *TUNE, "--C-b", "1"), (*TUNE, "--C-b", "1", "--traceback")]
)
def test_a_traceback_on_request(command, place):
    result = command(*place)
    assert result.code == 2
    assert result.err.startswith("Traceback (most recent call last):")
    assert "in check_variances" in result.err
    assert result.err.splitlines()[-1].startswith("error: --C-b 1 needs --C-W beside it")
    assert "Traceback" not in command(*TUNE, "--C-b", "1").err


def test_a_traceback_by_the_environment(command, monkeypatch):
    monkeypatch.setenv("FINITEWIDTH_TRACEBACK", "1")
    assert "in check_variances" in command(*TUNE, "--C-b", "1").err
    monkeypatch.setenv("FINITEWIDTH_TRACEBACK", "0")
    assert "in check_variances" not in command(*TUNE, "--C-b", "1").err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied", "a[b].npz"), "error: a[b].npz: permission denied.\n"),
        (OSError(28, "No space left on device"), "error: the system refused: no space left on device.\n"),
        (
            MemoryError(),
            "error: there is not enough memory for this: use fewer points, networks or neurons.\n",
        ),
    ],
)
def test_what_the_system_refuses_is_no_bug(command, monkeypatch, error, sentence):
    monkeypatch.setattr(MODULE, "check_output", raising(error))
    result = command(*TUNE)
    assert (result.code, result.err) == (2, sentence)


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (
            "iterative",
            r"353 rows need [\d.]+ MB of memory beside their kernels, and the bound is 1 MB: give more",
        ),
        (
            "direct",
            r"the direct solver needs [\d.]+ MB for 353 training and 89 test rows, and the bound is 1 MB",
        ),
    ],
)
def test_a_bound_on_memory_that_is_too_small_says_what_is_needed(command, solver, sentence):
    asked = ("--hidden", "8", "--order", "0", "--solver", solver, "--memory", "1", "--out", "run")
    result = command("predict", "diabetes", *asked)
    assert result.code == 2
    assert re.search(sentence, " ".join(result.err.split())), result.err


def test_a_scheduler_without_dask_says_what_to_install(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = command("predict", "diabetes", "--scheduler", "tcp://127.0.0.1:1", "--out", "run")
    assert result.code == 2
    assert "a scheduler needs Dask: pip install 'finitewidth[scale]'" in " ".join(result.err.split())


def test_a_folder_that_may_not_be_written_to(command, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for line in ((*TUNE,), ("predict", "diabetes", "--out", "run"), ("lab", "run", "x", "--out", "results")):
        result = command(*line)
        assert result.code == 2
        assert "may not be written to." in result.err
        assert result.err.count("\n") == 1


def test_warnings_of_the_package_are_sentences(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = errors.show_warning
        warnings.warn("widths [8] are small.", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: widths [8] are small.\n"


def test_names_known_to_the_command_are_those_of_the_library():
    assert set(LOSSES) == set(KNOWN_LOSSES)
    assert set(WEIGHTS) == set(DRAWS)
    with pytest.raises(ValueError, match=f"Known: {', '.join(OPTIMIZER_NAMES)};"):
        _named("no such optimizer")


# A shell lets what it starts in the background ignore Ctrl-C.
USUAL = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def run(code: str, *arguments, **options):
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", USUAL + textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [
        (signal.SIGINT, 130, "error: interrupted.\n"),
        (signal.SIGTERM, 143, "error: ended by SIGTERM.\n"),
        (signal.SIGHUP, 129, "error: ended by SIGHUP.\n"),
    ],
)
def test_a_signal_leaves_one_line_and_nothing_written(tmp_path, number, code, sentence):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(64, 3)))
    program = """
    import shutil, signal, sys, time
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as in a terminal, whatever runs the tests
    from finitewidth.cli import main
    from finitewidth.large import storage
    tiles, remove = storage.kernel_tiles, shutil.rmtree

    def slow(*arguments, **options):
        yield from tiles(*arguments, **options)
        wait("working", 60)

    def slowly_removed(*arguments, **options):
        wait("removing", 0.5)
        remove(*arguments, **options)

    def wait(word, seconds):
        print(word, flush=True)
        # A single long sleep that is just beginning would not notice signals.
        for _ in range(int(seconds / 0.05)):
            time.sleep(0.05)

    storage.kernel_tiles, shutil.rmtree = slow, slowly_removed
    main()
    """
    job = run(program, "kernel", "x.npy", "--hidden", "8", "--out", "k.npz", cwd=tmp_path)
    assert job.stdout.readline() == "working\n"
    job.send_signal(number)
    # `timeout` sends it again.
    assert job.stdout.readline() == "removing\n"
    job.send_signal(number)
    _, err = job.communicate(timeout=30)
    assert (job.returncode, err) == (code, sentence)
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


def test_a_signal_that_is_ignored_ends_nothing():
    program = """
    import signal
    from finitewidth.cli.errors import interruptible
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible():
        signal.raise_signal(signal.SIGHUP)
        print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    """
    out, err = run(program).communicate(timeout=30)
    assert (out, err) == ("False\nTrue\n", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_inside_a_callback_is_not_lost(name):
    code = """
    import gc, signal, time
    from finitewidth.cli import main

    def interrupt(phase, info):
        gc.callbacks.clear()
        signal.raise_signal(signal.NAME)

    def work(*_, **__):
        gc.callbacks.append(interrupt)
        gc.collect()
        time.sleep(60)

    import finitewidth.cli.options as options
    options.check_variances = work
    main()
    """
    job = run(code.replace("NAME", name), *TUNE)
    _, err = job.communicate(timeout=30)
    assert job.returncode == 128 + getattr(signal, name)
    assert err.count("\n") == 1


def test_a_closed_pipe_is_no_error():
    command = [sys.executable, "-m", "finitewidth", "lab", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        job.stdout.readline()
        job.stdout.close()
        assert job.stderr is not None
        assert job.stderr.read() == ""


def test_unwritable_characters_are_printed_as_codes(tmp_path):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "finitewidth", "predict", "é.csv"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (2, "error: \\xe9.csv does not exist.\n")


def test_settings_of_an_ensemble_that_are_damaged(command, tmp_path):
    from finitewidth.networks.checkpoints import Directory

    (tmp_path / "settings.json").write_text(json.dumps({"steps": 3})[:-1])
    with pytest.raises(ValueError, match=r"settings\.json is damaged"):
        Directory(tmp_path, {"steps": 3})


@pytest.mark.parametrize("columns", ["0", "3"])
@pytest.mark.parametrize("line", [("--help",), ("lab", "show", "linear-critical")], ids=["help", "table"])
def test_a_terminal_without_width_shows_words(columns, line):
    """Zero is what a terminal says that does not know; with three, every word would be cut."""
    command = [sys.executable, "-m", "finitewidth", *line]
    shown = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": columns})
    assert shown.returncode == 0
    assert "distribution" in shown.stdout or "critical" in shown.stdout


def test_a_traceback_does_not_command_the_terminal(command):
    result = command("--traceback", "kernel", "\x1b[2J.npy", "--hidden", "8", "--out", "k.npz")
    assert result.code == 2
    assert "\x1b" not in result.err
    assert result.err.splitlines()[-1] == "error: ␛[2J.npy does not exist."
