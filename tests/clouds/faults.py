"""What a test can make a server do wrong, whichever store it plays."""

import io
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from attrs import define, field, frozen


@frozen
class Answer:
    """Instead of the right one; nothing is done."""

    status: int
    body: bytes = b""


@frozen
class Gone:
    """The connection is closed without an answer, as by a server that died."""

    is_done: bool = False  # what was asked for


@frozen
class Heedless:
    """The request is served without regard to its conditions."""


Fault = (
    Answer | Gone | Heedless | Callable[[], None]
)  # a function runs first, then the request is served as if nothing were


@define
class _Rule:
    pattern: "re.Pattern[str]"
    fault: Fault
    skip: int
    times: float

    def applies(self, request: str) -> bool:
        if not self.pattern.search(request):
            return False
        self.skip -= 1
        if self.skip >= 0 or self.times <= 0:
            return False
        self.times -= 1
        return True


@define
class Faults:
    """Rules for requests such as `PUT /bucket/run/treaty.json`, and a record of all that came, and of who signed them."""

    requests: list[str] = field(factory=list)
    signed: list[str] = field(factory=list)
    _rules: list[_Rule] = field(factory=list)
    _lock: Any = field(factory=threading.Lock)

    def on(self, pattern: str, fault: Fault, *, skip: int = 0, times: float = float("inf")) -> None:
        """Let requests that match go wrong: not the first `skip` of them, then `times` of them."""
        self._rules.append(_Rule(re.compile(pattern), fault, skip, times))

    def clear(self) -> None:
        self._rules.clear()
        self.requests.clear()
        self.signed.clear()

    def next(self, request: str) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            return next((rule.fault for rule in self._rules if rule.applies(request)), None)


def serve(handler: BaseHTTPRequestHandler, faults: Faults, work: Callable[[], None]) -> None:
    """Answer one request with `work`, unless a fault comes in between."""
    faults.signed.append(handler.headers.get("Authorization", "nobody"))
    fault = faults.next(f"{handler.command} {unquote(handler.path)}")
    handler.close_connection = True
    if isinstance(fault, Answer):
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        reply(handler, fault.status, fault.body)
    elif isinstance(fault, Gone):
        if fault.is_done:
            handler.wfile, answer = io.BytesIO(), handler.wfile
            work()
            handler.wfile = answer
    else:
        if isinstance(fault, Heedless):
            del handler.headers["If-Match"], handler.headers["If-None-Match"]
        elif fault is not None:
            fault()
        work()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content_Length": str(len(body)), "Connection": "close", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
