"""What `finitewidth lab` does and prints."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from finitewidth.cli.claim_processes import records_of, records_of_cluster
from finitewidth.cli.console import messages, output
from finitewidth.course._lab.claim import Claim, Scale
from finitewidth.course._lab.ledger import decisive, last_record, strain, write_ledger
from finitewidth.course._lab.registry import chapter_claims, claim, claims, own_claims
from finitewidth.course._lab.runner import describe
from finitewidth.course._lab.teeth import factor_words

Record = Mapping[str, Any]


def described(records: Path) -> list[dict[str, Any]]:
    """Every claim in the order of the book, with the verdict, date, scale, seed and cost of its last run."""
    parts = ("holds", "date", "scale", "seed", "seconds")
    found = [(c, last_record(c.id, records)) for c in claims()]
    return [describe(c) | {"last": last and {part: last.get(part) for part in parts}} for c, last in found]


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


def print_claim(c: Claim, last: Record | None) -> None:
    """Statement, source and last run of one claim."""
    output.print(
        f"[cyan]{c.id}[/]: {escape(c.title)}", f"[dim]{escape(c.chapter)}[/]\n", sep="\n", highlight=False
    )
    output.print(escape(c.statement), highlight=False)
    output.print(f"\n[bold]Source[/]  {escape(c.source)}", highlight=False)
    run = "" if last is None else f", {last['scale']} scale, seed {last['seed']}, {last['date']}"
    output.print(f"[bold]Last run[/]  {_coloured(_last_verdict(last))}{run}", highlight=False)


def _last_verdict(last: Record | None) -> str:
    if last is None:
        return "-"
    seconds = f"{last['seconds']:7.1f} s" if "seconds" in last else ""
    return f"{'holds' if last['holds'] else 'fails'}{seconds}"


def _coloured(verdict: str) -> str:
    colour = {"h": "green", "f": "bold red"}.get(verdict[0])
    return f"[{colour}]{verdict}[/]" if colour else verdict


def chosen(names: list[str], everything: bool) -> list[Claim]:
    """The claims with these ids and of these chapters, each once, or all."""
    if everything == bool(names):
        raise ValueError(
            "lab run takes ids of claims and names of chapters, or --all; `finitewidth lab list` shows both."
        )
    found = claims() if everything else [c for name in names for c in _called(name)]
    return list({c.id: c for c in found}.values())


def _called(name: str) -> tuple[Claim, ...]:
    """The claims of a file or a chapter of this name, or the one with this id."""
    if ":" in name:
        return own_claims(name)
    return chapter_claims(name) or (claim(name),)


def run_all(
    chosen: Sequence[Claim],
    scale: Scale,
    seed: int,
    out: Path,
    jobs: int,
    scheduler: str | None = None,
    teeth: bool = False,
) -> list[dict[str, Any]]:
    """Run claims and save each, with a bar that says how far it is; their records in the order given."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    # Those that took longest come first, so that no process is left with a long one at the end.
    last = {c.id: last_record(c.id, out) or {} for c in chosen}
    longest_first = sorted(chosen, key=lambda c: -last[c.id].get("seconds", 0.0))
    found = {}
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        task = progress.add_task("the first claims", total=len(chosen))
        running = (
            records_of(longest_first, scale, seed, out, jobs, teeth)
            if scheduler is None
            else records_of_cluster(longest_first, scale, seed, out, scheduler, teeth)
        )
        for record in running:
            found[record["id"]] = record
            failing = sum(not done["holds"] for done in found.values())
            words = record["id"] + (f", {failing} failing so far" if failing else "")
            progress.update(task, description=words, advance=1)
    write_ledger(claims(), out)
    return [found[c.id] for c in chosen]


