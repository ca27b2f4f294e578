"""What `finitewidth lab` does and prints."""

from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from finitewidth.cli.console import messages, output
from finitewidth.engines import DaskCluster
from finitewidth.lab.framework.claim import Claim, Outcome, Scale
from finitewidth.lab.framework.registry import claim, claims
from finitewidth.lab.framework.runner import (
    describe,
    from_worker,
    last_record,
    run_claim,
    run_on_worker,
    save,
)


def described(records: Path) -> list[dict[str, Any]]:
    """Every claim in the order of the book, with the verdict, date, scale and seed of its last run."""
    parts = ("holds", "date", "scale", "seed")
    found = [(c, last_record(c.id, records)) for c in claims()]
    return [describe(c) | {"last": last and {part: last[part] for part in parts}} for c, last in found]


def print_list(records: Path) -> None:
    """One line for each claim, under the title of its chapter."""
    ordered = claims()
    verdicts = {c.id: _last_verdict(last_record(c.id, records)) for c in ordered}
    ids, titles = (max(len(getattr(c, part)) for c in ordered) for part in ("id", "title"))
    if output.is_terminal:
        titles = min(titles, output.width - ids - max(map(len, verdicts.values())) - 4)
    for chapter, group in groupby(ordered, key=lambda c: c.chapter):
        output.print(f"[bold]{escape(chapter)}[/]", highlight=False)
        for c in group:
            title = c.title if len(c.title) <= titles else c.title[: titles - 1] + "…"
            line = f"[cyan]{c.id:{ids}}[/]  {escape(f'{title:{titles}}')}  {_coloured(verdicts[c.id])}"
            output.print(line, highlight=False, soft_wrap=True)


def print_claim(c: Claim, last: dict[str, Any] | None) -> None:
    """Statement, source and last run of one claim."""
    output.print(
        f"[cyan]{c.id}[/]: {escape(c.title)}", f"[dim]{escape(c.chapter)}[/]\n", sep="\n", highlight=False
    )
    output.print(escape(c.statement), highlight=False)
    output.print(f"\n[bold]Source[/]  {escape(c.source)}", highlight=False)
    run = "" if last is None else f", {last['scale']} scale, seed {last['seed']}"
    output.print(f"[bold]Last run[/]  {_coloured(_last_verdict(last))}{run}", highlight=False)


def _last_verdict(last: dict[str, Any] | None) -> str:
    return "-" if last is None else f"{'holds' if last['holds'] else 'fails'} {last['date']}"


def _coloured(verdict: str) -> str:
    colour = {"h": "green", "f": "bold red"}.get(verdict[0])
    return f"[{colour}]{verdict}[/]" if colour else verdict


def chosen(ids: list[str], everything: bool) -> list[Claim]:
    """The claims with these ids, or all."""
    if everything == bool(ids):
        raise ValueError("lab run takes either ids of claims or --all; `finitewidth lab list` shows the ids.")
    return list(claims()) if everything else [claim(id) for id in ids]


def run_all(
    chosen: list[Claim], scale: Scale, seed: int, out: Path, scheduler: str | None = None
) -> list[Outcome]:
    """Run claims and save each, with a bar that says how far it is: one by one, or on a Dask cluster."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    outcomes: dict[str, Outcome] = {}
    with (
        Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress,
        nullcontext() if scheduler is None else DaskCluster(scheduler) as cluster,
    ):
        task = progress.add_task("", total=len(chosen))
        if cluster is None:
            found = (run_claim(_named(c, progress, task), scale, seed) for c in chosen)
        else:
            progress.update(task, description=f"claims at {scheduler}")
            found = map(from_worker, cluster.map(run_on_worker, [c.id for c in chosen], scale, seed))
        for outcome in found:
            save(outcome, out)
            outcomes[outcome.claim.id] = outcome
            progress.advance(task)
    return [outcomes[c.id] for c in chosen]


def _named(c: Claim, progress: Progress, task: TaskID) -> Claim:
    progress.update(task, description=c.id)
    return c


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
            f"{check.measured:.5g}" + (f"\n± {check.sem:.1g}" if check.sem else ""),
            escape(f"{check.name}:\n{check.criterion}\n{check.statistic:.2g} {sign} {check.tolerance:.2g}"),
            ("[green]holds[/]" if outcome.holds else "[bold red]fails[/]") + f"\n{outcome.seconds:.1f} s",
        )
    return table


def false_alarms(outcomes: list[Outcome]) -> str:
    """How much a failure means."""
    noisy = sum(check.false_alarm > 0 for outcome in outcomes for check in outcome.verdict.checks)
    if not noisy:
        return "Nothing compared here is random, so that no failure is a false alarm."
    total = sum(outcome.verdict.false_alarm for outcome in outcomes)
    comparisons = "1 comparison" if noisy == 1 else f"{noisy} comparisons"
    return (
        f"{comparisons} with noise: if every claim here is true, a run with random keys fails with a "
        f"probability of at most {100 * total:.2g} %."
    )
