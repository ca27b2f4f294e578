"""Wrong command lines by the hundred: each gets one sentence, with the option and its value."""

import functools
import gzip
import io
import os
import shlex

import numpy as np
import pytest
import xlsxwriter

KERNEL = "kernel x.npy --hidden 8x2 --out k.npz"
TUNE = "tune --activation relu --depth 3 --width 8"
PREDICT = "predict t.csv --target y --hidden 8 --out run"
DESCRIBED = "predict t.csv --target y --out run"
ENSEMBLE = "train-ensemble diabetes --hidden 4 --size 3 --steps 5 --train 10 --test 5 --quiet --out e.npz"
CLAIM = "lab run linear-critical --out results"

WHOLE = "{option} must be a whole number, 1 or more, got {value!r}."
POSITIVE = "{option} must be a positive finite number, got {value!r}."
NOT_NEGATIVE = "{option} must be a finite number, zero or more, got {value!r}."
SEED = "--seed must be a whole number from 0 to 4294967295, got {value!r}."
HIDDEN = "--hidden {value!r} is neither WIDTHxLAYERS, such as 512x10, nor widths such as 128,64,32."
DEPTH = "--depth must be a whole number from 1 to 10000, got {value!r}."
BILLION = "{option} must be a whole number from 1 to 1000000000, got {value!r}."
STEPS = "--steps must be a whole number, zero or more, or inf, got {value!r}."
NOT_WHOLE = ("0", "-1", "2.5", "x", "", "nan", "1e3", "1_000", "٣")
NOT_SEEDS = ("-1", "x", "1.5", "", "nan", "4294967296", "1_0")

