"""Whether `fw.diagnose` finds what is wrong, and is quiet where nothing is.

`python benchmarks/diagnose.py` trains thirty healthy networks, of kinds on which no threshold was chosen, and
eighteen sick ones, three for each fault. It prints the tables and stores them in `benchmarks/README.md`.
`--only digits` looks at those whose names contain the word, and stores nothing.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path

import machine
import torch
from healthy_models import HEALTHY
from sick_models import SICK
from trained_models import Trained

import finitewidth as fw

_README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- diagnose: begin -->", "<!-- diagnose: end -->"


def diagnosed(found: Trained) -> fw.Diagnosis:
    """With the step that it was trained with."""
    return fw.diagnose(
        found.model,
        found.data.x,
        found.data.y,
        params=found.params,
        learning_rate=found.learning_rate,
        optimizer=found.optimizer,
    )


def row(name: str, expected: str | None, make) -> tuple[str, bool]:
    """One line of a table, and whether the verdict is right."""
    torch.manual_seed(0)
    trained = make()
    begin = time.perf_counter()
    found = diagnosed(trained)
    seconds = time.perf_counter() - begin
    faults = [fault.name for fault in found.faults]
    notes = ", ".join(finding.name for finding in found.notes) or "-"
    right = not faults if expected is None else any(expected in fault for fault in faults)
    framework = "PyTorch" if isinstance(trained.model, torch.nn.Module) else "JAX"
    asked = () if expected is None else (expected,)
    named = (", ".join(faults) or "none") + ("" if right else " **wrong**")
    cells = (name, framework, f"{found.parameters:,}", f"{trained.score:.2f}", *asked, named, notes)
    line = f"| {' | '.join(cells)} | {seconds:.1f} s |"
    print(line, flush=True)
    return line, right


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="look at those whose names contain this")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    head = "| network | | parameters | score | {}faults | notes | time |\n|---|---|---|---|{}---|---|---|"
    heads = head.format("", ""), head.format("wrong with it | ", "---|")
    healthy = {name: make for name, make in HEALTHY.items() if only in name}
    sick = {name: pair for name, pair in SICK.items() if only in name}
    print(heads[0])
    first = [row(name, None, make) for name, make in healthy.items()]
    print(heads[1])
    second = [row(name, expected, make) for name, (expected, make) in sick.items()]
    alarms, missed = sum(not right for _, right in first), sum(not right for _, right in second)
    today = datetime.datetime.now(datetime.UTC).date()
    summary = (
        f"{today}, {machine.description()}; `python benchmarks/diagnose.py`. {alarms} false alarms on "
        f"{len(first)} healthy networks; {len(second) - missed} of {len(second)} sick ones found."
    )
    print(summary)
    if not only:
        tables = [[line for line, _ in rows] for rows in (first, second)]
        _store("\n".join([summary, "", heads[0], *tables[0], "", heads[1], *tables[1]]))
    sys.exit(alarms > 1 or missed > 0)


def _store(text: str) -> None:
    before, _, rest = _README.read_text().partition(_BEGIN)
    _README.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    main()
