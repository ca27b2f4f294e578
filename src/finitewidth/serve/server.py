"""The server of the lab: pictures on request, runs as streams of lines, nothing from outside."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from finitewidth.serve.state import Slider, read_state
from finitewidth.serve.guard import Guard
from finitewidth.serve.pages import PAGES
from finitewidth.serve.runs import Busy, Runs
from finitewidth.serve.wire import plain

HERE = Path(__file__).parent
THEORY = ThreadPoolExecutor(2, "theory")
FORMULAS = json.loads((HERE / "static" / "formulas.json").read_text())


def describe(page) -> dict:
    return {
        "slug": page.slug,
        "title": page.title,
        "idea": page.idea,
        "formula": FORMULAS.get(page.formula, ""),
        "claims": page.claims,
        "controls": [
            {"kind": "slider" if isinstance(c, Slider) else "choice", **dataclasses.asdict(c)}
            for c in page.controls
        ],
        "figures": [
            {"name": f.name, "title": f.title, "depends": f.depends, "tall": f.tall} for f in page.figures
        ],
        "experiment": page.experiment
        and {
            "figure": page.experiment.figure,
            "label": page.experiment.label,
            "depends": page.experiment.depends,
        },
    }


async def shell(request: Request):
    if request.path_params["slug"] not in PAGES:
        return PlainTextResponse("no such page", 404)
    return FileResponse(HERE / "static" / "lab.html")


async def listing(request: Request):
    return JSONResponse([describe(p) for p in PAGES.values()])


def _page_and_state(request: Request):
    page = PAGES[request.path_params["slug"]]
    return page, read_state(page.controls, request.query_params)


async def figures(request: Request):
    """The figures named in `figures`, for the state in the rest of the query."""
    page, state = _page_and_state(request)
    wanted = request.query_params.get("figures", "").split(",")
    chosen = [f for f in page.figures if f.name in wanted]

    def compute() -> bytes:
        began = time.perf_counter()
        answer = {f.name: plain(f.draw(state)) for f in chosen}
        took = round(1e3 * (time.perf_counter() - began), 1)
        return json.dumps({"figures": answer, "ms": took}, separators=(",", ":")).encode()

    body = await asyncio.get_running_loop().run_in_executor(THEORY, compute)
    return PlainTextResponse(body, media_type="application/json")


async def code(request: Request):
    page, state = _page_and_state(request)
    return PlainTextResponse(page.code(state))


async def run(request: Request):
    page, state = _page_and_state(request)
    if page.experiment is None:
        return PlainTextResponse("this page has no experiment", 404)
    await request.body()
    used = {name: state[name] for name in page.experiment.depends}
    runs: Runs = request.app.state.runs

    async def lines():
        try:
            async with contextlib.aclosing(runs.events(page.slug, used)) as events:
                async for event in events:
                    yield json.dumps(event, separators=(",", ":")) + "\n"
        except Busy:
            yield json.dumps({"error": "many runs are waiting; try again in a minute."}) + "\n"

    return StreamingResponse(
        lines(), media_type="application/x-ndjson", headers={"cache-control": "no-store"}
    )


async def wrong(request: Request, error: Exception):
    return JSONResponse({"error": str(error)[:300]}, 404 if isinstance(error, KeyError) else 400)


@contextlib.asynccontextmanager
async def lifespan(app: Starlette):
    app.state.runs = Runs()
    app.state.runs.start()
    loop = asyncio.get_running_loop()
    for page in PAGES.values():
        if page.warm:
            loop.run_in_executor(THEORY, page.warm)
    yield
    app.state.runs.stop()


def build(names: set[str], port: int):
    app = Starlette(
        routes=[
            Route("/", lambda r: RedirectResponse(f"/{next(iter(PAGES))}")),
            Route("/api/pages", listing),
            Route("/api/{slug}/figures", figures),
            Route("/api/{slug}/code", code),
            Route("/api/{slug}/run", run, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
            Route("/{slug}", shell),
        ],
        exception_handlers={ValueError: wrong, KeyError: wrong, ClientDisconnect: wrong},
        lifespan=lifespan,
    )
    return Guard(app, names, port)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=8110)
    port = options.parse_args().port
    uvicorn.run(
        build({"127.0.0.1", "localhost", "[::1]"}, port),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        limit_concurrency=200,
        timeout_keep_alive=20,
        server_header=False,
    )
