"""How fast the web lab answers: in the server, in a browser, and for twenty visitors at once.

python benchmarks/serve.py            # a few minutes; prints the tables of README.md

A move is one step of a slider. The server's time is that of computing the pictures; the browser's is from the
key press to the picture drawn, in headless Chromium, key by key.
"""

import re
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
from playwright.sync_api import sync_playwright

from finitewidth.course._server.pages import PAGES
from finitewidth.course._server.state import Slider

MOVES = 20


def main() -> None:
    command = [sys.executable, "-m", "finitewidth", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        (link,) = re.findall(r"http://127.0.0.1:\d+", server.stdout.readline())
        for page in PAGES.values():
            # The server compiles the default states when it starts; measure when it is done.
            names = ",".join(f.name for f in page.figures)
            httpx.get(f"{link}/api/{page.slug}/figures", params={"figures": names}, timeout=300)
        print("| page | slider | server, ms: median, p90 | browser, ms: median, p90 |\n|---|---|---|---|")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--headless", "--no-sandbox", "--disable-gpu"]
            )
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.set_default_timeout(120_000)
            for page in PAGES.values():
                for slider in watched(page):
                    server_ms, browser_ms = in_server(link, page, slider), in_browser(tab, link, page, slider)
                    print(
                        f"| {page.slug} | {slider.name} | {two(server_ms)} | {two(browser_ms)} |", flush=True
                    )
            browser.close()
        print("\n| clients | ms: median, p95 | answers/s |\n|---|---|---|")
        for clients in (1, 20):
            print(f"| {clients} | {many(link, clients)} |")
    finally:
        server.terminate()
        server.wait()


def watched(page) -> list[Slider]:
    """The sliders that change a picture."""
    names = {name for figure in page.figures for name in figure.depends}
    return [c for c in page.controls if isinstance(c, Slider) and c.name in names and not c.hidden]


def places(slider: Slider) -> list:
    """Values on the way of one handle, there and back."""
    steps = round((slider.high - slider.low) / slider.step)
    exponents = [slider.low + slider.step * (i % (steps + 1)) for i in range(MOVES)]
    return [slider.read(str(slider.base**e if slider.base else e)) for e in exponents]


def in_server(link: str, page, slider: Slider) -> list[float]:
    figures = ",".join(f.name for f in page.figures if slider.name in f.depends)
    with httpx.Client(base_url=link, timeout=120) as client:
        times = [
            client.get(f"/api/{page.slug}/figures", params={"figures": figures, slider.name: v}).json()["ms"]
            for v in places(slider)
        ]
    return times[2:]


def in_browser(tab, link: str, page, slider: Slider) -> list[float]:
    tab.goto(f"{link}/{page.slug}")
    tab.locator("body[data-ready]").wait_for()
    tab.wait_for_timeout(500)
    # Each key waits for the picture of the one before; the clock is the page's own.
    return tab.evaluate(
        """async ([id, moves]) => {
            const input = document.getElementById(id), times = [];
            const frame = () => new Promise(requestAnimationFrame);
            for (let i = 0; i < moves; i++) {
                const before = document.body.dataset.answers, up = Math.floor(i / 6) % 2 === 0;
                const [was, began] = [input.value, performance.now()];
                up ? input.stepUp() : input.stepDown();
                if (input.value === was) continue;
                input.dispatchEvent(new Event('input', { bubbles: true }));
                while (document.body.dataset.answers === before) await new Promise(r => setTimeout(r, 1));
                times.push(performance.now() - began);
                await frame();
            }
            return times.slice(2);
        }""",
        [f"c-{slider.name}", MOVES],
    )


def many(link: str, clients: int) -> str:
    times: list[float] = []

    def drag(i: int) -> None:
        with httpx.Client(base_url=link, timeout=120) as client:
            for j in range(20):
                began = time.perf_counter()
                # Every position is a new one: those seen before are remembered.
                query = {"figures": "law", "C_W": 0.5 + 0.05 * j, "C_b": 0.02 * (i + clients)}
                client.get("/api/bands/figures", params=query)
                times.append(1e3 * (time.perf_counter() - began))

    began = time.perf_counter()
    threads = [threading.Thread(target=drag, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    return f"{np.median(times):.0f}, {np.percentile(times, 95):.0f} | {len(times) / took:.0f}"


def two(times: list[float]) -> str:
    return f"{np.median(times):.0f}, {np.percentile(times, 90):.0f}" if times else "-"


if __name__ == "__main__":
    main()
