"""What the runs of claims left in a folder: the last record of each, and one file about all of them."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finitewidth._base.whole_files import whole_file
from finitewidth.course._lab.claim import Claim

Record = Mapping[str, Any]


def last_record(id: str, directory: Path) -> dict[str, Any] | None:
    """What the last run of a claim left in a directory, with its date; None if there is nothing."""
    path = directory / f"{id}.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        date = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        if found["id"] != id or not isinstance(found["holds"], bool):
            raise KeyError(id)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path} is not the record of a run of {id}; delete it or choose another --out."
        ) from None
    return found | {"date": date}


def decisive(record: Record) -> dict[str, Any]:
    """The comparison of a record that is closest to its tolerance, or furthest beyond it."""
    return max(record["checks"], key=strain)


def strain(check: Mapping[str, Any]) -> float:
    """The statistic of a comparison in units of its tolerance; a record has None for what is not finite."""
    statistic = check["statistic"]
    return math.inf if statistic is None else statistic / check["tolerance"]


def write_ledger(claims: Iterable[Claim], directory: Path) -> None:
    """Write ledger.json: of every claim the verdict, cost and decisive comparison of its last run there."""
    entries = [_entry(claim, last_record(claim.id, directory)) for claim in claims]
    verdicts = [entry["holds"] for entry in entries]
    summary = {
        "claims": len(entries),
        "hold": verdicts.count(True),
        "fail": verdicts.count(False),
        "not run": verdicts.count(None),
        "cpu_seconds": round(sum(entry.get("cpu_seconds", 0.0) for entry in entries), 1),
    }
    with whole_file(directory / "ledger.json") as file:
        file.write((json.dumps({"summary": summary, "entries": entries}, indent=1) + "\n").encode())


def _entry(claim: Claim, last: Record | None) -> dict[str, Any]:
    entry = {"id": claim.id, "title": claim.title, "chapter": claim.chapter}
    if last is None:
        return entry | {"holds": None}
    parts = ("holds", "scale", "seed", "date", "seconds", "cpu_seconds", "false_alarm")
    return entry | {part: last[part] for part in parts if part in last} | {"decisive": decisive(last)}
