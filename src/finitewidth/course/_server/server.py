"""The server of the lab: pictures on request, runs as streams of lines, nothing from outside."""

import asyncio
import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from finitewidth.course._lab.registry import claim, claims
from finitewidth.course._server.page import Page
from finitewidth.course._server.pages import PAGES
from finitewidth.course._server.reports import Reports
from finitewidth.course._server.runs import Busy, Limits, Runs
from finitewidth.course._server.state import Slider, State, read_state
from finitewidth.course._server.wire import plain

STATIC = Path(__file__).parent / "static"
REPORT_POLICY = (
    "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
FORMULAS = json.loads((STATIC / "formulas.json").read_text(encoding="utf-8"))


def describe(page: Page) -> dict:
    """All that the browser has to know to build a page."""
    return {
        "slug": page.slug,
        "title": page.title,
        "idea": page.idea,
        "formula": FORMULAS.get(page.slug, ""),
        "claims": [{"id": id, "title": claim(id).title} for id in page.claims],
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
        "recorded": (STATIC / "defaults" / f"{page.slug}.json").exists(),
        "upload": page.upload,
    }


async def shell(request: Request) -> Response:
    """The same file for every page: the browser asks for the description."""
    _page(request)
    return FileResponse(STATIC / "lab.html")


async def front(request: Request) -> Response:
    """The course: every page as a card."""
    return FileResponse(STATIC / "course.html")


async def course(request: Request) -> Response:
    """Every page by its title and idea, in order."""
    return JSONResponse([{"slug": p.slug, "title": p.title, "idea": p.idea} for p in PAGES.values()])


async def description(request: Request) -> Response:
    """One page: controls, figures, formula, claims."""
    page, loop = _page(request), asyncio.get_running_loop()
    return JSONResponse(await loop.run_in_executor(request.app.state.theory, describe, page))


def _page(request: Request) -> Page:
    slug = request.path_params["slug"]
    if slug not in PAGES:
        raise HTTPException(404, f"there is no page {slug[:40]!r}.")
    return PAGES[slug]


def _page_and_state(request: Request) -> tuple[Page, State]:
    page = _page(request)
    return page, read_state(page.controls, request.query_params)


async def figures(request: Request) -> Response:
    """The figures named in `figures`, for the state in the rest of the query."""
    page, state = _page_and_state(request)
    wanted = request.query_params.get("figures", "").split(",")
    chosen = [f for f in page.figures if f.name in wanted]

    def compute() -> bytes:
        began = time.perf_counter()
        answer = {f.name: plain(f.picture(state)) for f in chosen}
        took = round(1e3 * (time.perf_counter() - began), 1)
        return json.dumps({"figures": answer, "ms": took}, separators=(",", ":"), allow_nan=False).encode()

    body = await asyncio.get_running_loop().run_in_executor(request.app.state.theory, compute)
    return Response(body, media_type="application/json")


async def code(request: Request) -> Response:
    """The Python program of the state."""
    page, state = _page_and_state(request)
    return PlainTextResponse(page.code(state))


async def run(request: Request) -> Response:
    """Train networks: the answer streams events until the run ends or the visitor hangs up."""
    page, state = _page_and_state(request)
    if page.experiment is None:
        raise HTTPException(404, "this page has no experiment.")
    await request.body()
    used = {name: state[name] for name in page.experiment.depends}
    key = (page.slug, *sorted(used.items()))
    return stream(request.app.state.runs.events("run", page.slug, used, key=key))


async def report(request: Request) -> Response:
    """The report of `finitewidth predict` about the table in the body: computed, kept, and named."""
    page, state = _page_and_state(request)
    if not page.upload:
        raise HTTPException(404, "this page takes no table.")
    content, target = await request.body(), request.query_params.get("target", "")[:200]
    reports: Reports = request.app.state.reports

    async def events() -> AsyncGenerator[dict, None]:
        job = request.app.state.runs.events("report", state, content, target)
        async with contextlib.aclosing(job) as source:
            async for event in source:
                if "piece" in event:
                    event = {
                        "report": reports.add(event["piece"]["page"]),
                        "summary": event["piece"]["summary"],
                    }
                yield event

    return stream(events())


async def kept_report(request: Request) -> Response:
    """A report that is not older than ten minutes, without the right to run or fetch anything."""
    found = request.app.state.reports.find(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "this report is gone: it is kept for ten minutes.")
    return HTMLResponse(
        found, headers={"content-security-policy": REPORT_POLICY, "cache-control": "no-store"}
    )


def stream(events: AsyncGenerator[dict, None]) -> Response:
    """Events as lines of JSON."""

    async def lines() -> AsyncIterator[str]:
        try:
            async with contextlib.aclosing(events) as source:
                async for event in source:
                    yield json.dumps(event, separators=(",", ":"), allow_nan=False) + "\n"
        except Busy:
            yield json.dumps({"error": "many runs are waiting; try again in a minute."}) + "\n"

    headers = {"cache-control": "no-store"}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


async def wrong(request: Request, error: Exception) -> Response:
    """Every error is a sentence that the page can show."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    said = error.detail if isinstance(error, HTTPException) else str(error)
    return JSONResponse({"error": said[:300]}, status)


async def bug(request: Request, error: Exception) -> Response:
    """What is wrong with the program itself; the terminal shows where."""
    return JSONResponse(
        {"error": f"the server failed ({type(error).__name__}); its terminal says where."}, 500
    )


def application(limits: Limits | None = None, warm: bool = True) -> Starlette:
    """The pages and their answers, without the guard in front; `warm` compiles the default states at once."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        """The training process and the threads of the theory live as long as the server."""
        app.state.theory = ThreadPoolExecutor(2, "theory")
        app.state.reports = Reports()
        app.state.runs = Runs(limits)
        app.state.runs.start()
        # A thread of its own: a visitor does not wait until every page is warm.
        warming = ThreadPoolExecutor(1, "warm")
        for task in (claims, *(page.warm for page in PAGES.values() if page.warm)) if warm else ():
            warming.submit(task)
        try:
            yield
        finally:
            app.state.runs.stop()
            for threads in (warming, app.state.theory):
                threads.shutdown(wait=False, cancel_futures=True)

    return Starlette(
        routes=[
            Route("/", front),
            Route("/api/pages", course),
            Route("/api/{slug}", description),
            Route("/api/{slug}/figures", figures),
            Route("/api/{slug}/code", code),
            Route("/api/{slug}/run", run, methods=["POST"]),
            Route("/api/{slug}/report", report, methods=["POST"]),
            Route("/report/{name}", kept_report),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{slug}", shell),
        ],
        exception_handlers={ValueError: wrong, HTTPException: wrong, ClientDisconnect: wrong, 500: bug},
        lifespan=lifespan,
    )