def verdicts(records: Sequence[Record]) -> Table:
    """One row for each claim: its prediction, its measurement and whether they agree."""
    table = Table(caption="Of each claim, the comparison closest to its tolerance.", caption_justify="left")
    table.show_lines = True
    table.add_column("claim", overflow="fold", min_width=22)
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("statistic", overflow="fold", max_width=max(20, output.width - 60))
    table.add_column("verdict", no_wrap=True)
    for record in records:
        check = decisive(record)
        sign = "≤" if check["holds"] else ">"
        error = f"\n± {check['sem']:.1g}" if check["sem"] else ""
        distance = f"{_number(check['statistic'], 2)} {sign} {_number(check['tolerance'], 2)}"
        table.add_row(
            f"[cyan]{record['id']}[/]\n{escape(record['title'])}",
            _number(check["predicted"], 5),
            _number(check["measured"], 5) + error,
            escape(f"{check['name']}:\n{check['criterion']}\n{distance}{allowance(check)}"),
            ("[green]holds[/]" if record["holds"] else "[bold red]fails[/]") + f"\n{record['seconds']:.1f} s",
        )
    return table


def teeth(records: Sequence[Record]) -> Table:
    """One row for each prediction: the factor by which it may be wrong before the claim fails."""
    table = Table(
        caption="Each prediction alone is made too large and too small; shown is the factor from which on "
        "the verdict notices. Zero moves by parts of its unit: 1.3 stands for 0.3 of it.",
        caption_justify="left",
    )
    table.add_column("claim", overflow="fold")
    table.add_column("prediction", overflow="fold")
    for name in ("too large", "too small", "states"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        for i, tooth in enumerate(record["teeth"]):
            bound = {"above": "an upper bound", "below": "a lower bound"}.get(tooth["bound"], "")
            remark = bound or ("" if tooth["sign"] else "[bold red]the other sign passes[/]")
            colour = "green" if tooth["sharp"] else "bold red"
            table.add_row(
                f"[cyan]{record['id']}[/]" if i == 0 else "",
                escape(tooth["quantity"]) + (f"\n{remark}" if remark else ""),
                *(
                    "" if tooth["bound"] == side else f"[{colour}]{factor_words(tooth[way])}[/]"
                    for way, side in (("larger", "above"), ("smaller", "below"))
                ),
                f"{tooth['stated']:g}",
            )
        table.add_section()
    return table


def blunt(records: Sequence[Record]) -> list[str]:
    """One sentence for every prediction in which a claim notices less than it states."""
    return [
        f"{record['id']}, {tooth['quantity']}: a wrong sign is not noticed."
        if not tooth["sign"]
        else f"{record['id']}, {tooth['quantity']}: should notice a factor of {tooth['stated']:g}, "
        f"notices {factor_words(tooth['notices'])}."
        for record in records
        for tooth in record["teeth"]
        if not tooth["sharp"]
    ]


def failures(records: Sequence[Record]) -> list[str]:
    """One sentence for every comparison that failed: which claim, what, and by how much."""
    return [
        f"{record['id']}, seed {record['seed']}, {check['name']}: predicted "
        f"{_number(check['predicted'], 5)}, measured {_number(check['measured'], 5)}; {check['criterion']} "
        f"{_number(check['statistic'], 3)}, {_number(strain(check), 3)} times what is allowed."
        for record in records
        for check in record["checks"]
        if not check["holds"]
    ]


def allowance(check: Mapping[str, Any]) -> str:
    """What a comparison forgives beside noise, by name and size, and what a z-score would be without it."""
    if not check.get("allowed_for"):
        return ""
    without = f", without it {_number(check['unforgiven'], 2)}" if check["criterion"] == "z-score" else ""
    return f"\nallows {_number(check['allowance'], 2)} for {check['allowed_for']}{without}"


def _number(value: float | None, digits: int) -> str:
    return "not finite" if value is None else f"{value:.{digits}g}"


def false_alarms(records: Sequence[Record]) -> str:
    """How much a failure means."""
    noisy = sum(check["false_alarm"] > 0 for record in records for check in record["checks"])
    if not noisy and all(record["deterministic"] for record in records):
        return "Nothing compared here is random, so that no failure is a false alarm."
    if not noisy:
        return (
            "Networks or data are random here, but nothing that is compared has noise, so that no failure is "
            "a false alarm: it is a case for which the claim is wrong."
        )
    total = sum(record["false_alarm"] for record in records)
    comparisons = "1 comparison" if noisy == 1 else f"{noisy} comparisons"
    return (
        f"{comparisons} with noise: if every claim here is true, a run with random keys fails with a "
        f"probability of at most {100 * total:.2g} %."
    )
