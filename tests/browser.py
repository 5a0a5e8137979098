"""A real Chromium, driven over the pipe of its DevTools protocol: open a page, click, evaluate, take a picture.

It needs no driver and no package: only a Chromium on this machine, or the one that `TIDEMILL_CHROMIUM` names. The
browser has an empty profile in a temporary folder, and ends with its `Browser`.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

MISSING = "no Chromium: install Chromium, for example `apt-get install chromium`, or name it in TIDEMILL_CHROMIUM"
COMMANDS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none",
    "--remote-debugging-pipe",
)  # fmt: skip
TIMEOUT_S = 20.0
_AS_3_AND_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Starts a command with two pipes as its file descriptors 3 and 4, where the protocol expects them."""


def chromium() -> str | None:
    """The command of a Chromium on this machine, or None."""
    named = os.environ.get("TIDEMILL_CHROMIUM")
    return named or next((found for name in COMMANDS if (found := shutil.which(name))), None)


class Browser:
    """One page of a Chromium. `requests` has the URLs that it asked for; `messages` and `errors` what it reported."""

    def __init__(self) -> None:
        command = chromium()
        assert command, MISSING
        self._profile = tempfile.TemporaryDirectory(prefix="tidemill-chromium-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _AS_3_AND_4, str(to_browser), str(from_browser), command, *FLAGS,
             f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._last, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.errors: list[str] = []
        self._loaded, self._runs_scripts = False, True
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser: by its own command, or else by its process id."""
        try:
            self._session = ""
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def open(self, page: Path | str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file or a URL in a window of this size, with light or dark colours preferred. Returns once drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests, self.messages, self.errors, self._loaded = [], [], [], False
        self.call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        end = time.monotonic() + TIMEOUT_S
        while not self._loaded:
            self._event(end)
        if self._runs_scripts:
            self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression; a promise is awaited. An exception fails."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true, also while the page loads another one."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            found = self.call("Runtime.evaluate", expression=f"Boolean({expression})", returnByValue=True)
            if found["result"].get("value") is True:
                return
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def key(self, key: str) -> None:
        """Press a key on the element that has the focus."""
        codes = {"Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def click(self, selector: str) -> None:
        """Click in the middle of the first element of a selector, with the mouse."""
        place = self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({ block: 'center', inline: 'center' });"
            "const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def picture(self, selector: str | None = None, last: float | None = None) -> bytes:
        """Return a PNG of the whole page, of the page down to `last`, or of one element."""
        of = "document.documentElement" if selector is None else f"document.querySelector({json.dumps(selector)})"
        box = self.evaluate(
            f"(() => {{ const box = {of}.getBoundingClientRect();"
            "return { x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height }; })()"
        )
        box["height"] = box["height"] if last is None else last
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={**box, "scale": 1})
        return base64.b64decode(found["data"])

    def without_scripts(self) -> None:
        """Let pages that are opened from now on run no script."""
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        self._runs_scripts = False

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol, and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + TIMEOUT_S
        while True:
            found = self._event(end)
            if found.get("id") == self._last:
                assert "error" not in found, f"{method}: {found['error']}"
                return dict(found["result"])

    def _event(self, end: float) -> dict[str, Any]:
        """Return the next message of the browser; note what it says about requests and errors."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0))
            assert ready, "Chromium does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        parameters = found.get("params", {})
        match found.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.consoleAPICalled":
                self.messages.append(" ".join(str(one.get("value")) for one in parameters["args"]))
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded":
                self.errors.append(parameters["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.errors.append(f"dialog: {parameters['message']}")
        return found
