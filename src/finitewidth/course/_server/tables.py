"""A visitor's own table: read by the project's one reader, predicted by the network of the sliders."""

from collections.abc import Callable, Iterator
from typing import Any

from finitewidth._base.whole_files import scratch_folder
from finitewidth.course._server.state import State
from finitewidth.course._server.worker import Stopped
from finitewidth.tables.reading import read_table
from finitewidth.tables.study.page import report_page
from finitewidth.tables.study.preparation import Options, prepare
from finitewidth.tables.study.scores import RegressionScores
from finitewidth.tables.study.study import Choices, Study, run_study

MOST_ROWS, MOST_COLUMNS = 2000, 50


def report(stop: Callable[[], bool], state: State, content: bytes, target: str) -> Iterator[dict[str, Any]]:
    """The page of `finitewidth predict` for a table, and one sentence about it."""

    def announce(stage: str) -> None:
        if stop():
            raise Stopped

    with scratch_folder() as folder:
        path = folder / "table.csv"
        path.write_bytes(content)
        try:
            table = read_table(str(path))
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "the table")) from None
    rows, columns = len(next(iter(table.columns.values()))), len(table.columns)
    if rows > MOST_ROWS or columns > MOST_COLUMNS:
        raise ValueError(
            f"the table has {rows:,} rows and {columns} columns; the lab takes {MOST_ROWS:,} rows and "
            f"{MOST_COLUMNS} columns. Larger tables: `finitewidth predict`."
        )
    chosen = target or table.target or list(table.columns)[-1]
    data = prepare(table, None, Options(chosen, "auto", "column", None, 0, None))
    choices = Choices(
        hidden=(state["width"],) * (state["depth"] - 1),
        activation=state["activation"],
        C_b=state["C_b"],
        C_W=state["C_W"],
        steps=state["steps"],
    )
    study = run_study(data, choices, announce)
    yield {"page": report_page(study), "summary": summary(study)}


def summary(study: Study) -> str:
    """What was predicted and how well."""
    data, scores = study.data, study.scores
    words = f"{data.target} from {len(data.x_train):,} rows, {len(data.x_test):,} held out"
    if isinstance(scores, RegressionScores):
        return f"{words}: error {scores.rmse:.3g} (rms), R² = {scores.r2:.2f}"
    return words if scores is None else f"{words}: {100 * scores.accuracy:.1f} % right"
