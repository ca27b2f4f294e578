"""The server as a user starts it, and its pages in a real browser: one warm server for all of them."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import psutil
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from browser import executable
from finitewidth.course._server.pages import PAGES
from finitewidth.course._server.state import Slider

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 90_000
COMMAND = [sys.executable, "-m", "finitewidth", "serve"]


@pytest.fixture(scope="module")
def link():
    process = subprocess.Popen(
        [*COMMAND, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        said = process.stdout.readline()
        (found,) = re.findall(r"http://127.0.0.1:\d+", said)
        yield found
        children = psutil.Process(process.pid).children(recursive=True)
        assert children, "there is no training process"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
        assert (process.returncode, rest, errors) == (0, "", "")
        _, alive = psutil.wait_procs(children, 10)
        assert not alive, "Ctrl-C left the training process behind"
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium, link):
    """A tab at desktop width; the test fails if the console complains or the page asks another host."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page, complaints = context.new_page(), []
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.on(
        "request", lambda r: None if r.url.startswith((link, "data:", "blob:")) else complaints.append(r.url)
    )
    page.complaints = complaints
    yield page
    context.close()
    assert not complaints


def open_page(tab: Page, address: str) -> None:
    tab.goto(address)
    tab.locator("body[data-ready]").wait_for()


def drawn(tab: Page) -> str:
    """All that Plotly has drawn."""
    return "".join(tab.locator("figure .plot svg.main-svg").evaluate_all("all => all.map(e => e.innerHTML)"))


def overflow(tab: Page) -> int:
    return tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.parametrize("slug", PAGES)
def test_a_page_loads_follows_a_slider_and_fits_a_telephone(tab, link, slug):
    page = PAGES[slug]
    open_page(tab, f"{link}/{slug}")
    expect(tab.locator("h1")).to_have_text(page.title)
    expect(tab.locator("#claims li")).to_have_count(len(page.claims))
    expect(tab.locator("#formula math")).to_be_visible()
    expect(tab.locator("#error")).to_be_hidden()
    expect(tab.locator("#code")).to_contain_text("finitewidth")
    if page.experiment:
        expect(tab.locator("#status")).to_contain_text("recorded")
    assert tab.locator("figure svg.main-svg").count() >= len(page.figures)
    assert overflow(tab) <= 0
    # A slider that some figure depends on, moved by the keyboard.
    watched = {name for f in page.figures for name in f.depends}
    slider = next(c for c in page.controls if isinstance(c, Slider) and c.name in watched and not c.hidden)
    before, answers = drawn(tab), int(tab.locator("body").get_attribute("data-answers"))
    handle = tab.locator(f"#c-{slider.name}")
    handle.focus()
    tab.keyboard.press("ArrowLeft" if slider.default >= slider.ends()[1] else "ArrowRight")
    expect(tab.locator("body")).not_to_have_attribute("data-answers", str(answers))
    tab.wait_for_timeout(300)
    assert drawn(tab) != before
    moved = tab.locator(f"label[for=c-{slider.name}] + output").text_content()
    assert f"{slider.name}=" in tab.url
    # The link restores the state.
    open_page(tab, tab.url)
    assert tab.locator(f"label[for=c-{slider.name}] + output").text_content() == moved
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.wait_for_timeout(200)
    assert overflow(tab) <= 0
    widths = tab.locator("figure .plot").evaluate_all("all => all.map(e => e.clientWidth)")
    assert min(widths) > 300
    expect(tab.locator("#error")).to_be_hidden()


def test_the_front_page_leads_through_the_course(tab, link):
    open_page(tab, f"{link}/")
    cards = tab.locator("#course a")
    expect(cards).to_have_count(len(PAGES))
    assert cards.evaluate_all("all => all.map(e => e.getAttribute('href'))") == [f"/{slug}" for slug in PAGES]
    tab.set_viewport_size({"width": 400, "height": 800})
    assert overflow(tab) <= 0
    cards.first.click()
    tab.locator("body[data-ready]").wait_for()
    for slug in list(PAGES)[1:3]:
        tab.locator("a[rel=next]").click()
        tab.wait_for_url(f"{link}/{slug}")
        tab.locator("body[data-ready]").wait_for()


def test_a_click_in_the_map_moves_two_sliders(tab, link):
    open_page(tab, f"{link}/phase")
    box = tab.locator("#plot-map").bounding_box()
    tab.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + 0.3 * box["height"])
    tab.wait_for_timeout(400)
    assert "C_W=" in tab.url
    assert "C_b=" in tab.url
    before = tab.url
    tab.locator(".here").focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(400)
    assert tab.url != before


def test_a_run_starts_streams_and_stops(tab, link):
    open_page(tab, f"{link}/bands?width=32&depth=3&steps=4096")
    expect(tab.locator("#status")).to_have_text("")
    before = drawn(tab)
    tab.locator("#start").click()
    expect(tab.locator("#status")).to_contain_text(
        re.compile(r"^[1-9]\d* of 128 networks, "), timeout=PATIENCE
    )
    tab.locator("#stop").click()
    expect(tab.locator("#status")).to_contain_text(re.compile(r"^(stopped after \d+|128 of 128) networks"))
    expect(tab.locator("#start")).to_be_enabled()
    assert drawn(tab) != before
    expect(tab.locator("#numbers .measured")).to_have_count(3)
    # The measured points belong to the state: they go when it moves.
    tab.locator("#c-width").focus()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#numbers .measured")).to_have_count(0)


