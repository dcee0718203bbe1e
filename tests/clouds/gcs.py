"""Google Cloud Storage as far as TensorStore uses it: objects of the JSON API, with generations and their conditions."""

import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from attrs import frozen

from tests.clouds.faults import Faults, reply, serve

PAGE: Final = 1000  # of a list, as in the real one
_OBJECTS: Final = re.compile(r"(?:/upload)?/storage/v1/b/([^/]+)/o(?:/([^/]+))?\Z")


@frozen
class Stored:
    value: bytes
    generation: int


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the usual 5, connections wait a second for their turn
    daemon_threads = True


class GcsServer:
    """Serves in threads of its own, at a free port of the loopback interface, to those who have the token."""

    def __init__(self, bucket: str, token: str) -> None:
        self.faults = Faults()
        self.buckets: dict[str, dict[str, Stored]] = {bucket: {}}
        self.token = token
        self.lock = threading.Lock()
        self._generation = 0
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, bucket: str, key: str, value: bytes) -> int:
        """Store an object; its generation is larger than any before."""
        self._generation += 1
        self.buckets[bucket][key] = Stored(value, self._generation)
        return self._generation

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # it makes every answer wait for 40 ms

            def __getattr__(self, name: str) -> Any:
                if name in ("do_GET", "do_POST", "do_DELETE"):
                    return lambda: serve(self, outer.faults, lambda: _work(self, outer))
                raise AttributeError(name)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _work(handler: BaseHTTPRequestHandler, server: GcsServer) -> None:
    body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    url = urlsplit(handler.path)
    found = _OBJECTS.match(url.path)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    if handler.headers.get("Authorization") != f"Bearer {server.token}":
        return _refuse(handler, 401, "Invalid Credentials")
    if found is None or found[1] not in server.buckets:
        return _refuse(handler, 404, "The specified bucket does not exist.")
    bucket = found[1]
    with server.lock:
        if handler.command == "POST":
            _insert(handler, server, bucket, query, body)
        elif found[2] is None:
            _list(handler, server.buckets[bucket], query)
        else:
            _one(handler, server.buckets[bucket], unquote(found[2]), query)


def _insert(
    handler: BaseHTTPRequestHandler, server: GcsServer, bucket: str, query: Mapping[str, str], body: bytes
) -> None:
    name = query["name"]
    if _holds(server.buckets[bucket].get(name), query):
        generation = server.put(bucket, name, body)
        _send(handler, {"kind": "storage#object", "name": name, "generation": str(generation), "size": str(len(body))})
    else:
        _refuse(handler, 412, "At least one of the pre-conditions you specified did not hold.")


def _list(handler: BaseHTTPRequestHandler, objects: Mapping[str, Stored], query: Mapping[str, str]) -> None:
    first = max(query.get("startOffset", ""), query.get("pageToken", ""))
    end = query.get("endOffset")
    prefix = query.get("prefix", "")
    names = sorted(n for n in objects if n.startswith(prefix) and n >= first and (end is None or n < end))
    items = [
        {"name": n, "generation": str(objects[n].generation), "size": str(len(objects[n].value))} for n in names[:PAGE]
    ]
    _send(
        handler, {"kind": "storage#objects", "items": items, **({"nextPageToken": names[PAGE]} if names[PAGE:] else {})}
    )


def _one(handler: BaseHTTPRequestHandler, objects: dict[str, Stored], name: str, query: Mapping[str, str]) -> None:
    stored = objects.get(name)
    if stored is None:
        _refuse(handler, 404, f"No such object: {name}")
    elif not _holds(stored, query):
        _refuse(handler, 412 if handler.command == "DELETE" or "ifGenerationMatch" in query else 304, "Precondition")
    elif handler.command == "DELETE":
        del objects[name]
        reply(handler, 204)
    elif "Range" in handler.headers:
        _refuse(handler, 501, "This server knows no ranges.")
    else:
        reply(handler, 200, stored.value, X_Goog_Generation=str(stored.generation))


def _holds(stored: Stored | None, query: Mapping[str, str]) -> bool:
    """Whether the conditions do; generation 0 is that of an object that is not there."""
    generation = 0 if stored is None else stored.generation
    wanted, unwanted = query.get("ifGenerationMatch"), query.get("ifGenerationNotMatch")
    return (wanted is None or int(wanted) == generation) and (unwanted is None or int(unwanted) != generation)


def _refuse(handler: BaseHTTPRequestHandler, status: int, message: str) -> None:
    _send(handler, {"error": {"code": status, "message": message}}, status)


def _send(handler: BaseHTTPRequestHandler, content: Any, status: int = 200) -> None:
    reply(handler, status, json.dumps(content).encode(), Content_Type="application/json")
