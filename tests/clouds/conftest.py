"""One server of each kind for the whole session, and a prefix of its own for every test."""

import itertools
from collections.abc import Iterator

import pytest
import tensorstore as ts
from attrs import frozen

from tests.clouds.faults import Faults
from tests.clouds.gcs import GcsServer
from tests.clouds.s3 import S3Server
from treaty.runtime._storage import clouds as _clouds
from treaty.runtime.formats.directory import plan as _plan

BUCKET = "bucket"
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAKEYOFTHETESTS",
    "AWS_SECRET_ACCESS_KEY": "secretofthetests",
    "AWS_SESSION_TOKEN": "sessionofthetests",
    "GOOGLE_AUTH_TOKEN_FOR_TESTING": "tokenofthetests",
}
Servers = dict[str, S3Server | GcsServer]
_numbers = itertools.count()


@frozen
class Cloud:
    """A prefix of a store, as a test sees it."""

    server: S3Server | GcsServer
    url: str

    @property
    def faults(self) -> Faults:
        return self.server.faults

    @property
    def store(self) -> ts.KvStore:
        return ts.KvStore.open(_clouds.spec_of(f"{self.url}/")).result()

    @property
    def keys(self) -> list[str]:
        return sorted(key.decode() for key in self.store.list().result())

    @property
    def names(self) -> set[str]:
        """Of what lies directly under the prefix."""
        return {key.partition("/")[0] for key in self.keys}

    def key(self, ending: str) -> str:
        """The one object whose name ends so."""
        (found,) = (key for key in self.keys if key.endswith(ending))
        return found

    def read(self, key: str) -> bytes:
        return bytes(self.store.read(key).result().value)

    def write(self, key: str, value: bytes | None) -> None:
        self.store.write(key, value).result()

    def fill(self, folder: str, count: int) -> None:
        """Put many objects there, quicker than by requests."""
        prefix = self.url.partition(f"{BUCKET}/")[2]
        for number in range(count):
            self.server.put(BUCKET, f"{prefix}/{folder}/stray-{number}", b"")


@pytest.fixture(scope="session")
def running() -> Iterator[Servers]:
    s3, gcs = S3Server(BUCKET), GcsServer(BUCKET, SECRETS["GOOGLE_AUTH_TOKEN_FOR_TESTING"])
    yield {"s3": s3, "gs": gcs}
    s3.close()
    gcs.close()


@pytest.fixture
def servers(running: Servers, monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Servers by scheme, and an environment that leads to them."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", running["s3"].url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", running["gs"].url)
    return running


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of 64 bytes and more are TensorStore arrays in chunks of at most 256 bytes; retries do not wait."""
    monkeypatch.setattr(_plan, "SMALL_BYTES", 64)
    monkeypatch.setattr(_plan, "CHUNK_BYTES", 256)
    monkeypatch.setattr(_clouds, "RETRIES", {"max_retries": 4, "initial_delay": "1ms", "max_delay": "1ms"})


@pytest.fixture(params=["s3", "gs"])
def cloud(request: pytest.FixtureRequest, servers: Servers, quick: None) -> Iterator[Cloud]:
    server = servers[request.param]
    server.faults.clear()
    yield Cloud(server, f"{request.param}://{BUCKET}/run{next(_numbers)}/checkpoint")
    server.faults.clear()
