"""What `finitewidth diagnose` reads and prints."""

from pathlib import Path
from typing import Any

import jax
from rich.table import Table
from rich.text import Text

from finitewidth.advice.diagnosis.examination import diagnose
from finitewidth.advice.diagnosis.result import Diagnosis
from finitewidth.advice.diagnosis.words import percent, short
from finitewidth.cli.checkpoints import with_checkpoint
from finitewidth.cli.model_data import load_rows
from finitewidth.cli.model_source import load_model

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
        start=None if before is None else (before.model if before.params is None else before.params),
        class_names=rows.classes or None,
        key=jax.random.key(seed),
        **settings,
    )


def layers_table(found: Diagnosis) -> Table:
    """One row a layer; in brackets what a critical layer would do."""
    grid = Table(title=Text(f"{found.name}: {found.size_words}"), title_justify="left")
    grid.add_column("layer", overflow="fold")
    for name in ("units", "signal", "grows by", "gradient", "grows by", "dead", "flat"):
        grid.add_column(name, justify="right")
    for layer in found.layers:
        grid.add_row(
            Text(layer.name),
            str(layer.units),
            short(layer.signal),
            _beside(layer.forward, layer.critical_forward),
            short(layer.gradient),
            _beside(layer.backward, layer.critical_backward),
            percent(layer.dead),
            percent(layer.saturated),
            style="red" if layer.flag else None,
        )
    return grid


def _beside(measured: float | None, critical: float) -> str:
    return "" if measured is None else f"{measured:.2g} ({critical:.2g})"


def diagnosis_table(found: Diagnosis) -> Table:
    """Every figure with its sentence."""
    grid = Table(show_header=False, show_lines=True)
    grid.add_column(overflow="fold", max_width=22)
    grid.add_column(overflow="fold")
    for finding in found.findings:
        style = _STYLES[finding.grade]
        words = f"{finding.meaning} {finding.remedy}".strip()
        grid.add_row(Text(finding.name, style), Text.assemble((finding.value, style or "bold"), "\n", words))
    return grid
