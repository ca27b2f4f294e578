"""Every change in the lists can still be made, and the runner tells killed from surviving."""

import pytest

from mutants.run import ROOT, Mutant, chosen, load, run

MUTANTS = load()


def test_every_change_can_be_made_and_its_tests_exist():
    problems = {mutant.name: mutant.problem(ROOT) for mutant in MUTANTS}
    assert {name: problem for name, problem in problems.items() if problem is not None} == {}


def test_there_are_enough():
    assert len(MUTANTS) >= 150


@pytest.fixture
def project(tmp_path):
    """A formula with a test that holds it, and one with a test that does not."""
    texts = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
        "src/finitewidth/__init__.py": "",
        "src/finitewidth/shapes.py": "def area(a):\n    return a * a\n\n\ndef cube(a):\n    return a**3\n",
        "tests/test_shapes.py": (
            "from finitewidth.shapes import area, cube\n\n\n"
            "def test_area():\n    assert area(3) == 9\n\n\n"
            "def test_cube():\n    assert cube(1) == 1\n\n\n"
            "def test_wrong():\n    assert area(1) == 2\n"
        ),
    }
    for name, text in texts.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def mutant(old: str, new: str, test: str = "test_area") -> Mutant:
    return Mutant(f"{old} -> {new}", "shapes.py", old, new, (f"tests/test_shapes.py::{test}",))


def test_killed_surviving_and_broken_are_told_apart(project, tmp_path, capsys):
    source = project / "src" / "finitewidth" / "shapes.py"
    before = source.read_text()
    mutants = [
        mutant("a * a", "a + a"),
        mutant("a**3", "a**2", "test_cube"),
        mutant("a * a", "a *"),
        mutant("a**3", "a**4", "test_area"),
    ]
    outcomes = run(mutants, 2, tmp_path, project, ())
    verdicts = [outcome.verdict for outcome in outcomes]
    assert [verdicts[0], verdicts[1], verdicts[3]] == ["killed", "SURVIVED", "SURVIVED"]
    assert verdicts[2].startswith("pytest ended with code")
    assert source.read_text() == before
    assert "4/4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (mutant("a - a", "a"), "'a - a' occurs 0 times in shapes.py, not 1"),
        (mutant("return", "yield"), "'return' occurs 2 times"),
        (mutant("a * a", "a * a"), "the same text"),
        (mutant("a * a", "a", "test_volume"), "there is no test tests/test_shapes.py::test_volume"),
        (mutant("a * a", "a", "test_wrong"), "tests fail in the project as it is"),
        (mutant("a * a", "a")._replace(file="forms.py"), "forms.py does not exist"),
        (mutant("a * a", "a")._replace(tests=()), "no test is named"),
    ],
)
def test_entries_that_cannot_be_judged_are_refused(project, tmp_path, entry, sentence):
    with pytest.raises(ValueError, match=sentence):
        run([entry], 1, tmp_path, project, ())


def test_a_text_may_occur_several_times(project):
    assert mutant("return", "return 0 +")._replace(count=2).problem(project) is None


def test_names_and_parts_choose():
    mutants = [mutant("a * a", "a"), mutant("a**3", "a")._replace(name="power")]
    assert chosen(mutants, ["power"], None) == mutants[1:]
    assert chosen(mutants, [], "shapes") == mutants
    with pytest.raises(ValueError, match="no mutant called 'cube'"):
        chosen(mutants, ["cube"], None)
