"""`finitewidth lab`: every theorem with its prediction, its measurement and the verdict."""

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer

from finitewidth.cli import options
from finitewidth.cli.console import output, say
from finitewidth.cli.help import Command, Group
from finitewidth.cli.outputs import check_folder

lab = typer.Typer(
    name="lab",
    cls=Group,
    help="Every theorem as a check: theory against real networks.",
    no_args_is_help=True,
)


@lab.command("list", cls=Command)
def list_claims(as_json: options.Json = False, traceback: options.Traceback = False) -> None:
    """List the claims by chapter, with what they state and where they come from."""
    from rich.markup import escape
    from rich.table import Table

    from finitewidth.lab.registry import claims
    from finitewidth.lab.runner import describe

    chapters = list(dict.fromkeys(c.chapter for c in claims()))
    by_chapter = sorted(claims(), key=lambda c: chapters.index(c.chapter))
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


@lab.command("run", cls=Command)
def run_claims(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of claims; see `finitewidth lab list`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every claim.")] = False,
    scale: Annotated[
        Literal["quick", "full"], typer.Option(help="Seconds per claim, or the figures of the book.")
    ] = "quick",
    out: Annotated[Path, options.path("--out", "Directory for figures and JSON files.")] = Path("lab"),
    seed: Annotated[
        int, options.whole_number("--seed", "Seed of the random key.", 0, options.LARGEST_SEED)
    ] = 0,
    as_json: options.Json = False,
    traceback: options.Traceback = False,
) -> None:
    """Run claims, print the verdicts, save a figure and a JSON file for each; exit code 1 if one fails."""
    check_folder(out)
    from finitewidth.cli.lab_job import chosen, run_all, verdicts
    from finitewidth.lab.runner import record

    outcomes = run_all(chosen(ids or [], everything), scale, seed, out)
    if as_json:
        typer.echo(json.dumps([record(outcome) for outcome in outcomes], indent=1))
    else:
        output.print(verdicts(outcomes))
        say(output, f"Figures and numbers are in {out}.")
    if not all(outcome.holds for outcome in outcomes):
        raise typer.Exit(1)
