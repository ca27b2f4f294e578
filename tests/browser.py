"""A real browser for pages: Chromium driven through its debugging pipe, nothing to install besides.

with Browser() as browser, browser.open(path, width=400) as page:
    page.evaluate("document.title"), page.problems, page.screenshot(png)
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


def executable() -> str:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise FileNotFoundError("no Chromium: `apt-get install chromium`, or any package with that command.")
    return found


class Browser:
    """One Chromium process with an empty profile of its own."""

    def __enter__(self) -> "Browser":
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        command_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        script = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
        arguments = [executable(), *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *arguments],
            env=os.environ | {"IN": str(command_out), "OUT": str(answers_in)},
            pass_fds=(command_out, answers_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_out)
        os.close(answers_in)
        self._number, self._buffer, self.events = 0, b"", []
        return self

    def __exit__(self, *_) -> None:
        self.send("Browser.close")
        self._process.wait(20)
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def send(self, method: str, session: str | None = None, **parameters) -> dict:
        """Give a command and wait for its answer; events on the way are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def receive(self) -> dict:
        while b"\0" not in self._buffer:
            piece = os.read(self._answers, 1 << 16)
            assert piece, "Chromium ended."
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path: Path, width: int, height: int = 900) -> "Page":
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        page.visit(path)
        return page


class Page:
    def __init__(self, browser: Browser, session: str):
        self._browser, self._session = browser, session

    def send(self, method: str, **parameters) -> dict:
        return self._browser.send(method, self._session, **parameters)

    def visit(self, path: Path) -> None:
        """Show another page in the same tab, and forget what the last one said."""
        self._forget()
        self.send("Page.navigate", url=path.resolve().as_uri())
        while not self.saw("Page.loadEventFired"):
            self._browser.receive()

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_) -> None:
        """Close the page and forget what it said: a hundred open pages would fill the memory."""
        target = self.send("Target.getTargetInfo")["targetInfo"]["targetId"]
        self._browser.send("Target.closeTarget", targetId=target)
        self._forget()

    def _forget(self) -> None:
        self._browser.events[:] = [e for e in self._browser.events if e.get("sessionId") != self._session]

    def _events(self, method: str) -> list[dict]:
        return [
            e["params"]
            for e in self._browser.events
            if e.get("sessionId") == self._session and e["method"] == method
        ]

    def saw(self, method: str) -> bool:
        return bool(self._events(method))

    def evaluate(self, expression: str):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    @property
    def problems(self) -> list[str]:
        """Errors and warnings of the console, and exceptions."""
        entries = [e["entry"] for e in self._events("Log.entryAdded")]
        said = [e["text"] for e in entries if e["level"] in ("error", "warning")]
        calls = self._events("Runtime.consoleAPICalled")
        said += [str(e["args"]) for e in calls if e["type"] in ("error", "warning", "assert")]
        return said + [e["exceptionDetails"]["text"] for e in self._events("Runtime.exceptionThrown")]

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        return [e["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    def screenshot(self, path: Path) -> None:
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
