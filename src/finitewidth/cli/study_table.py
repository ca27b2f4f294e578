"""What `finitewidth predict` shows while it works, and prints at the end."""

import math

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from finitewidth.cli.console import messages
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.tables.study.preparation import Prepared
from finitewidth.tables.study.scores import RegressionScores
from finitewidth.tables.study.study import Choices, Study, run_study
from finitewidth.tables.study.words import (
    baseline_words,
    finite_width_words,
    grouped_columns,
    left_out_words,
    network_words,
    solver_words,
    training_words,
)


def watched_study(data: Prepared, choices: Choices) -> Study:
    """Run the study, with a line that says what is being done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    quiet = not messages.is_terminal
    with Progress(*columns, console=messages, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=None)

        def announce(stage: str) -> None:
            progress.update(task, description=stage)
            if stage == "networks":
                # The networks bring a bar of their own.
                progress.stop()

        return run_study(data, choices, announce)


def study_table(study: Study) -> Grid:
    """The main numbers of a study."""
    data, scores = study.data, study.scores
    grid = Grid(title=Text(f"{data.name}: {data.target}"), title_justify="left", show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row("rows", f"{len(data.x_train):,} to learn from, {len(data.x_test):,} to predict")
    grid.add_row("network", network_words(study))
    grid.add_row("training", f"{training_words(study)}; eta = {study.algorithm.eta:.3g}")
    if isinstance(study.law, LargeLaw):
        grid.add_row("solver", solver_words(study.law))
    if study.law.correction is not None:
        grid.add_row("finite width", finite_width_words(study))
    elif study.remark:
        grid.add_row("finite width", study.remark)
    if isinstance(scores, RegressionScores):
        at = scores.calibration.at
        grid.add_row("error (rms)", f"{scores.rmse:.4g} (R2 = {scores.r2:.3f} +- {scores.r2_error:.3f})")
        beside = f"; infinite width: {study.infinite_spread.mean():.4g}" if study.law.correction else ""
        spread = study.spread.mean()
        words = f"{spread:.4g} (standard deviation over networks{beside})"
        grid.add_row("spread of networks", "not computed" if math.isnan(spread) else words)
        grid.add_row("label noise", f"{data.unit * math.sqrt(study.noise):.4g}")
        grid.add_row(
            "calibration",
            f"68 % intervals hold {100 * at(0.68):.0f} % of the test values, 95 % intervals "
            f"{100 * at(0.95):.0f} %",
        )
    elif scores is not None:
        grid.add_row("accuracy", f"{100 * scores.accuracy:.2f} +- {100 * scores.accuracy_error:.2f} %")
        grid.add_row("calibration error", f"{100 * scores.calibration.error:.2f} % (expected, ten bins)")
        grid.add_row("log loss", f"{scores.loss:.4f}")
    else:
        grid.add_row("scores", f"{left_out_words(study)}; the rows to predict have no target")
    for other in study.baselines:
        grid.add_row(other.name, baseline_words(other))
    return grid


def columns_table(data: Prepared) -> Grid:
    """What was done to each column, columns with the same fate together."""
    grid = Grid(title=Text(f"columns of {data.name}"), title_justify="left", show_header=False)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for names, done in grouped_columns(data):
        grid.add_row(Text(names), Text(done))
    return grid
