"""Chromium with a keyboard: a page opened from its file, by the protocol of WebDriver, which chromedriver speaks."""

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER: Final = shutil.which("chromedriver")
_QUIET: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
KEYS: Final = {
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Left": "\ue012",
    "Up": "\ue013",
    "Right": "\ue014",
    "Down": "\ue015",
}
_FRAMES: Final = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"


class Browser:
    """One window. What a page writes to its console, errors among it, is in `console`."""

    def __init__(self, url: str, profile: Path) -> None:
        self._url = url
        options = {"binary": CHROMIUM, "args": [*_QUIET, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def open(self, page: Path, width: int = 1280, dark: bool = False) -> None:
        """At a width that windows themselves would not have: that of a phone."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._do("POST", "/url", {"url": page.resolve().as_uri()})
        self.run("localStorage.clear()")
        self.settle()

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body returns; elements come back as what `click` and `type` take."""
        return self._do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def settle(self) -> None:
        """Until what is to be drawn is drawn."""
        self._do("POST", "/execute/async", {"script": _FRAMES, "args": []})

    def find(self, selector: str) -> Any:
        return self._do("POST", "/element", {"using": "css selector", "value": selector})

    def click(self, selector: str) -> None:
        (element,) = self.find(selector).values()
        self._do("POST", f"/element/{element}/click", {})
        self.settle()

    def press(self, *keys: str) -> None:
        """Keys as the keyboard gives them, wherever the focus is."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
        self.settle()

    def type(self, text: str) -> None:
        self.press(*text)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def texts(self, selector: str) -> list[str]:
        return list(self.run("return [...document.querySelectorAll(arguments[0])].map(one => one.innerText)", selector))

    @property
    def console(self) -> list[str]:
        return [entry["message"] for entry in self._do("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path: Path, size: tuple[int, int] | None = None) -> None:
        """The top of the page, or all of it, however long."""
        wanted: dict[str, Any] = {"captureBeyondViewport": True, "format": path.suffix[1:], "quality": 60}
        if size is not None:
            wanted["clip"] = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        taken = self._devtools("Page.captureScreenshot", wanted)
        path.write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        self._do("DELETE", "")

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _do(self, method: str, path: str, data: Any = None) -> Any:
        return self._ask(method, f"/session/{self._session}{path}", data)

    def _ask(self, method: str, path: str, data: Any = None) -> Any:
        content = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self._url + path, content, {"content-type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # this machine, whatever the proxies
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """`profile` is a folder for it."""
    assert DRIVER is not None
    command = [DRIVER, "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
        try:
            assert driver.stdout is not None
            port = next(
                found[1] for line in driver.stdout if (found := re.search(r"successfully on port ([0-9]+)", line))
            )
            one = Browser(f"http://127.0.0.1:{port}", profile)
            try:
                yield one
            finally:
                one.close()
        finally:
            driver.terminate()
