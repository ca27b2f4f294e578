"""`finitewidth lab`: every theorem with its prediction, its measurement and the verdict."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from finitewidth.cli import options
from finitewidth.cli.console import messages, note, output, say
from finitewidth.cli.help import Command, Group
from finitewidth.cli.outputs import check_folder

lab = typer.Typer(
    name="lab",
    cls=Group,
    help="Every theorem as a check: theory against real networks.",
    no_args_is_help=True,
)

Records = Annotated[Path, options.path("--out", "Directory with the JSON files of earlier runs.")]


@lab.command("list", cls=Command)
def list_claims(
    out: Records = Path("lab"), as_json: options.Json = False, traceback: options.Traceback = False
) -> None:
    """List the claims by chapter, one line each: id, title, and verdict and seconds of the last run."""
    from finitewidth.cli.lab_job import described, print_list

    if as_json:
        typer.echo(json.dumps(described(out), indent=1))
    else:
        print_list(out)


@lab.command("show", cls=Command)
def show_claim(
    id: Annotated[str, typer.Argument(help="Id of a claim; see `finitewidth lab list`.")],
    out: Records = Path("lab"),
    as_json: options.Json = False,
    traceback: options.Traceback = False,
) -> None:
    """Show what a claim states, where it comes from, and what its last run found."""
    from finitewidth.cli.lab_job import print_claim
    from finitewidth.course._lab.ledger import last_record
    from finitewidth.course._lab.registry import claim
    from finitewidth.course._lab.runner import describe

    if as_json:
        typer.echo(json.dumps(describe(claim(id)) | {"last": last_record(id, out)}, indent=1))
    else:
        print_claim(claim(id), last_record(id, out))


@lab.command("run", cls=Command)
def run_claims(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of claims, chapters such as criticality, or your own claims: path/file.py:NAME."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every claim.")] = False,
    scale: Annotated[
        Literal["quick", "full"], typer.Option(help="Seconds per claim, or the figures of the book.")
    ] = "quick",
    out: Annotated[Path, options.path("--out", "Directory for figures and JSON files.")] = Path("lab"),
    seed: Annotated[
        int | None,
        options.whole_number("--seed", "Seed of the random key; 0 by default.", 0, options.LARGEST_SEED),
    ] = None,
    jobs: Annotated[
        int | None,
        options.whole_number(
            "--jobs", "Processes at once; by default one for four claims, at most 4.", 1, 256
        ),
    ] = None,
    scheduler: options.Scheduler = None,
    teeth: Annotated[
        bool, typer.Option("--teeth", help="Make each prediction wrong in turn: which errors are noticed?")
    ] = False,
    as_json: options.Json = False,
    traceback: options.Traceback = False,
) -> None:
    """Run claims, print the verdicts, save a figure and a JSON file for each; exit code 1 if one fails.

    With --teeth also if one notices less than it states.
    """
    check_folder(out)
    from finitewidth.cli import lab_job
    from finitewidth.cli.claim_processes import default_jobs
    from finitewidth.cli.lab_job import chosen, failures, false_alarms, run_all, verdicts

    asked = chosen(names or [], everything)
    fixed = [c.id for c in asked if c.deterministic]
    if seed is not None and fixed:
        note(f"--seed changes nothing in {', '.join(fixed)}: no random numbers are drawn there.")
    records = run_all(asked, scale, seed or 0, out, jobs or default_jobs(len(asked)), scheduler, teeth)
    if as_json:
        typer.echo(json.dumps(records, indent=1))
    else:
        output.print(verdicts(records))
        if teeth:
            output.print(lab_job.teeth(records))
        say(output, false_alarms(records))
        say(output, f"Figures and numbers are in {out}, a summary in {out / 'ledger.json'}.")
    for failure in failures(records):
        say(messages, failure, "fails:", "bold red")
    dull = lab_job.blunt(records) if teeth else []
    for sentence in dull:
        say(messages, sentence, "blunt:", "bold red")
    if dull or not all(record["holds"] for record in records):
        raise typer.Exit(1)
