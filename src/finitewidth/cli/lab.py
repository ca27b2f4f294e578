"""`finitewidth lab`: every theorem with its prediction, its measurement and the verdict."""

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from finitewidth.cli.console import messages, output
from finitewidth.lab.claim import Claim, Outcome, Scale
from finitewidth.lab.registry import claim, claims
from finitewidth.lab.runner import describe, record, run_claim, save

lab = typer.Typer(
    name="lab", help="Every theorem as a check: theory against real networks.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output on standard output.")]


@lab.command("list")
def list_claims(as_json: AsJson = False) -> None:
    """List the claims by chapter, with what they state and where they come from."""
    by_chapter = sorted(claims(), key=lambda c: _chapters().index(c.chapter))
    if as_json:
        typer.echo(json.dumps([describe(c) for c in by_chapter], indent=1))
        return
    for chapter, group in groupby(by_chapter, key=lambda c: c.chapter):
        table = Table(title=chapter, title_justify="left", title_style="bold", show_lines=True)
        table.add_column("id", style="cyan", no_wrap=True)
        table.add_column("statement", ratio=3)
        table.add_column("source", ratio=2, style="dim")
        for c in group:
            table.add_row(c.id, escape(c.statement), escape(c.source))
        output.print(table)


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
            f"{check.measured:.5g}",
            escape(f"{check.name}:\n{check.criterion}\n{check.statistic:.2g} {sign} {check.tolerance:.2g}"),
            ("[green]holds[/]" if outcome.holds else "[bold red]fails[/]") + f"\n{outcome.seconds:.1f} s",
        )
    return table
