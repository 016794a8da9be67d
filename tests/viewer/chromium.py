"""A page in headless Chromium, by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 120.0
_START = """import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and writes to 4, which may be the numbers of others meanwhile."""


def find() -> str | None:
    """The path of Chromium, if there is one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Tab:
    """A page, what it wrote to the console, and what it asked the network for."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._number = 0
        self._rest = b""
        self._session = ""
        self.errors: list[str] = []
        self.requests: list[str] = []

    def attach(self) -> None:
        """Begins to listen to a new page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command. Raises RuntimeError with what Chromium says."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _SECONDS
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("Chromium does not answer")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.errors.append(thrown.get("exception", {}).get("description") or thrown["text"])
        elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(argument.get("value")) for argument in details["args"]))
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.errors.append(details["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def close(self) -> None:
        """Ends the browser."""
        self._session = ""
        self.call("Browser.close")

    def open(self, path: Path) -> None:
        """Opens a page and waits until it has drawn itself."""
        self.call("Page.navigate", url=path.absolute().as_uri())
        self.until("document.readyState === 'complete' && window.xloomShow !== undefined")
        self.value("xloomShow.then((app) => { window.app = app; return true; })")
        self.until("app.opened !== undefined")

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def until(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + _SECONDS
        while not self.value(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"it never became true: {expression}")
            time.sleep(0.02)

    def press(self, key: str, **modifiers: Any) -> None:
        """Presses a key: a character, or a name as in KeyboardEvent.key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **modifiers)

    def type(self, text: str) -> None:
        """Writes text where the focus is."""
        self.call("Input.insertText", text=text)

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Clicks at a place of the page, in CSS pixels."""
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=number)

    def resize(self, width: int, height: int) -> None:
        """Gives the page a size in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """The system has light or dark colours."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """Writes what the page looks like as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium(folder: Path, program: str) -> Iterator[Tab]:
    """A new page of a browser that has its profile in a folder, and ends afterwards."""
    to_read, write = os.pipe()
    read, to_write = os.pipe()
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
    options += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(to_read), str(to_write), program, *options],
        pass_fds=(to_read, to_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    tab = Tab(write, read)
    try:
        tab.attach()
        yield tab
    finally:
        try:
            tab.close()
            process.wait(_SECONDS)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        os.close(write)
        os.close(read)
