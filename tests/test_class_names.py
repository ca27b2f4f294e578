"""One name, one thing: a public class name is taken once. The exceptions only become fewer."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "finitewidth"
TWICE = set(Path(__file__).with_name("class_names.txt").read_text(encoding="utf-8").split())


def homes() -> dict[str, list[str]]:
    """The modules of every public class, by its name."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(SOURCE).as_posix())
    return found


def test_a_class_name_is_taken_once():
    again = {name: files for name, files in homes().items() if len(files) > 1 and name not in TWICE}
    assert again == {}


def test_the_list_of_exceptions_is_short_of_nothing_it_could_lose():
    found = homes()
    assert {name for name in TWICE if len(found[name]) < 2} == set()
