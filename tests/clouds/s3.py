"""moto's S3 server, with faults."""

import threading
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.clouds.faults import Faults, serve


class S3Server:
    """Serves in threads of its own, at a free port of the loopback interface. All of a process share their objects."""

    def __init__(self, bucket: str) -> None:
        self.faults = Faults()
        application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._objects: Any = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        if bucket not in self._objects.buckets:
            self._objects.create_bucket(bucket, "us-east-1")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, bucket: str, key: str, value: bytes) -> None:
        self._objects.put_object(bucket, key, value)

    def _handler(self) -> type[WSGIRequestHandler]:
        outer = self

        class Handler(WSGIRequestHandler):
            disable_nagle_algorithm = True

            def run_wsgi(self) -> None:
                serve(self, outer.faults, super().run_wsgi)

            def log(self, *_: Any) -> None:
                pass

        return Handler
