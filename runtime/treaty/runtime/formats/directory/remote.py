"""A checkpoint in an object store: any key-value store that TensorStore opens by URL.

There are no directories, no locks and no rename: the manifest is written on the condition that it is still the one
that was there when the save began, so of two saves at once the second to finish fails and the first one stays. Where there
is none, a mark in its place makes the condition: that there is nothing may be true again after a removal.
"""

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError, MissingCheckpointError
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._process.watching import log
from treaty.runtime._storage.clouds import failure, spec_of
from treaty.runtime._storage.paths import is_stray
from treaty.runtime.formats.directory.checksum import checksum
from treaty.runtime.formats.directory.manifest import DATA, NAME, REMOVED
from treaty.schema import TreatyError


def context() -> ts.Context:
    """One for all: connections are shared, and so is what `memory://` holds."""
    use_tensorstore()
    return _context()


@cache
def _context() -> ts.Context:
    return ts.Context({"cache_pool": {"total_bytes_limit": 0}})


def wait_for(future: Any, what: str) -> Any:
    """The result of TensorStore's work, or its failure as one of ours, with nothing of the original attached."""
    try:
        return future.result()
    except Exception as error:  # TensorStore raises many kinds
        told = failure(what, error)
    raise told


class Remote:
    def __init__(self, url: str) -> None:
        self.where = url.rstrip("/")
        self.kvstore: Mapping[str, Any] = spec_of(f"{self.where}/")
        self._store: ts.KvStore = wait_for(ts.KvStore.open(self.kvstore, context=context()), f"open {self.where}")
        self._generation = b""
        self._is_new = False
        self._stale: set[str] = set()
        self._is_sent = False

    def manifest(self) -> bytes | None:
        return self.changed(None)[1]

    def changed(self, known: bytes | None) -> tuple[bytes | None, bytes | None]:
        """The generation of the manifest, and its content unless that is of the known generation; None where there is none."""
        found: ts.KvStore.ReadResult = wait_for(self._store.read(NAME, if_not_equal=known), f"read {self.where}/{NAME}")
        if found.state == "unspecified":
            return known, None
        if found.state == "missing":
            self.keys(NAME)  # an error where the bucket is missing, which S3 does not tell from a missing object
        if found.state == "missing" or _is_mark(found):
            return None, None
        return found.stamp.generation, bytes(found.value)

    def begin(self) -> str:
        self._note()
        return f"data-{secrets.token_hex(8)}"

    def _note(self) -> ts.KvStore.ReadResult:
        """Note what is there, and give what is in the manifest's place: the commit removes that and nothing newer.

        Another save whose data is noted here read the manifest earlier still, so it cannot commit after this one; data
        that appears after this one's commit may belong to a save that can.
        """
        names = {key.partition("/")[0] for key in self.keys("")}
        others = [name for name in names if name != NAME and not DATA.match(name) and not is_stray(name)]
        if others:
            raise TreatyError(
                f"expected a checkpoint or nothing, got {min(others)} in {self.where}; "
                "save somewhere else: a checkpoint has its prefix for itself"
            )
        self._stale = {name for name in names if DATA.match(name)}
        found = self.read(NAME)
        self._generation, self._is_new = found.stamp.generation, found.state == "missing"
        return found

    def prepare(self, data: str) -> None:
        if "endpoint" in self.kvstore:
            self._try_conditions(f"{data}/probe")
        if self._is_new:
            while (found := self.read(NAME)).state == "missing":
                self.write(NAME, _mark("begun"), if_equal=found.stamp.generation)
            if _is_mark(found, "begun"):  # of whoever came first; else another has saved or removed meanwhile
                self._generation = found.stamp.generation

    def _try_conditions(self, probe: str) -> None:
        """Some servers that speak S3 take a conditional write for any other: find out before something is lost."""
        absent = self.read(probe).stamp.generation
        first = self.write(probe, b"first", if_equal=absent).generation
        refused = self.write(probe, b"second", if_equal=absent).generation
        self.write(probe, b"second", if_equal=first)
        refused = refused or self.write(probe, b"third", if_equal=first).generation
        self.write(probe, None)
        if refused:
            raise TreatyError(
                f"expected a store that honours If-Match and If-None-Match, got one that ignores them at {self.where}; "
                "there, one of two saves could destroy the other"
            )

    def put(self, name: str, content: Any, what: str) -> None:
        wait_for(self._store.write(name, bytes(content)), f"write {what}")

    def commit(self, data: str, manifest: bytes, files: Mapping[str, int]) -> None:
        self._is_sent = True
        stamp = self.write(NAME, manifest, if_equal=self._generation)
        # Where an answer was lost and the manifest was sent again, the one that is in the way is its own.
        if not stamp.generation and self.manifest() != manifest:
            self._is_sent = False
            raise TreatyError(
                f"expected the manifest at {self.where} as it was, got another save that finished meanwhile"
            )
        for stale in sorted(self._stale):
            try:
                self._delete(stale)
            except TreatyError as error:
                log.warning("saved %s, but %s; the next save tries again", self.where, error)
                break

    def remove(self, *, is_committed: bool = True, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Put a mark in the manifest's place, which nobody takes for one, remove the data, and then the mark.

        Data that is noted here belongs to saves that read an earlier manifest or mark, so that they cannot commit.
        Asked when nobody finds the checkpoint any more, `wanted` may still say no: then all is as it was.
        """
        found = self._note()
        if is_committed and (found.state == "missing" or _is_mark(found, "begun")):
            raise MissingCheckpointError(f"expected a checkpoint, got no {NAME} at {self.where}")
        generation = self.write(NAME, _mark("by"), if_equal=self._generation).generation
        if not generation:
            raise TreatyError(f"expected the manifest at {self.where} as it was, got a save that finished meanwhile")
        if not wanted():
            self.write(NAME, bytes(found.value), if_equal=generation)
            return False
        for stale in sorted(self._stale):
            self._delete(stale)
        self.write(NAME, None, if_equal=generation)
        return True

    def sync(self, name: str) -> None:
        """What an object store has acknowledged lasts."""

    def abandon(self, data: str | None) -> None:
        """Data whose manifest was sent stays: it may have arrived. The next save removes what was not committed."""
        if data is not None and not self._is_sent:
            with suppress(TreatyError):  # where the store is gone, what made the save fail says so
                self._delete(data)

    def sizes(self, data: str) -> Mapping[str, int | None]:
        names = [key.removeprefix(f"{data}/") for key in self.keys(f"{data}/")]
        return {name: None for name in names if not is_stray(name.rpartition("/")[2])}

    def read_into(self, name: str, view: memoryview) -> str:
        found = self.read(name)
        if found.state != "value":
            raise CorruptCheckpointError(f"expected a file, got nothing at {name}")
        if len(found.value) != len(view):
            raise CorruptCheckpointError(f"expected {len(view)} bytes, got {len(found.value)} in {name}")
        view[:] = found.value
        return checksum(view)

    def read(self, name: str) -> ts.KvStore.ReadResult:
        found: ts.KvStore.ReadResult = wait_for(self._store.read(name), f"read {self.where}/{name}")
        return found

    def write(self, name: str, value: bytes | None, **condition: bytes) -> ts.KvStore.TimestampedStorageGeneration:
        stamp: ts.KvStore.TimestampedStorageGeneration = wait_for(
            self._store.write(name, value, **condition), f"write {self.where}/{name}"
        )
        return stamp

    def keys(self, prefix: str) -> list[str]:
        """The names of all that lies under a prefix."""
        keys = wait_for(self._store.list(_under(prefix)), f"list {self.where}/{prefix}")
        return [key.decode(errors="replace") for key in keys]

    def _delete(self, data: str) -> None:
        wait_for(self._store.delete_range(_under(f"{data}/")), f"remove {self.where}/{data}")


def _mark(what: str) -> bytes:
    """Each of its own: of equal bytes S3 sees no change."""
    return REMOVED + f',"{what}":"{secrets.token_hex(8)}"}}\n'.encode()


def _is_mark(found: ts.KvStore.ReadResult, what: str = "") -> bool:
    return found.state == "value" and bytes(found.value).startswith(REMOVED + (f',"{what}"'.encode() if what else b""))


def _under(prefix: str) -> ts.KvStore.KeyRange:
    return ts.KvStore.KeyRange(prefix, prefix and prefix[:-1] + chr(ord(prefix[-1]) + 1))
