"""What `finitewidth diagnose` reads and prints."""

from pathlib import Path
from typing import Any

import jax
from rich.table import Table
from rich.text import Text

from finitewidth.cli.checkpoints import with_checkpoint
from finitewidth.cli.model_data import load_rows
from finitewidth.cli.model_source import load_model
from finitewidth.diagnosis import Diagnosis, diagnose
from finitewidth.diagnosis.words import factor, percent, short

_STYLES = {"fault": "bold red", "note": "yellow", "fine": ""}


def run_diagnosis(
    model: str,
    data: str,
    *,
    target: str | None,
    checkpoint: Path | None,
    start: Path | None,
    loss: str | None,
    scale: str,
    shape: str | None,
    seed: int,
    **settings: Any,
) -> Diagnosis:
    """Load what the command line names, and diagnose it."""
    rows = load_rows(data, target, scale, shape, loss)
    source = load_model(model)
    before = None if start is None else with_checkpoint(source, start)
    if checkpoint is not None:
        source = with_checkpoint(source, checkpoint)
    return diagnose(
        source.model,
        rows.x,
        rows.y,
        params=source.params,
        loss=loss,
        start=before,
        class_names=rows.classes or None,
        key=jax.random.key(seed),
        **settings,
    )


def layers_table(found: Diagnosis) -> Table:
    """One row a layer."""
    grid = Table(title=Text(f"{found.name}: {found.size_words}"), title_justify="left")
    grid.add_column("layer", overflow="fold")
    for name in ("units", "signal", "grows", "critical", "gradient", "grows", "critical", "dead", "flat"):
        grid.add_column(name, justify="right")
    for layer in found.layers:
        grid.add_row(
            Text(layer.name),
            str(layer.units),
            short(layer.signal),
            factor(layer.forward),
            "" if layer.forward is None else factor(layer.critical_forward),
            short(layer.gradient),
            factor(layer.backward),
            "" if layer.backward is None else factor(layer.critical_backward),
            percent(layer.dead),
            percent(layer.saturated),
            style="red" if layer.flag else None,
        )
    return grid


def diagnosis_table(found: Diagnosis) -> Table:
    """Every figure with its sentence."""
    grid = Table(show_header=False, show_lines=True)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for finding in found.findings:
        words = f"{finding.meaning} {finding.remedy}".strip()
        grid.add_row(Text(finding.name, _STYLES[finding.grade]), Text(finding.value), Text(words))
    return grid