# The command, an option, wrong values of it, and the sentence.
VALUES = [
    (KERNEL, "--hidden", ("1e3", "3x", "x3", "x", "", "-3", "8,-1", "8,,8", "8x2x2", "²", "1.5"), HIDDEN),
    (KERNEL, "--hidden", ("nan", "[8]", "٣x2"), HIDDEN),
    (KERNEL, "--hidden", ("0x3", "8x0", "0", "8,0"), "--hidden {value!r} describes no hidden layer"),
    (KERNEL, "--hidden", ("8x99999999999", "9999999999999"), "--hidden {value!r} is too large"),
    (KERNEL, "--C-W", ("-1", "0", "nan", "inf", "x", "", "1,5"), POSITIVE),
    (KERNEL, "--C-b", ("-1", "nan", "inf", "1e400", "x"), NOT_NEGATIVE),
    (KERNEL, "--C-b", ("0.1",), "--C-b 0.1 needs --C-W beside it"),
    (KERNEL, "--C-W", ("1.5",), "--C-W 1.5 needs --C-b beside it"),
    (KERNEL, "--dtype", ("float16", ""), "--dtype must be float32 or float64, got {value!r}."),
    (KERNEL, "--tolerance", ("-1", "0", "nan"), POSITIVE),
    (KERNEL, "--activation", ("", "[bold]", "tanh:1", "tanh:"), "unknown activation {value!r}."),
    (KERNEL, "--activation", ("leaky_relu:", "leaky_relu:x", "monomial:two"),
     "activation {value!r}: {parameter!r} after the colon is not a number."),
    (KERNEL, "--activation", ("leaky_relu:nan", "monomial:-1", "monomial:1.5"), "activation {value!r}: "),
    (KERNEL, "--out", ("",), "--out must be a path, got ''."),
    (KERNEL, "--out", ("a-folder",), "--out a-folder is a directory; name a file."),
    (KERNEL, "--out", ("broken-link",), "--out broken-link is a broken symbolic link"),
    (KERNEL, "--out", ("taken.npz",), "taken.npz exists already; choose another --out"),
    (KERNEL, "--out", ("/dev/null",), "--out /dev/null is not an ordinary file"),
    (KERNEL, "--out", ("x.npy",), "--out x.npy is the input"),
    (KERNEL, "--out", ("x.npy/k.npz",), "the folder x.npy of --out x.npy/k.npz is a file."),
    (KERNEL, "--out", ("no/k.npz",), "the folder no of --out no/k.npz does not exist."),
    (KERNEL, "--out", ("[red]no[/red]/k.npz", "[/]/k.npz"), "of --out {value} does not exist."),
    (KERNEL, "--out", ("n" * 300,), "{value}: file name too long."),
    (KERNEL, "--test", ("no[1].npy",), "no[1].npy does not exist."),
    (KERNEL, "--test", ("pipe.npy",), "pipe.npy is a pipe or a device, not a file: write"),
    (TUNE, "--depth", (*NOT_WHOLE, "99999999"), DEPTH),
    (TUNE, "--width", ("0", "-8", "x", "99999999999999999999"), BILLION),
    (TUNE, "--inputs", NOT_WHOLE, WHOLE),
    (TUNE, "--outputs", ("0", "x"), WHOLE),
    (TUNE, "--C-W", ("-1", "nan"), POSITIVE),
    (TUNE, "--C-b", ("-1", "inf"), NOT_NEGATIVE),
    (TUNE, "--C-b", ("1",), "--C-b 1 needs --C-W beside it"),
    (TUNE, "--code", ("c++", ""), "--code must be pytorch, jax, both or none, got {value!r}."),
    (TUNE, "--plot", ("a.xyz", "a"), "a picture must end in .png, .pdf, .svg, got {value!r}."),
    (TUNE, "--plot", ("",), "--plot must be a path, got ''."),
    (TUNE, "--plot", ("a-folder",), "--plot a-folder is a directory"),
    (TUNE, "--plot", ("broken-link",), "--plot broken-link is a broken symbolic link"),
    (TUNE, "--plot", ("no/a.png",), "the folder no of --plot no/a.png does not exist."),
    (f"{TUNE} --inputs 3", "--data", ("x.npy",), "--inputs 3 and --data x.npy exclude each other"),
    (TUNE, "--data", ("no.npy",), "no.npy does not exist."),
    (PREDICT, "--seed", NOT_SEEDS, SEED),
    (PREDICT, "--eta", ("nan", "inf", "0", "-1", "", "Auto", "x"),
     "--eta must be auto or a positive finite number, got {value!r}."),
    (PREDICT, "--steps", ("-5", "nan", "1.5", "", "-inf", "1e3"), STEPS),
    (PREDICT, "--ridge", ("-1", "nan", "inf", "x", ""),
     "--ridge must be auto or a finite number, zero or more, got {value!r}."),
    (PREDICT, "--order", ("2", "-1", "x", "0.5"), "--order must be auto, 0, 1 or 1/2, got {value!r}."),
    (PREDICT, "--verify", ("-3", "x", "1.5"),
     "--verify must be a whole number, zero or more, or enough, got {value!r}."),
    (PREDICT, "--detect", ("0", "-1", "x"), "--detect must be a positive finite number, got {value!r}."),
    (PREDICT, "--verify", ("1", "2"), "--verify {value} is too few networks"),
    (PREDICT, "--most-steps", ("0", "-1", "x"), WHOLE),
    (PREDICT, "--most-samples", ("0", "-1", "x"), WHOLE),
    (PREDICT, "--train", ("0", "-4", "x"), WHOLE),
    (PREDICT, "--train", ("30", "999"), "--train {value} leaves nothing"),
    (PREDICT, "--task", ("clustering",), "invalid value for '--task': 'clustering' is not one of"),
    (PREDICT, "--scale", ("log", ""), "invalid value for '--scale': {value!r} is not one of"),
    (PREDICT, "--C-W", ("-1",), POSITIVE),
    (PREDICT, "--C-b", ("1",), "--C-b 1 needs --C-W beside it"),
    (PREDICT, "--out", ("",), "--out must be a path, got ''."),
    (PREDICT, "--out", ("t.csv",), "--out t.csv is a file; name a directory."),
    (PREDICT, "--out", ("broken-link",), "--out broken-link is a broken symbolic link"),
    (PREDICT, "--out", ("half",), "half/report.html is a directory; move it away or choose another --out."),
    (PREDICT, "--out", ("no/run",), "the folder no of --out no/run does not exist."),
    (PREDICT, "--target", ("[y]", "[/y]", ":smile:"), "t has no column {value!r}."),
    (PREDICT, "--test", ("no[/b].csv",), "no[/b].csv does not exist."),
    (PREDICT, "--test", ("folder.csv",), "folder.csv is a directory, not a file."),
    (DESCRIBED, "--network", ("pipe.toml",), "pipe.toml is a pipe or a device, not a file"),
    (DESCRIBED, "--network", ("no.toml",), "no.toml does not exist."),
    (ENSEMBLE, "--size", (*NOT_WHOLE, "99999999999"), BILLION),
    (ENSEMBLE, "--steps", ("0", "-5", "inf", "1e3"), BILLION),
    (ENSEMBLE, "--learning-rate", ("0", "-1", "nan", "x"), POSITIVE),
    (ENSEMBLE, "--optimizer", ("adamw", ""),
     "--optimizer must be sgd, momentum, nesterov, adam, sign or muon, got {value!r}."),
    (ENSEMBLE, "--optimizer", ("adam",), "--learning-rate is needed for the optimizer 'adam'."),
    (ENSEMBLE, "--loss", ("mae", "MSE", ""),
     "--loss must be mse, cross_entropy, logistic or exponential, got {value!r}."),
    (ENSEMBLE, "--parametrisation", ("xyz", "", "mup:", "mup:x", "ntk:3"),
     "unknown parametrisation {value!r}."),
    (ENSEMBLE, "--parametrisation", ("mup:0",), "base_width must be at least 1, got 0."),
    (ENSEMBLE, "--weights", ("zeros",),
     "--weights must be gaussian, uniform, truncated or orthogonal, got 'zeros'."),
    (ENSEMBLE, "--batch-size", ("0", "-1", "x"), WHOLE),
    (ENSEMBLE, "--batch-size", ("11",), "--batch-size 11 is more than the 10 training points."),
    (ENSEMBLE, "--train", ("0", "-1"), WHOLE),
    (ENSEMBLE, "--test", ("0", "x"), WHOLE),
    (ENSEMBLE, "--train", ("442",), "--train 442 and --test 5 points do not fit a data set of 442 points."),
    (ENSEMBLE, "--seed", NOT_SEEDS, SEED),
    (ENSEMBLE, "--memory", ("0", "x"), WHOLE),
    (ENSEMBLE, "--checkpoint-every", ("0",), WHOLE),
    (ENSEMBLE, "--checkpoint-every", ("2",), "--checkpoint-every 2 needs a --directory"),
    (ENSEMBLE, "--out", ("e.csv", "e"), "--out {value} must end in .npz."),
    (ENSEMBLE, "--out", ("",), "--out must be a path, got ''."),
    (ENSEMBLE, "--out", ("taken.npz",), "taken.npz exists already"),
    (ENSEMBLE, "--directory", ("not-json", "not-settings", "not-text"), "{value}/settings.json is damaged"),
    (ENSEMBLE, "--directory", ("t.csv", "t.csv/kept"), "t.csv is a file, not a directory."),
    (ENSEMBLE, "--directory", ("broken-link",), "broken-link is a broken symbolic link."),
    (ENSEMBLE, "--activation", ("nope",), "unknown activation 'nope'."),
    (ENSEMBLE, "--hidden", ("4x",), HIDDEN),
    (CLAIM, "--seed", NOT_SEEDS, SEED),
    (CLAIM, "--scale", ("huge",), "invalid value for '--scale': 'huge' is not one of 'quick', 'full'."),
    (CLAIM, "--out", ("t.csv", "t.csv/results"), "t.csv is a file, not a directory."),
    (CLAIM, "--out", ("broken-link",), "broken-link is a broken symbolic link."),
    (CLAIM, "--out", ("",), "--out must be a path, got ''."),
]  # fmt: skip

