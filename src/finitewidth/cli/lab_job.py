"""What `finitewidth lab run` does and prints."""

from pathlib import Path

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from finitewidth.cli.console import messages
from finitewidth.lab.claim import Claim, Outcome, Scale
from finitewidth.lab.registry import claim, claims
from finitewidth.lab.runner import run_claim, save


def chosen(ids: list[str], everything: bool) -> list[Claim]:
    """The claims with these ids, or all."""
    if everything == bool(ids):
        raise ValueError("lab run takes either ids of claims or --all; `finitewidth lab list` shows the ids.")
    return list(claims()) if everything else [claim(id) for id in ids]


def run_all(chosen: list[Claim], scale: Scale, seed: int, out: Path) -> list[Outcome]:
    """Run claims one by one and save each, with a bar that says how far it is."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    outcomes = []
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        task = progress.add_task("", total=len(chosen))
        for c in chosen:
            progress.update(task, description=c.id)
            outcome = run_claim(c, scale, seed)
            save(outcome, out)
            outcomes.append(outcome)
            progress.advance(task)
    return outcomes


def verdicts(outcomes: list[Outcome]) -> Table:
    """One row for each claim: its prediction, its measurement and whether they agree."""
    table = Table(caption="Of each claim, the comparison closest to its tolerance.", caption_justify="left")
    table.show_lines = True
    table.add_column("claim", overflow="fold", min_width=22)
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("statistic", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for outcome in outcomes:
        check = outcome.verdict.decisive
        sign = "≤" if check.holds else ">"
        table.add_row(
            f"[cyan]{outcome.claim.id}[/]\n{escape(outcome.claim.title)}",
            f"{check.predicted:.5g}",
            f"{check.measured:.5g}",
            escape(f"{check.name}:\n{check.criterion}\n{check.statistic:.2g} {sign} {check.tolerance:.2g}"),
            ("[green]holds[/]" if outcome.holds else "[bold red]fails[/]") + f"\n{outcome.seconds:.1f} s",
        )
    return table
