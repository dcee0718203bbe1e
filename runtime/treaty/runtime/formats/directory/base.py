"""What an earlier checkpoint has of one that is being saved: files that are linked instead of written."""

import logging
import os
from collections.abc import Mapping
from typing import Final, Literal

from attrs import frozen

from treaty.runtime._errors import MissingCheckpointError, storing
from treaty.runtime._storage.links import Linker
from treaty.runtime.formats.directory.layout import chunk_starts
from treaty.runtime.formats.directory.manifest import NAME, File, Leaf, parse_contents, upper_of
from treaty.runtime.formats.directory.places import Local, Place, committed, place_of
from treaty.schema import TreatyError

_log: Final = logging.getLogger("treaty")


@frozen
class EarlierFile:
    """A file of an earlier checkpoint. `digest` is None for a zarr.json: the manifest determines its bytes."""

    name: str
    size: int
    digest: str | None = None


@frozen
class Base:
    """A committed checkpoint in a directory."""

    place: Local
    data: str
    written: int  # when its manifest was, in ns: later its files have not changed
    leaves: Mapping[tuple[str, ...], tuple[int, Leaf]]
    files: Mapping[str, File]
    upper: Mapping[str, list[str]]
    is_synced: bool  # whether its files need not be synced again


@frozen
class BaseManifest:
    """A base that is there. Its manifest is taken apart where the save goes on: in the background, if that is where."""

    place: Local
    content: bytes
    written: int
    is_synced: bool

    def read(self, where: str) -> Base | None:
        """One that is damaged is no reason not to save."""
        try:
            found = parse_contents(self.content, self.place.where)
        except TreatyError as error:
            _say_in_full(where, self.place.where, error)
            return None
        leaves = {leaf.path: (number, leaf) for number, leaf in enumerate(found.leaves) if leaf.is_chunked}
        files = {file.name: file for file in found.files}
        return Base(self.place, found.folder, self.written, leaves, files, upper_of(found.data), self.is_synced)


def base_at(path: str, place: Place, *, must_exist: bool) -> BaseManifest | None:
    """The checkpoint that a save to a place is based on; None where none of its files can be linked.

    A base that is not there is a mistake, unless it is what the save replaces.
    """
    base = place_of(path)
    try:
        content = committed(base, base.manifest())
        if not isinstance(base, Local) or not isinstance(place, Local):
            return None
        with storing("read", base.where):
            written = os.stat(base.path / NAME).st_mtime_ns
    except MissingCheckpointError as error:
        if base.where == place.where or not must_exist:
            return None
        raise MissingCheckpointError(f"base: {error}") from None
    except TreatyError as error:
        _say_in_full(place.where, base.where, error)
        return None
    return BaseManifest(base, content, written, base.is_synced)


def _say_in_full(where: str, base: str, why: TreatyError) -> None:
    _log.warning("%s is saved in full, not based on %s: %s", where, base, why)


class Earlier:
    """The files of the base, as a save into a directory asks for them."""

    def __init__(self, base: BaseManifest | None, place: Place, data: str) -> None:
        self._base = None if base is None else base.read(place.where)
        self._linker: Linker | None = None
        if self._base is not None and isinstance(place, Local):
            with storing("write", place.where):
                self._linker = Linker(place.path / data)

    @property
    def is_synced(self) -> bool:
        return self._base is not None and self._base.is_synced

    def chunks(self, leaf: Leaf) -> list[EarlierFile] | None:
        """The chunks of an array that is stored in the same way, in row-major order."""
        number, old = self._leaf(leaf)
        upper = () if self._base is None else self._base.upper.get(str(number), ())
        if old is None or len(upper) != len(old.checksums):
            return None
        return [
            EarlierFile(f"{number}/{name}", size, high + low)
            for (_, name, low, size), high in zip(chunk_starts(old), upper, strict=True)
        ]

    def metadata(self, leaf: Leaf, content: bytes) -> EarlierFile | None:
        """The zarr.json of such an array."""
        number, old = self._leaf(leaf)
        return None if old is None else EarlierFile(f"{number}/zarr.json", len(content))

    def file(self, name: str) -> EarlierFile | None:
        """A file of several leaves."""
        if self._base is None or name not in self._base.files or len(self._base.upper.get(name, ())) != 1:
            return None
        found = self._base.files[name]
        return EarlierFile(name, found.size, self._base.upper[name][0] + found.checksum)

    def link(self, stored: EarlierFile, name: str) -> Literal["synced", "not synced"] | None:
        """Whether the file is in the new data under this name, now, and whether its bytes are known to last."""
        base = self._base
        if base is None or self._linker is None:
            return None
        how = self._linker.link(base.place.path / base.data / stored.name, name, stored.size, base.written)
        if how is None:
            return None
        return "synced" if how == "link" and base.is_synced else "not synced"

    def _leaf(self, leaf: Leaf) -> tuple[int, Leaf | None]:
        number, old = (-1, None) if self._base is None else self._base.leaves.get(leaf.path, (-1, None))
        if old is not None and (old.dtype, old.shape, old.chunks, old.codec) != (
            leaf.dtype,
            leaf.shape,
            leaf.chunks,
            leaf.codec,
        ):
            return -1, None
        return number, old
