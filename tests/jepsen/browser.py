"""A headless Chromium for tests, spoken to in its own protocol through a pipe: no driver, no port.

It can reach nothing: every name that it looks up is refused.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 60
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
# Chromium reads commands from file descriptor 3 and writes answers to 4.
LAUNCH = """
import fcntl, os, sys
low, high = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(low, 3)
os.dup2(high, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def require_chromium() -> str:
    """The path of Chromium; skips the test where there is none."""
    for name in (os.environ.get("CHROMIUM", "chromium"), "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip("no Chromium: scripts/browser.sh installs one")


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A running browser with a new profile; it is gone at the end."""
    path = require_chromium()
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    process = subprocess.Popen(
        (
            *(sys.executable, "-c", LAUNCH, str(commands_out), str(answers_in), path),
            *(*FLAGS, f"--user-data-dir={profile}", "about:blank"),
        ),
        pass_fds=(commands_out, answers_in),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands_out)
    os.close(answers_in)
    try:
        yield Browser(commands_in, answers_out)
    finally:
        os.close(commands_in)
        os.close(answers_out)
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Browser:
    """The connection: commands with their answers, and events in the order in which they came."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._ready = select.poll()
        self._ready.register(read, select.POLLIN)
        self._pending = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def command(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Carry out one command. Fails the test with the browser's words if it is refused."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self.until(lambda one: one.get("id") == self._last)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that is wanted; what comes before it is kept in `events`."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self._message(deadline)
            if wanted(message):
                return message
            self.events.append(message)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._pending:
            # Not `select`, which knows no descriptor above 1023.
            left_ms = max(0.0, deadline - time.monotonic()) * 1000
            assert self._ready.poll(left_ms), "the browser did not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser is gone"
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        """A new tab in which the page has loaded and its scripts have run."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.command(f"{domain}.enable")
        tab.resize(width, height)
        tab.command("Emulation.setFocusEmulationEnabled", enabled=True)
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            tab.command("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        tab.navigate(page)
        return tab


class Tab:
    """One open page."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.command(method, self._session, **parameters)

    def navigate(self, page: Path) -> None:
        self.command("Page.navigate", url=page.as_uri())
        events = self._browser.events
        loaded = "Page.loadEventFired"
        if not any(event.get("method") == loaded for event in events):
            events.append(self._browser.until(lambda one: one.get("method") == loaded))

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def close(self) -> None:
        self._browser.command("Target.closeTarget", targetId=self._target)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression. Fails the test if it throws."""
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def problems(self) -> list[str]:
        """What the page complained about: exceptions, errors on the console, things that policy refused."""
        found = []
        for event in self._browser.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(str(parameters["args"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Every address that the page asked for, its own included."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def middle(self, selector: str, number: int = 0) -> tuple[float, float]:
        """The middle of an element, after it was scrolled into view."""
        box = self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{number}]; "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect(); "
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        return float(box[0]), float(box[1])

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, selector: str, number: int = 0) -> None:
        x, y = self.middle(selector, number)
        # The scroll into view comes first: its event hides what the pointer would show.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        self.mouse("mouseMoved", x, y)

    def click(self, selector: str, number: int = 0) -> None:
        x, y = self.middle(selector, number)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        data = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
