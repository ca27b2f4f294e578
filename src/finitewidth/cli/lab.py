"""`finitewidth lab`: every theorem with its prediction, its measurement and the verdict."""

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from finitewidth.cli.console import messages, output
from finitewidth.lab.claim import Claim, Outcome, Scale
from finitewidth.lab.registry import claim, claims
from finitewidth.lab.runner import describe, last_record, record, run_claim, save

lab = typer.Typer(
    name="lab", help="Every theorem as a check: theory against real networks.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output on standard output.")]


Records = Annotated[Path, typer.Option("--out", help="Directory with the JSON files of earlier runs.")]


@lab.command("list")
def list_claims(out: Records = Path("lab"), as_json: AsJson = False) -> None:
    """List the claims by chapter, one line each: id, title and the verdict of the last run."""
    by_chapter = sorted(claims(), key=lambda c: _chapters().index(c.chapter))
    last = {c.id: last_record(c.id, out) for c in by_chapter}
    if as_json:
        typer.echo(json.dumps([describe(c) | {"last": _summary(last[c.id])} for c in by_chapter], indent=1))
        return
    ids, titles = (max(len(getattr(c, part)) for c in by_chapter) for part in ("id", "title"))
    verdicts = {id: _last_verdict(found) for id, found in last.items()}
    if output.is_terminal:
        titles = min(titles, output.width - ids - max(map(len, verdicts.values())) - 4)
    for chapter, group in groupby(by_chapter, key=lambda c: c.chapter):
        output.print(f"[bold]{escape(chapter)}[/]", highlight=False)
        for c in group:
            title = c.title if len(c.title) <= titles else c.title[: titles - 1] + "…"
            line = f"[cyan]{c.id:{ids}}[/]  {escape(f'{title:{titles}}')}  {_coloured(verdicts[c.id])}"
            output.print(line, highlight=False, soft_wrap=True)


@lab.command("show")
def show_claim(
    id: Annotated[str, typer.Argument(help="Id of a claim; see `finitewidth lab list`.")],
    out: Records = Path("lab"),
    as_json: AsJson = False,
) -> None:
    """Show what a claim states, where it comes from, and what its last run found."""
    c = claim(id)
    found = last_record(id, out)
    if as_json:
        typer.echo(json.dumps(describe(c) | {"last": found}, indent=1))
        return
    output.print(
        f"[cyan]{c.id}[/]: {escape(c.title)}", f"[dim]{escape(c.chapter)}[/]\n", sep="\n", highlight=False
    )
    output.print(escape(c.statement), highlight=False)
    output.print(f"\n[bold]Source[/]  {escape(c.source)}", highlight=False)
    run = f"{_coloured(_last_verdict(found))}"
    if found is not None:
        run += f", {found['scale']} scale, seed {found['seed']}"
    output.print(f"[bold]Last run[/]  {run}", highlight=False)


def _summary(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return found and {name: found[name] for name in ("holds", "date", "scale", "seed")}


def _last_verdict(found: dict[str, Any] | None) -> str:
    return "-" if found is None else f"{'holds' if found['holds'] else 'fails'} {found['date']}"


def _coloured(verdict: str) -> str:
    colour = {"h": "green", "f": "bold red"}.get(verdict[0])
    return f"[{colour}]{verdict}[/]" if colour else verdict


@lab.command("run")
def run_claims(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of claims; see `finitewidth lab list`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every claim.")] = False,
    scale: Annotated[
        Literal["quick", "full"], typer.Option(help="Seconds per claim, or the figures of the book.")
    ] = "quick",
    out: Annotated[Path, typer.Option(help="Directory for figures and JSON files.")] = Path("lab"),
    seed: Annotated[int | None, typer.Option(help="Seed of the random key.", show_default="0")] = None,
    as_json: AsJson = False,
) -> None:
    """Run claims, print the verdicts, save a figure and a JSON file for each; exit code 1 if one fails."""
    chosen = _chosen(ids or [], everything)
    if seed is not None:
        _name_those_without_randomness(chosen)
    outcomes = _run_all(chosen, scale, seed or 0, out)
    if as_json:
        typer.echo(json.dumps([record(outcome) for outcome in outcomes], indent=1))
    else:
        output.print(_verdicts(outcomes))
        output.print(_false_alarms(outcomes), highlight=False)
        output.print(f"Figures and numbers are in {out}.", highlight=False, soft_wrap=True)
    if not all(outcome.holds for outcome in outcomes):
        raise typer.Exit(1)


def _chapters() -> list[str]:
    """Chapter titles in the order in which they first appear."""
    return list(dict.fromkeys(c.chapter for c in claims()))


def _chosen(ids: list[str], everything: bool) -> list[Claim]:
    if everything == bool(ids):
        raise ValueError("lab run takes either ids of claims or --all; `finitewidth lab list` shows the ids.")
    return list(claims()) if everything else [claim(id) for id in ids]


def _name_those_without_randomness(chosen: list[Claim]) -> None:
    fixed = [c.id for c in chosen if c.deterministic]
    if fixed:
        sentence = f"--seed changes nothing in {', '.join(fixed)}: no random numbers are drawn there."
        messages.print(f"[yellow]warning:[/] {sentence}", highlight=False, soft_wrap=True)


def _run_all(chosen: list[Claim], scale: Scale, seed: int, out: Path) -> list[Outcome]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    outcomes = []
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for c in chosen:
            progress.update(task, description=c.id)
            outcome = run_claim(c, scale, seed)
            save(outcome, out)
            outcomes.append(outcome)
            progress.advance(task)
    return outcomes


def _false_alarms(outcomes: list[Outcome]) -> str:
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


def _verdicts(outcomes: list[Outcome]) -> Table:
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
