"""`finitewidth predict`: from a table to the distribution of trained networks, checked."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from finitewidth.cli.console import messages, output, parse_hidden
from finitewidth.study.files import REPORT, check_directory, write_study
from finitewidth.study.preparation import Options, Prepared, prepare
from finitewidth.study.scores import RegressionScores
from finitewidth.study.study import Choices, Study, run_study
from finitewidth.study.tables import BUILT_IN, COMMON_SCALE, read_table
from finitewidth.study.words import finite_width_words, network_words, training_words


def predict(
    data: Annotated[str, typer.Argument(help=f"A .csv, .parquet or .npz file, or {', '.join(BUILT_IN)}.")],
    test: Annotated[
        str | None, typer.Option(help="Test rows in a file of their own; one fifth is held out by default.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    hidden: Annotated[str, typer.Option(help="Hidden layers: 128x3 (three of 128) or 128,64.")] = "128x3",
    activation: Annotated[str, typer.Option(help="Name of the activation.")] = "tanh",
    eta: Annotated[
        str, typer.Option(help="Step of gradient descent; auto is half the largest stable.")
    ] = "auto",
    steps: Annotated[str, typer.Option(help="Number of steps; inf trains to the end.")] = "inf",
    ridge: Annotated[
        str,
        typer.Option(help="Pull towards the initial weights; auto leaves out training rows to choose it."),
    ] = "auto",
    order: Annotated[
        int, typer.Option(help="0 for infinite width, 1 adds the first correction in 1/width.")
    ] = 0,
    verify: Annotated[int, typer.Option(help="Train so many real networks and compare.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results; predict-NAME by default.")
    ] = None,
    task: Annotated[
        Literal["auto", "regression", "classification"], typer.Option(help="What the target is.")
    ] = "auto",
    scale: Annotated[
        Literal["auto", "column", "common", "none"],
        typer.Option(help="Inputs to unit variance: each column, all by one factor, or not."),
    ] = "auto",
    one_hot: Annotated[bool, typer.Option("--one-hot", help="Words become indicator columns.")] = False,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out incomplete rows.")] = False,
    drop_constant: Annotated[
        bool, typer.Option("--drop-constant", help="Leave out columns without variation.")
    ] = False,
    train: Annotated[
        int | None, typer.Option(help="Number of training rows; four fifths by default.")
    ] = None,
    bias_variance: Annotated[
        float | None, typer.Option("--C-b", help="Bias variance; critical by default.")
    ] = None,
    weight_variance: Annotated[
        float | None, typer.Option("--C-W", help="Weight variance times fan-in; critical by default.")
    ] = None,
    most_steps: Annotated[
        int, typer.Option(help="Real networks train no longer than this towards the end.")
    ] = 10_000,
    most_samples: Annotated[
        int, typer.Option(help="Neurons to sample at most for --order 1; the error that is left is told.")
    ] = 300_000,
    seed: Annotated[int, typer.Option(help="Decides about the split and all networks.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the results of another run.")] = False,
) -> None:
    """Predict the distribution of trained networks on a table of data, and check it on real ones."""
    choices = Choices(
        hidden=parse_hidden(hidden),
        activation=activation,
        C_b=bias_variance,
        C_W=weight_variance,
        eta="auto" if eta == "auto" else _number("--eta", eta),
        steps=_steps(steps),
        ridge="auto" if ridge == "auto" else _number("--ridge", ridge),
        order=_order(order),
        networks=verify,
        most_steps=most_steps,
        most_samples=most_samples,
        seed=seed,
    )
    if verify and verify < 3:
        raise ValueError(f"--verify {verify} is too few networks for a spread; give 3 or more.")
    directory = out or Path(f"predict-{Path(data).stem}")
    check_directory(directory, force)
    table = read_table(data)
    chosen_scale = ("common" if table.name in COMMON_SCALE else "column") if scale == "auto" else scale
    options = Options(target, task, chosen_scale, one_hot, drop_missing, drop_constant, train, seed)
    prepared = prepare(table, None if test is None else read_table(test), options)
    for note in prepared.notes:
        messages.print(f"[yellow]note:[/] {escape(note)}", highlight=False, soft_wrap=True)
    study = _run(prepared, choices)
    from finitewidth.report.page import report_page

    write_study(study, directory, report_page(study))
    output.print(_table(study))
    if study.verification is not None:
        output.print(escape(str(study.verification)), highlight=False, soft_wrap=True)
    output.print(f"report: {directory / REPORT}", highlight=False, soft_wrap=True)


def _run(data: Prepared, choices: Choices) -> Study:
    """The study, with a line that says what is being done."""
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


def _number(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{option} must be auto or a number, got {text!r}.") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"{option} must be auto or a finite number, zero or more, got {text!r}.")
    return value


def _order(order: int) -> Literal[0, 1]:
    if order == 0 or order == 1:
        return order
    raise ValueError(f"--order must be 0 or 1, got {order}.")


def _steps(text: str) -> float | int:
    if text.lower() in ("inf", "infinity"):
        return math.inf
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--steps must be a whole number or inf, got {text!r}.") from None


def _table(study: Study) -> Grid:
    data, scores = study.data, study.scores
    grid = Grid(title=f"{data.name}: {data.target}", title_justify="left", show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row("rows", f"{len(data.x_train):,} to learn from, {len(data.x_test):,} to predict")
    grid.add_row("network", network_words(study))
    grid.add_row("training", f"{training_words(study)}; eta = {study.algorithm.eta:.3g}")
    if study.law.first_order is not None:
        grid.add_row("finite width", finite_width_words(study))
    if isinstance(scores, RegressionScores):
        at = scores.calibration.at
        grid.add_row("error (rms)", f"{scores.rmse:.4g} (R2 = {scores.r2:.3f})")
        grid.add_row("spread of networks", f"{study.spread.mean():.4g} (standard deviation over networks)")
        grid.add_row("label noise", f"{data.unit * math.sqrt(study.noise):.4g}")
        grid.add_row(
            "calibration",
            f"68 % intervals hold {100 * at(0.68):.0f} % of the test values, 95 % intervals "
            f"{100 * at(0.95):.0f} %",
        )
    elif scores is not None:
        grid.add_row("accuracy", f"{100 * scores.accuracy:.2f} %")
        grid.add_row("calibration error", f"{100 * scores.calibration.error:.2f} % (expected, ten bins)")
        grid.add_row("log loss", f"{scores.loss:.4f}")
    else:
        grid.add_row("scores", "none: the test rows have no target")
    return grid
