"""`finitewidth regions`: the linear regions of a network in a plane or on a line, with a picture."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from finitewidth.cli import options
from finitewidth.cli.console import messages, note, output, say
from finitewidth.cli.outputs import check_output


def regions(
    model: Annotated[
        str,
        typer.Argument(
            help="Your network: module:factory or path/file.py:factory, a function that makes it."
        ),
    ],
    plane: Annotated[
        str | None,
        typer.Option(help="Three inputs: numbers as in 0,0;1,0;0,1, or rows of the data as in 3,17,42."),
    ] = None,
    line: Annotated[
        str | None,
        typer.Option(help="Two inputs, given like those of a plane: count the pieces between them."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Inputs: a CSV, TSV, Parquet, XLSX, NPY or NPZ file, or a built-in data set."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="A column of the data that is no input.")] = None,
    shape: Annotated[
        str | None, typer.Option(help="Shape of one input, such as 1,28,28; a row of numbers by default.")
    ] = None,
    margin: Annotated[
        float, options.number("--margin", "How far to look beyond the three inputs, in sides.", zero=True)
    ] = 0.25,
    colour: Annotated[
        str, options.one_of("--colour", "Colour of the picture.", ("region", "output"))
    ] = "region",
    number: Annotated[int, options.whole_number("--output", "Which output to draw, from 0.", 0)] = 0,
    out: Annotated[Path | None, options.path("--out", "Where to write a picture, say regions.png.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing picture.")] = False,
    as_json: options.Json = False,
    traceback: options.Traceback = False,
) -> None:
    """Count the linear regions of your network in a plane, or its pieces on a line, and draw them."""
    if (plane is None) == (line is None):
        raise ValueError("give either --plane with three inputs or --line with two.")
    if out is not None:
        from finitewidth.advice.tuning.figures import picture_format

        picture_format(check_output(out, force))
    from finitewidth.cli.model_source import load_model
    from finitewidth.measure import regions as measured

    points = _points(
        "--plane" if plane else "--line", plane or line or "", 3 if plane else 2, data, target, shape
    )
    made, params = load_model(model)
    program = measured.piecewise_linear(made, points.shape[1:], params=params)
    started = time.perf_counter()
    if plane is not None:
        found = measured.plane_regions(program, measured.plane_through(points, margin))
        facts: dict[str, Any] = {
            "regions": found.number,
            "affine_maps": found.affine_maps,
            "neurons": program.neurons,
            "area": float(found.areas.sum()),
            "density": found.density,
            "smallest_area": float(found.areas.min()),
            "largest_area": float(found.areas.max()),
        }
    else:
        found = measured.line_regions(program, *points)
        facts = {"pieces": found.pieces, "intervals": found.number, "neurons": program.neurons}
    facts["seconds"] = time.perf_counter() - started
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        output.print(_table(facts))
    if out is not None:
        from finitewidth.advice.tuning.figures import save_figure
        from finitewidth.report.region_figures import line_figure, plane_figure

        if isinstance(found, measured.PlaneRegions):
            figure = plane_figure(found, colour, number, found.plane.coordinates(points))  # pyright: ignore[reportArgumentType]
        else:
            figure = line_figure(found, number)
        save_figure(figure, out)
        say(messages, f"picture: {out}")


def _points(
    option: str, text: str, wanted: int, data: str | None, target: str | None, shape: str | None
) -> Any:
    """Inputs (points, ...) from numbers, or from rows of the data."""
    import numpy as np

    if ";" in text:
        rows = [_numbers(option, part) for part in text.split(";")]
        if len(rows) != wanted or len({len(row) for row in rows}) != 1:
            raise ValueError(f"{option} {text!r} must be {wanted} inputs of one length, such as 0,0;1,0;0,1.")
        x = np.array(rows)
    else:
        if data is None:
            raise ValueError(f"{option} {text!r} names rows, and there is no --data to take them from.")
        from finitewidth.tables.inputs import inputs_of
        from finitewidth.tables.reading import read_table

        inputs = inputs_of(read_table(data), target)
        for remark in inputs.notes:
            note(remark)
        chosen = _numbers(option, text)
        if len(chosen) != wanted or any(i != int(i) or not 0 <= i < len(inputs.x) for i in chosen):
            raise ValueError(
                f"{option} {text!r} must be {wanted} rows of the data, from 0 to {len(inputs.x) - 1}."
            )
        x = np.asarray(inputs.x)[[int(i) for i in chosen]]
    if shape is None:
        return x
    sizes = tuple(int(n) for n in _numbers("--shape", shape))
    if np.prod(sizes) != x.shape[1]:
        raise ValueError(f"--shape {shape} holds {int(np.prod(sizes))} numbers; an input has {x.shape[1]}.")
    return x.reshape(-1, *sizes)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} {text!r} must be numbers with commas between them.") from None


def _table(facts: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4g}")
    return table
