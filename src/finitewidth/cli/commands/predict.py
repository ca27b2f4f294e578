"""`finitewidth predict`: from a table to the distribution of trained networks, checked."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from finitewidth._base.engines import check_scheduler
from finitewidth.cli import options
from finitewidth.cli.console import messages, note, output, say
from finitewidth.report.directory import REPORT, check_directory, held_directory

_HIDDEN, _ACTIVATION = "128x3", "tanh"
_ORDERS: dict[str, Literal[0, 1, "1/2", "auto"]] = {"auto": "auto", "0": 0, "1": 1, "1/2": "1/2"}


def predict(
    data: Annotated[
        str,
        typer.Argument(
            help="A CSV, TSV, Parquet, XLSX, NPZ or NPY file, or a built-in data set, such as diabetes."
        ),
    ],
    test: Annotated[
        str | None, typer.Option(help="Test rows in a file of their own; one fifth is held out by default.")
    ] = None,
    new: Annotated[
        str | None, typer.Option(help="Rows to predict, without the target; all other rows are learnt.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of an XLSX file to read; the first by default.")
    ] = None,
    hidden: options.Hidden = _HIDDEN,
    activation: options.Activation = _ACTIVATION,
    network: options.Network = None,
    eta: Annotated[
        str, typer.Option(help="Step of gradient descent; auto is half the largest stable.")
    ] = "auto",
    steps: Annotated[str, typer.Option(help="Number of steps; inf trains to the end.")] = "inf",
    stop: Annotated[
        str,
        options.one_of(
            "--stop",
            "auto stops where training rows that are left out are predicted best, without a ridge.",
            ("end", "auto"),
        ),
    ] = "end",
    ridge: Annotated[
        str,
        typer.Option(help="Pull towards the initial weights; auto leaves out training rows to choose it."),
    ] = "auto",
    order: Annotated[
        str,
        options.one_of(
            "--order",
            "0: infinite width; 1 adds the correction in 1/width; 1/2 is for one layer with kinks (relu); "
            "auto adds 1 if it is quick.",
            ("auto", "0", "1", "1/2"),
        ),
    ] = "auto",
    verify: Annotated[
        str,
        typer.Option(
            "--verify", help="Number of real networks to train and compare with, or enough.", metavar="<int>"
        ),
    ] = "0",
    detect: Annotated[
        float | None,
        options.number(
            "--detect", "Train as many as notice a spread that is wrong by so much; 0.05 for --verify enough."
        ),
    ] = None,
    out: Annotated[
        Path | None, options.path("--out", "Directory for the results; predict-NAME by default.")
    ] = None,
    task: Annotated[
        Literal["auto", "regression", "classification"], typer.Option(help="What the target is.")
    ] = "auto",
    scale: Annotated[
        Literal["auto", "column", "common", "none"],
        typer.Option(help="Inputs to unit variance: each column, all by one factor, or not."),
    ] = "auto",
    train: Annotated[
        int | None, options.whole_number("--train", "Number of training rows; four fifths by default.")
    ] = None,
    bias_variance: options.BiasVariance = None,
    weight_variance: options.WeightVariance = None,
    most_steps: Annotated[
        int, options.whole_number("--most-steps", "Real networks train no longer than this towards the end.")
    ] = 10_000,
    most_samples: Annotated[
        int,
        options.whole_number(
            "--most-samples", "Neurons to sample at most for finite width; the report states the error left."
        ),
    ] = 300_000,
    solver: Annotated[
        str,
        options.one_of(
            "--solver",
            "direct holds kernels in memory, iterative works on tiles, nystrom approximates; auto "
            "goes by memory.",
            ("auto", "direct", "iterative", "nystrom"),
        ),
    ] = "auto",
    memory: Annotated[
        int | None, options.whole_number("--memory", "Memory to use at most, in MB; most of what is free.")
    ] = None,
    store: Annotated[
        Path | None,
        options.path("--store", "Directory for kernel tiles, kept to go on from; scratch if none."),
    ] = None,
    scheduler: options.Scheduler = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    traceback: options.Traceback = False,
) -> None:
    """Predict the distribution of trained networks on a table of data, and check it on real ones."""
    widths = options.parse_hidden(hidden)
    options.check_variances(bias_variance, weight_variance)
    if network is not None and (hidden, activation, weight_variance) != (_HIDDEN, _ACTIVATION, None):
        raise ValueError(
            "give --network, a file that describes every layer, or --hidden, --activation, --C-b and --C-W; "
            "not both."
        )
    rate, pull = options.auto_or_number("--eta", eta), options.auto_or_number("--ridge", ridge, zero=True)
    length, trained = options.steps_or_infinity(steps), options.networks(verify, detect)
    if stop == "auto" and not math.isinf(length):
        raise ValueError(f"give --steps {length}, or --stop auto to have the number chosen; not both.")
    directory = out or Path(f"predict-{Path(data).stem}")
    check_directory(directory, force)
    if test is not None and new is not None:
        raise ValueError("give --test, rows with known targets, or --new, rows to predict; not both.")
    check_scheduler(scheduler)
    from finitewidth.architecture.spec import read_spec
    from finitewidth.cli.study_table import columns_table, study_table, watched_study
    from finitewidth.tables.built_in_tables import COMMON_SCALE
    from finitewidth.tables.memory import rows_in_memory
    from finitewidth.tables.reading import read_table
    from finitewidth.tables.study.files import study_files
    from finitewidth.tables.study.page import report_page
    from finitewidth.tables.study.preparation import Options, prepare
    from finitewidth.tables.study.study import Choices

    described = None if network is None else read_spec(network)
    if sheet is not None and not any(str(file).lower().endswith(".xlsx") for file in (data, test, new)):
        raise ValueError(f"--sheet {sheet!r} is for XLSX files, and {data} is none.")
    with messages.status("reading the table"):
        table = read_table(data, images=True, sheet=sheet)
    together = table.name in COMMON_SCALE or table.shape
    chosen_scale = ("common" if together else "column") if scale == "auto" else scale
    in_memory = (
        solver == "direct" or stop == "auto" or not math.isinf(length) or order in ("1", "1/2") or trained
    )
    how = Options(target, task, chosen_scale, train, seed, rows_in_memory() if in_memory else None)
    rows = new if test is None else test
    held = None if rows is None else read_table(rows, like=table, images=True, sheet=sheet)
    with messages.status("preparing the columns"):
        prepared = prepare(table, held, how, new=new is not None)
    for remark in prepared.notes:
        note(remark)
    choices = Choices(
        hidden=widths,
        activation=activation,
        C_b=bias_variance,
        C_W=weight_variance,
        eta=rate,
        steps=length,
        stop="auto" if stop == "auto" else "end",
        ridge=pull,
        order=_ORDERS[order],
        networks=trained,
        detect=detect,
        most_steps=most_steps,
        most_samples=most_samples,
        seed=seed,
        network=described,
        solver=solver,
        memory=None if memory is None else memory * 10**6,
        store=None if store is None else str(store),
        scheduler=scheduler,
    )
    with held_directory(directory, force) as write:
        study = watched_study(prepared, choices)
        write(study_files(study, report_page(study)))
    output.print(columns_table(prepared))
    output.print(study_table(study))
    if study.verification is not None:
        for line in str(study.verification).splitlines():
            say(output, line)
    say(output, f"report: {directory / REPORT}")