def send_table(tab: Page, content: bytes, name: str = "mine.csv") -> None:
    tab.locator("#table").set_input_files({"name": name, "mimeType": "text/csv", "buffer": content})
    tab.locator("#send").click()


def test_a_table_gets_a_report_and_a_broken_one_a_sentence(tab, link):
    open_page(tab, f"{link}/bands?depth=2&width=16&steps=64&activation=relu")
    send_table(tab, b"a,b\n1,2\n3,4,5\n")
    expect(tab.locator("#answer")).to_contain_text("the table", timeout=PATIENCE)
    assert "Traceback" not in tab.locator("#answer").text_content()
    send_table(tab, b"x" * (2**20 + 1))
    expect(tab.locator("#answer")).to_have_text("The table is larger than 1 MB.")
    rows = "\n".join(f"{i % 7},{i % 5},{(i % 7) + 0.5 * (i % 5)}" for i in range(80))
    send_table(tab, f"a,b,<b>y</b>\n{rows}".encode())
    expect(tab.locator("#answer a")).to_contain_text("64 rows, 16 held out", timeout=PATIENCE)
    found = httpx.get(link + tab.locator("#answer a").get_attribute("href"))
    assert found.status_code == 200
    assert found.headers["content-security-policy"].startswith("sandbox")
    assert "script-src" not in found.headers["content-security-policy"]
    assert "<b>y</b>" not in found.text


def test_a_page_that_cannot_be_computed_says_so(tab, link):
    """The server is asked for values that no slider has."""
    found = httpx.get(f"{link}/api/phase/figures", params={"figures": "map", "C_W": "nan"})
    assert found.status_code == 400
    assert found.json()["error"].startswith("C_W must be a finite number")
    for query in ("activation=leaky_relu:0.1", "activation=lambda x: x", "depth=__import__('os')"):
        found = httpx.get(f"{link}/api/phase/figures?figures=map&{query}")
        assert found.status_code == 400
        assert found.json()["error"].endswith(".")
    for path in (
        "/nothing",
        "/api/nothing",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/report/guess",
    ):
        assert httpx.get(link + path).status_code == 404, path
    assert httpx.post(f"{link}/api/phase/run", headers={"X-Lab": "1"}).status_code == 404
    assert httpx.get(f"{link}/api/pages", headers={"host": "evil.example"}).status_code == 421
    large = httpx.post(f"{link}/api/bands/report", headers={"X-Lab": "1"}, content=b"x" * (2**20 + 1))
    assert large.status_code == 413


def test_a_page_whose_server_is_gone_says_so(tab, link):
    open_page(tab, f"{link}/wide")
    tab.route("**/api/**", lambda route: route.abort())
    tab.locator("#c-depth").focus()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#error")).to_contain_text("Is `finitewidth serve` still running?")
    tab.unroute("**/api/**")
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#error")).to_be_hidden()
    # Chromium's words about the requests that were aborted may come late.
    tab.complaints[:] = [said for said in tab.complaints if "ERR_FAILED" not in said]


def test_a_web_socket_does_not_open(link):
    with socket.create_connection(("127.0.0.1", int(link.rsplit(":", 1)[1]))) as line:
        line.sendall(
            f"GET /api/pages HTTP/1.1\r\nHost: {link.removeprefix('http://')}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b" 101 " not in line.recv(200).split(b"\r\n")[0]


def test_twenty_clients_at_once_and_hang_ups(link):
    """Twenty move sliders, five start a run and hang up; then one still gets its run."""
    answers, failures = [], []

    def drag(i):
        try:
            with httpx.Client(base_url=link, timeout=60) as client:
                for j in range(4):
                    query = {"figures": "law", "C_W": 0.5 + 0.05 * (i + j)}
                    answers.append(client.get("/api/bands/figures", params=query).status_code)
                if i < 5:
                    with client.stream(
                        "POST", f"/api/bands/run?C_W={1 + i / 4}", headers={"X-Lab": "1"}
                    ) as run:
                        next(run.iter_lines())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=drag, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert answers == [200] * 80
    address = f"{link}/api/bands/run?width=16&depth=2&steps=64"
    with httpx.stream("POST", address, headers={"X-Lab": "1"}, timeout=90) as run:
        pieces = (json.loads(line).get("piece") for line in run.iter_lines())
        assert next(piece for piece in pieces if piece and piece["done"])["done"] == 8


def test_a_port_in_use_is_told_in_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        call = subprocess.run(
            [*COMMAND, "--port", str(port)], capture_output=True, text=True, check=False, env=os.environ
        )
    assert call.returncode == 2
    assert call.stdout == ""
    assert f"port {port} is already in use; give another one with --port." in " ".join(call.stderr.split())