# Whole command lines, and the sentence.
LINES = {
    "predct": "no such command 'predct'. Did you mean 'predict'?",
    "lab lst": "no such command 'lst'. Did you mean 'list'?",
    "--nonsense": "no such option: --nonsense.",
    "kernel": "missing argument 'inputs'.",
    "kernel x.npy --out k.npz": "missing option '--hidden'.",
    "kernel x.npy --hidden 8 --out": "option '--out' requires an argument.",
    f"{KERNEL} extra": "got unexpected extra argument(s) (extra).",
    f"{KERNEL} --hiden 3": "no such option: --hiden",
    f"{KERNEL} --force yes": "got unexpected extra argument(s) (yes).",
    f"{KERNEL} --out a-folder --force": "--out a-folder is a directory; name a file.",
    f"{KERNEL} --out broken-link --force": "--out broken-link is a broken symbolic link",
    f"{KERNEL} --out x.npy --force": "--out x.npy is the input",
    "kernel '[x].npy' --hidden 8 --out k.npz": "[x].npy does not exist.",
    "predict '[bold]t.csv' --out run": "[bold]t.csv does not exist.",
    "predict 'with space é.csv' --out run": "with space é.csv does not exist.",
    "predict '[b]rackets.csv' --target '[/b]' --hidden 8 --out run": "It has [a], b[/bold], y.",
    f"{PREDICT} --out half --force": "half/report.html is a directory",
    f"{PREDICT} --out broken-link --force": "--out broken-link is a broken symbolic link",
    "train-ensemble 'no[x].csv' --out e.npz": "no[x].csv does not exist.",
    "predict odd.csv --target y --out run": "target 'y' of odd holds 'oops' in row 3 among numbers: correct",
    "predict odd.csv --target when --out run": "target 'when' holds dates: give numbers",
    "predict inf.csv --target y --out run": "column 'a' of inf holds -inf in row 2: correct",
    "predict t.csv --new inf.csv --target y --out run": "column 'a' of inf holds -inf in row 2: correct",
    "predict huge.csv --target y --out run": "target 'y' has numbers of size 2e+301, whose squares",
    "predict t.csv --sheet A --target y --out run": "--sheet 'A' is for XLSX files, and t.csv is none.",
    "predict far.xlsx --sheet Third --target a --out run": "far.xlsx has no sheet 'Third'; it has 'A', 'B'.",
    "predict far.xlsx --sheet B --target a --out run": "far.xlsx has 1,048,576 rows or more in 16,384",
    "predict bomb.csv.gz --target a --out run": "rows or more in 2 columns; a table may have",
    "tune --activation relu --depth 3 --width 8 --data inf.csv": "column 'a' of inf holds -inf in row 2",
    "lab run": "lab run takes ids of claims and names of chapters, or --all",
    "lab run --all linear-critical": "lab run takes ids of claims and names of chapters, or --all",
    "lab run '[bold]'": "there is no claim '[bold]'",
    "lab list extra": "got unexpected extra argument(s) (extra).",
    "lab list --jsn": "no such option: --jsn",
}

