"""Whether `fw.diagnose` finds what is wrong, and is quiet where nothing is.

`python benchmarks/diagnose.py` trains thirty healthy networks that had no part in any rule, the sixty after
which rules were changed, and eighteen sick ones, three for each fault. It prints the tables and stores them
in `benchmarks/README.md`. `--only digits` looks at those whose names contain the word, `--group sick` at one
of the three groups; neither stores anything.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path

import machine
import torch
from healthy_models import HEALTHY
from other_healthy_models import OTHERS
from sick_models import SICK
from trained_models import Trained
from unseen_healthy_models import UNSEEN

import finitewidth as fw

_README = Path(__file__).parent / "README.md"
_GROUPS = ("unseen", "seen", "sick")
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
    parser.add_argument("--group", choices=_GROUPS, help="look at one group")
    only, group = (getattr(parser.parse_args(), name) for name in ("only", "group"))
    torch.set_num_threads(1)
    head = "| network | | parameters | score | {}faults | notes | time |\n|---|---|---|---|{}---|---|---|"
    heads = head.format("", ""), head.format("wrong with it | ", "---|")
    healthy = [{name: (None, make) for name, make in one.items()} for one in (UNSEEN, OTHERS | HEALTHY)]
    chosen = [
        {name: pair for name, pair in networks.items() if only in name and group in (None, of)}
        for of, networks in zip(_GROUPS, (*healthy, SICK), strict=True)
    ]
    tables, wrong = [], []
    for networks, title in zip(chosen, (heads[0], *heads), strict=True):
        print(title)
        rows = [row(name, expected, make) for name, (expected, make) in networks.items()]
        tables.append([title, *(line for line, _ in rows)])
        wrong.append(sum(not right for _, right in rows))
    today = datetime.datetime.now(datetime.UTC).date()
    summary = (
        f"{today}, {machine.description()}; `python benchmarks/diagnose.py`. {wrong[0]} false alarms on "
        f"{len(chosen[0])} healthy networks that had no part in any rule, {wrong[1]} on the "
        f"{len(chosen[1])} others; {len(chosen[2]) - wrong[2]} of {len(chosen[2])} sick ones found."
    )
    print(summary)
    if not only and group is None:
        _store("\n\n".join([summary, *("\n".join(table) for table in tables)]))
    sys.exit(wrong[0] > 1 or wrong[2] > 0)


def _store(text: str) -> None:
    before, _, rest = _README.read_text().partition(_BEGIN)
    _README.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    main()
