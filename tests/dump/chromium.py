"""A headless browser for the tests of pages, where one is installed; driven through a pipe, by its own protocol."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_KEYS = {"Enter": {"text": "\r", "windowsVirtualKeyCode": 13}, "Escape": {"windowsVirtualKeyCode": 27}}
_SECONDS = 60
# The browser reads descriptor 3 and writes 4.
_CONNECT = """
import os, sys
for given, wanted in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(given), wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One process with a profile of its own in `folder`. Use as a context manager."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 800) -> None:
        self.size = (width, height)
        self.errors: list[str] = []
        self._count = 0
        self._rest = b""
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_there, write_there)]
        profile = folder / "profile"
        profile.mkdir()
        command = [str(PROGRAM), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _CONNECT, *map(str, ends), *command],
            pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for end in (read_there, write_there, *ends):
            os.close(end)
        self._read, self._write = read_here, write_here
        self._session = None

    def __enter__(self) -> "Browser":
        (target,) = [t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime"):
            self.ask(f"{domain}.enable")
        width, height = self.size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._write)
            os.close(self._read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    def open(self, page: Path, state: str = "") -> int:
        """Show a page; the milliseconds until it says that it can be used."""
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=f"{page.resolve().as_uri()}{'#' + state if state else ''}")
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            found = self.run("[document.documentElement?.dataset.ready, document.documentElement?.dataset.failed]")
            if found and any(found):
                assert found[0], found[1]
                self.settle()
                return int(found[0])
            time.sleep(0.02)
        raise TimeoutError(f"{page} is not ready; {self.errors}")

    def settle(self) -> None:
        """Wait for two frames."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, script: str):
        """The value of an expression on the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            more = {"text": key} if len(key) == 1 else _KEYS.get(key, {})
            self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, **more)
        self.settle()

    def type(self, text: str) -> None:
        """Write into what has the focus."""
        self.ask("Input.insertText", text=text)
        self.settle()

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Click at a place."""
        for n in range(1, count + 1):
            place = {"x": x, "y": y, "button": "left", "clickCount": n}
            self.ask("Input.dispatchMouseEvent", type="mousePressed", **place)
            self.ask("Input.dispatchMouseEvent", type="mouseReleased", **place)
        self.settle()

    def move(self, x: float, y: float) -> None:
        """Move the pointer there."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def picture(self, path: Path) -> Path:
        """What is to be seen, as a PNG."""
        self.settle()
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
        return path

    def ask(self, method: str, **params):
        """Send a command and wait for its answer; errors of scripts are noted in `errors`."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            for found in self._messages():
                if found.get("method") == "Runtime.exceptionThrown":
                    self.errors.append(str(found["params"]["exceptionDetails"]))
                if found.get("id") == self._count:
                    if "error" in found:
                        raise AssertionError(f"{method}: {found['error']}")
                    return found["result"]
        raise TimeoutError(method)

    def _messages(self):
        if not select.select([self._read], [], [], 1)[0]:
            return []
        data = os.read(self._read, 1 << 20)
        if not data:
            raise EOFError("the browser is gone")
        *whole, self._rest = (self._rest + data).split(b"\0")
        return [json.loads(m) for m in whole]
