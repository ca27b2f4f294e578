"""Writes the ledger of claims: python docs/ledger.py --scale quick|full [--reuse]

Runs every claim of the laboratory and turns the records into pages: an overview, and one page per
chapter with a section per claim. Records go to build/lab-SCALE. With --reuse, records there that are
newer than every source file are taken as they are; the test run leaves those of quick scale. With
--records DIR nothing is run: the pages show what an earlier `finitewidth lab run --all --out DIR` found.
"""

import argparse
import json
import re
import shutil
from itertools import groupby
from pathlib import Path

from finitewidth.course._lab.ledger import decisive
from finitewidth.course._lab.teeth import factor_words

DOCS = Path(__file__).resolve().parent
SOURCE = DOCS.parent / "src" / "finitewidth"
LEDGER = DOCS / "ledger"


def main() -> None:
    """Collect the records, then write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("quick", "full"), default="quick")
    parser.add_argument("--reuse", action="store_true", help="keep records newer than the source code")
    parser.add_argument("--records", type=Path, help="run nothing, show the records of this folder")
    options = parser.parse_args()
    results = options.records or DOCS.parent / "build" / f"lab-{options.scale}"
    if options.records is None:
        run_claims(results, options.scale, options.reuse)
    write_pages(load(results), results)


def run_claims(results: Path, scale: str, reuse: bool) -> None:
    """A record and a figure of every claim, run unless they can be reused."""
    from finitewidth import course as lab

    newest_source = max(path.stat().st_mtime for path in SOURCE.rglob("*.py"))
    for claim in lab.claims():
        files = [results / f"{claim.id}{suffix}" for suffix in (".json", ".png")]
        fresh = all(file.exists() and file.stat().st_mtime > newest_source for file in files)
        if not (reuse and fresh):
            lab.run(claim.id, scale, out=results, teeth=True)


def load(results: Path) -> list[dict]:
    """The records of all claims, in the order of the book."""
    from finitewidth import course as lab

    return [json.loads((results / f"{c.id}.json").read_text(encoding="utf-8")) for c in lab.claims()]


def write_pages(records: list[dict], results: Path) -> None:
    """Overview, chapter pages, figures, the chapters for the navigation, and the place of every claim."""
    shutil.rmtree(LEDGER, ignore_errors=True)
    LEDGER.mkdir(parents=True)
    order = list(dict.fromkeys(record["chapter"] for record in records))
    records = sorted(records, key=lambda record: order.index(record["chapter"]))
    chapters = {name: list(group) for name, group in groupby(records, key=lambda record: record["chapter"])}
    (LEDGER / "index.md").write_text(overview(chapters), encoding="utf-8")
    for name, group in chapters.items():
        (LEDGER / f"{slug(name)}.md").write_text(chapter_page(name, group), encoding="utf-8")
    for record in records:
        shutil.copy(results / record["figure"], LEDGER / record["figure"])
    navigation = [{name: f"ledger/{slug(name)}.md"} for name in chapters]
    (LEDGER / "chapters.json").write_text(json.dumps(navigation), encoding="utf-8")
    places = {record["id"]: f"ledger/{slug(record['chapter'])}.md#{record['id']}" for record in records}
    (LEDGER / "claims.json").write_text(json.dumps(places), encoding="utf-8")


def overview(chapters: dict[str, list[dict]]) -> str:
    """The table of all claims."""
    records = [record for group in chapters.values() for record in group]
    holding = sum(record["holds"] for record in records)
    lines = [
        "# Ledger of claims",
        "",
        f"{holding} of {len(records)} claims hold at {records[0]['scale']} scale. This page is generated:",
        "its numbers come from a run of the laboratory.",
        "",
        "A claim has a prediction, computed from the theory, and a measurement on random networks or by",
        "direct integration. It holds when the statistic is within its tolerance: what the theory itself",
        "allows, which is part of the claim, and what noise may add. Of several comparisons the table shows",
        "the one closest to its tolerance. See [The laboratory](../guide/lab.md) for how to run a claim",
        "yourself.",
        "",
        "A verdict that would pass whatever the theory said is worth nothing. So each prediction alone is",
        "made larger and smaller, and the verdict asked again: *notices* is the factor from which on the",
        "claim fails, for its dullest prediction. Bounds need not be close, and are left out of this column.",
        "",
        false_alarms(records),
        "",
    ]
    for name, group in chapters.items():
        lines += [
            f"## {name}",
            "",
            "| claim | in short | verdict | statistic | tolerance | notices |",
            "|---|---|---|---|---|---:|",
        ]
        for record in group:
            check = decisive(record)
            lines.append(
                f"| [{record['id']}]({slug(name)}.md#{record['id']}) | {text(record['title'])} | "
                f"{verdict(record['holds'])} | {number(check['statistic'], 2)} ({check['criterion']}) | "
                f"{number(check['tolerance'], 2)} | {notices(record)} |"
            )
        lines.append("")
    return "\n".join(lines)


def false_alarms(records: list[dict]) -> str:
    """How often such a run fails although every claim is true."""
    noisy = sum(check["false_alarm"] > 0 for record in records for check in record["checks"])
    total = sum(record["false_alarm"] for record in records)
    return (
        f"{noisy} of the comparisons have noise. If every claim is true, a run with random keys still has "
        f"a failing one with a probability of at most {100 * total:.2g} %."
    )


def notices(record: dict) -> str:
    """The factor that a claim notices in its dullest prediction that is no bound."""
    if record.get("teeth") is None:
        return "-"
    factors = [tooth["notices"] for tooth in record["teeth"] if tooth["bound"] is None]
    return factor_words(None if None in factors else max(factors)) if factors else "a bound"


def chapter_page(name: str, group: list[dict]) -> str:
    """One chapter, a section per claim."""
    lines = [f"# {name}", ""]
    for record in group:
        lines += [
            f"## {sentence(text(record['title']))} {{ #{record['id']} }}",
            "",
            text(record["statement"]),
            "",
            f"[![{caption(record)}]({record['figure']})]({record['figure']})",
            "",
            f"Verdict: {verdict(record['holds'])}.",
            "",
            "| compared | predicted | measured | by | statistic | verdict |",
            "|---|---:|---:|---|---:|---|",
            *(check_row(check) for check in record["checks"]),
            "",
            *allowances(record),
            *teeth_lines(record),
            f"*Source:* {text(record['source'])}.",
            "",
            f"*Run:* `finitewidth lab run {record['id']} --scale {record['scale']} --seed {record['seed']}`; "
            f"random key {record['seed']}, {record['dtype']}, {settings(record)}.",
            "",
        ]
    return "\n".join(lines)


def allowances(record: dict) -> list[str]:
    """What comparisons forgive beside noise: by name, with its largest size."""
    named = [check for check in record["checks"] if check.get("allowed_for") not in (None, "", "rounding")]
    if not named:
        return []
    words = [
        f"{text(check['name'])}: {number(check['allowance'], 2)} for {text(check['allowed_for'])}"
        + (
            f" (z-score without it {number(check['unforgiven'], 2)})"
            if check["criterion"] == "z-score"
            else ""
        )
        for check in named
    ]
    return [f"*Allows* {'; '.join(words)}.", ""]


def teeth_lines(record: dict) -> list[str]:
    """By which factor each prediction may be wrong before the claim fails."""
    if not record.get("teeth"):
        return []
    side = {"above": ", an upper bound", "below": ", a lower bound", None: ""}
    words = [
        f"{text(tooth['quantity'])}{side[tooth['bound']]}: {factor_words(tooth['notices'])}"
        for tooth in record["teeth"]
    ]
    return [f"*Notices a factor of:* {'; '.join(words)}.", ""]


def check_row(check: dict) -> str:
    """One comparison as a row of a table."""
    sign = "≤" if check["holds"] else ">"
    return (
        f"| {text(check['name'])} | {number(check['predicted'], 5)} | {measured(check)} | "
        f"{check['criterion']} | {number(check['statistic'], 2)} {sign} {number(check['tolerance'], 2)} | "
        f"{verdict(check['holds'])} |"
    )


def measured(check: dict) -> str:
    """The measured number with its standard error, if it has one."""
    error = f" ± {number(check['sem'], 1)}" if check["sem"] != 0 else ""
    return number(check["measured"], 5) + error


def settings(record: dict) -> str:
    """The numbers that fix the size of the experiment."""
    plain = {k: v for k, v in record["setting"].items() if isinstance(v, int | float | str)}
    lists = {
        k: v
        for k, v in record["setting"].items()
        if isinstance(v, list) and len(v) <= 8 and all(isinstance(e, int | float | str) for e in v)
    }
    shown = [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in plain.items()] + [
        f"{k} {', '.join(str(e) for e in v)}" for k, v in lists.items()
    ]
    return "; ".join(entry.replace("_", " ") for entry in shown)


_GREEK = {
    "alpha": "α", "chi": "χ", "eta": "η", "gamma": "γ", "kappa": "κ", "lambda": "λ", "phi": "φ", "Phi": "Φ",
    "pi": "π", "psi": "ψ", "rho": "ρ", "sigma": "σ", "theta": "θ", "Theta": "Θ",
}  # fmt: skip
_RAISED = str.maketrans("0123456789l", "⁰¹²³⁴⁵⁶⁷⁸⁹ˡ")
_INDEX = {"parallel": "∥", "perp": "⊥", "perpendicular": "⊥"}


def text(words: str) -> str:
    """Words of a claim for the page: formulas typed on one line become symbols, marks are escaped."""
    words = re.sub(r"K\^(?=[\s)\]])", "K̂", words)
    words = re.sub(r"<(?=\S)", "⟨", words)
    words = re.sub(r"(?<=\S)>", "⟩", words)
    words = re.sub(r"([\\`*|\[\]])", r"\\\1", words.replace("<", "&lt;").replace(">", "&gt;"))
    words = re.sub(r"\bsum(?=_| \d)", "∑", words)
    words = re.sub(r"\bprod(?=_|\()", "∏", words)
    words = re.sub(r"sqrt\((\w+)\)", r"√\1", words)
    words = re.sub(r"\^([0-9l])(?![\w/])", lambda m: m[1].translate(_RAISED), words)
    words = re.sub(r"\^\((-?\d+(?:/\d+)?)\)", r"^\1", words)
    words = re.sub(r"\^(\([^)]*\)|-?\d+(?:/\d+)?|[a-zT])", r"<sup>\1</sup>", words)
    words = re.sub(
        r"(?<=[A-Za-z⟩∑∏'])_([A-Za-z0-9]+)", lambda m: f"<sub>{_INDEX.get(m[1], m[1])}</sub>", words
    )
    return re.sub(r"(?<![A-Za-z])(" + "|".join(_GREEK) + r")(?![A-Za-z])", lambda m: _GREEK[m[1]], words)


def caption(record: dict) -> str:
    """What the figure shows, in words."""
    return re.sub(r"[\[\]]", "", f"{record['title']}: theory and measurement")


def sentence(words: str) -> str:
    """The same words with a capital first letter, unless they open with a symbol or a name such as dNTK."""
    first, _, _ = words.partition(" ")
    plain = first.isalpha() and first.islower() and len(first) > 1
    return words[0].upper() + words[1:] if plain else words


def verdict(holds: bool) -> str:
    """A verdict in colour."""
    return '<span class="holds">holds</span>' if holds else '<span class="fails">fails</span>'


def number(value: float | None, digits: int) -> str:
    """A number to a few digits; None stands for what JSON cannot say."""
    return "not finite" if value is None else f"{value:.{digits}g}"


def slug(name: str) -> str:
    """A chapter's name as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


if __name__ == "__main__":
    main()
