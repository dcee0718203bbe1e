"""A checkpoint in an object store: any key-value store that TensorStore opens by URL.

There are no directories, no locks and no rename: the manifest is written on the condition that it is still the one
that was there when the save began, so of two saves at once the second to finish fails and the first one stays.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime.directory._manifest import NAME, data_of
from treaty.schema import TreatyError


@cache
def context() -> ts.Context:
    """One for all: connections are shared, and so is what `memory://` holds."""
    return ts.Context({"cache_pool": {"total_bytes_limit": 0}})


class Remote:
    def __init__(self, url: str) -> None:
        self.where = url.rstrip("/")
        self._store = ts.KvStore.open(f"{self.where}/", context=context()).result()
        self._generation = b""
        self._previous: str | None = None

    @property
    def kvstore(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self._store.spec().to_json()
        return spec

    def manifest(self) -> bytes | None:
        found = self._store.read(NAME).result()
        return bytes(found.value) if found.state == "value" else None

    def begin(self) -> None:
        found = self._store.read(NAME).result()
        self._generation = found.stamp.generation
        self._previous = data_of(bytes(found.value)) if found.state == "value" else None

    def prepare(self, data: str) -> None:
        pass

    def commit(self, data: str, manifest: bytes) -> None:
        stamp = self._store.write(NAME, manifest, if_equal=self._generation).result()
        if not stamp.generation:
            raise TreatyError(
                f"expected the manifest at {self.where} as it was, got another save that finished meanwhile"
            )
        if self._previous is not None:
            self._delete(self._previous)

    def abandon(self, data: str | None) -> None:
        if data is not None and data.encode() not in (self.manifest() or b""):
            self._delete(data)

    def sizes(self, data: str) -> Mapping[str, int | None]:
        keys = self._store.list(_under(f"{data}/")).result()
        return {key.decode().removeprefix(f"{data}/"): None for key in keys}

    def read_into(self, name: str, view: memoryview) -> None:
        found = self._store.read(name).result()
        if found.state != "value":
            raise CorruptCheckpointError(f"expected a file, got nothing at {name}")
        if len(found.value) != len(view):
            raise CorruptCheckpointError(f"expected {len(view)} bytes, got {len(found.value)} in {name}")
        view[:] = found.value

    def _delete(self, data: str) -> None:
        self._store.delete_range(_under(f"{data}/")).result()


def _under(prefix: str) -> ts.KvStore.KeyRange:
    return ts.KvStore.KeyRange(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