CASES = [
    pytest.param(
        [*shlex.split(base), option, value],
        sentence.format(option=option, value=value, parameter=value.rpartition(":")[2]),
        id=f"{base.split()[0]} {option}={value[:20]}",
    )
    for base, option, values, sentence in VALUES
    for value in values
] + [pytest.param(shlex.split(line), sentence, id=line) for line, sentence in LINES.items()]


@functools.cache
def far_workbook() -> bytes:
    """Two sheets; the second has a cell in its last place."""
    content = io.BytesIO()
    book = xlsxwriter.Workbook(content)
    for name, last in (("A", (1, 0)), ("B", (2**20 - 1, 2**14 - 1))):
        sheet = book.add_worksheet(name)
        sheet.write(0, 0, "a")
        sheet.write(*last, 1)
    book.close()
    return content.getvalue()


@functools.cache
def bomb() -> bytes:
    """Forty million rows of two cells in some kilobytes."""
    return gzip.compress(b"a,b\n") + 40 * gzip.compress(b"1,2\n" * 2**20)


@pytest.fixture
def files(tmp_path, rng):
    """Good inputs, and everything that can be in the way of an output."""
    np.save(tmp_path / "x.npy", rng.normal(size=(12, 5)))
    rows = "".join(f"{a},{b},{a + b}\n" for a, b in rng.normal(size=(30, 2)))
    (tmp_path / "t.csv").write_text("a,b,y\n" + rows)
    (tmp_path / "[b]rackets.csv").write_text("[a],b[/bold],y\n" + rows)
    days = ["2020-02-30" if i == 4 else f"2020-01-{i + 1:02d}" for i in range(12)]
    (tmp_path / "odd.csv").write_text(
        "a,when,y\n" + "".join(f"{i},{day},{'oops' if i == 2 else i / 2}\n" for i, day in enumerate(days))
    )
    (tmp_path / "inf.csv").write_text("a,b,y\n1,2,3\n-inf,3,4\n2,4,5\n")
    (tmp_path / "huge.csv").write_text("a,y\n" + "".join(f"{i},{i}.5e300\n" for i in range(1, 20)))
    (tmp_path / "far.xlsx").write_bytes(far_workbook())
    (tmp_path / "bomb.csv.gz").write_bytes(bomb())
    (tmp_path / "taken.npz").write_text("precious")
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    for name in ("pipe.npy", "pipe.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "broken-link").symlink_to("nowhere")
    (tmp_path / "half" / "report.html").mkdir(parents=True)
    (tmp_path / "half" / "summary.json").write_text("precious")
    for name, content in (("not-json", b"{ no"), ("not-settings", b"[1, 2]"), ("not-text", b"\xff\xfe\x00")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.json").write_bytes(content)


def contents(folder) -> dict:
    return {
        path: path.read_bytes() if path.is_file() else os.path.lexists(path) for path in folder.rglob("*")
    }


def test_there_are_hundreds_of_cases():
    assert len(CASES) >= 200


@pytest.mark.parametrize(("arguments", "sentence"), CASES)
def test_wrong_input_is_one_sentence(command, files, tmp_path, arguments, sentence):
    before = contents(tmp_path)
    result = command(*arguments)
    assert result.code == 2, result.err
    assert sentence in result.err
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert result.err.rstrip().endswith((".", "?"))
    assert result.out == ""
    assert contents(tmp_path) == before
