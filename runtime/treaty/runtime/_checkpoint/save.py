"""`save` and `save_async`: the path says which format is meant, and the format what it has room for."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._process.background import SaveHandle, wait_for_earlier
from treaty.runtime._process.forks import check_readable
from treaty.runtime._process.team import PATIENCE, team
from treaty.runtime._process.watching import Measure
from treaty.runtime._save.check import Checked, checked
from treaty.runtime._state.registry import codec_for
from treaty.runtime._storage.paths import AnyPath, local_path, path_or_url
from treaty.runtime._trees import flatten, is_stored_array
from treaty.runtime.formats.shared.format import Format, Writing
from treaty.runtime.formats.table import DEFAULT, FORMATS, format_meant, format_to_write
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap


def save(
    path: AnyPath,
    state: object,
    *,
    cls: Any = None,
    keymap: KeyMap | None = None,
    metadata: Mapping[str, Any] | None = None,
    max_shard_bytes: int | None = None,
    revision: int | None = None,
    base: "AnyPath | None" = None,
    compress: str | None = None,
    timeout: float | None = None,
) -> None:
    """Write an instance to a file (`.msgpack`, `.msgpack.gz`, `.msgpack.zst`, `.safetensors`, `.npz`) or else to a directory or URL.

    What was there before is replaced only when the new checkpoint is whole and on the disk, so after a crash or a power
    cut there is the one or the other. Arrays are written from where they are. `cls` names the generic alias where the class
    of `state` alone does not say it. `metadata` is kept by directories (anything that JSON holds) and safetensors (text by
    name). `max_shard_bytes` splits safetensors. With a `keymap` names and layouts are those of its stored side.
    `revision` writes what code of that revision of the class reads, where every change since then has a way back.
    `base` is an earlier checkpoint in a directory: of what is in there in the same bytes, the new one has hard links, so that
    it costs what changed. Each of the two is whole by itself, and may be removed. `compress="zstd"` compresses the large arrays
    of a directory: smaller, and slower to write and to read.
    Several processes save to a directory together, and wait for each other for `timeout` seconds, by default 3600.
    """
    with telling(path):
        place, format = _meant(path)
        if revision is not None and keymap is not None:
            raise TreatyError("expected revision or keymap, got both: a key map gives names to the present class")
        given = {
            "metadata": metadata,
            "max_shard_bytes": max_shard_bytes,
            "base": base,
            "compress": compress,
            "timeout": timeout,
        }
        _check_options(place, format, given)
        how = checked_compression(compress)
        writing = Writing(metadata=metadata or {}, max_shard_bytes=max_shard_bytes, base=as_text(base), compress=how)
    save_as(format, place, state, cls, keymap, writing, timeout, revision)


def save_async(
    path: AnyPath,
    state: object,
    *,
    cls: Any = None,
    keymap: KeyMap | None = None,
    metadata: Mapping[str, Any] | None = None,
    base: "AnyPath | None" = None,
    compress: str | None = None,
    timeout: float | None = None,
) -> SaveHandle:
    """As `save` for a directory or URL, but return when the state is copied; the handle tells how the save ended."""
    with telling(path):
        place, format = _meant(path)
        if format.write_later is None:
            raise TreatyError(f"expected a directory or a URL, got the file {place!r}; save writes files")
        writing = Writing(metadata=metadata or {}, base=as_text(base), compress=checked_compression(compress))
    return save_later(format, place, state, cls, writing, timeout, keymap)


def save_as(
    format: Format,
    place: str,
    state: object,
    cls: Any,
    keymap: KeyMap | None,
    writing: Writing,
    timeout: float | None = None,
    revision: int | None = None,
) -> None:
    """Check, lay out, write and commit. Where several processes save together, each learns why another failed."""
    with team(PATIENCE if timeout is None else timeout) if format.shared else nullcontext() as processes:
        check_readable(state)
        with Measure("save", place) as measure:
            _save_as(format, place, state, cls, keymap, writing._replace(team=processes, measure=measure), revision)


def _save_as(
    format: Format, place: str, state: object, cls: Any, keymap: KeyMap | None, writing: Writing, revision: int | None
) -> None:
    measure = writing.measure
    assert measure is not None
    if format.write_instance is not None and keymap is None and revision is None:
        format.write_instance(place, codec_for(state, cls), state)
        if measure.is_wanted:
            with suppress(OSError):  # it is saved, whatever became of it since
                measure.nbytes = os.path.getsize(place)
        return
    found = checked(state, cls, keymap, revision)
    format.write(place, found.tree, _filled(writing, found))
    if measure.is_wanted:
        measure.nbytes = sum(leaf.nbytes for _, leaf in flatten(found.tree) if is_stored_array(leaf))


def save_later(
    format: Format,
    place: str,
    state: object,
    cls: Any,
    writing: Writing,
    timeout: float | None = None,
    keymap: KeyMap | None = None,
) -> SaveHandle:
    """As `save_as`, but return when the state is copied. What is raised here was not begun, and is the caller's to tell."""
    assert format.write_later is not None
    measure = Measure("save", place)
    with team(PATIENCE if timeout is None else timeout) as processes:
        check_readable(state)
        if keymap is not None:
            wait_for_earlier()  # what is copied for the map is not held beside what that one holds
        found = checked(state, cls, keymap, will_change=True)
        return format.write_later(place, found.tree, _filled(writing._replace(team=processes, measure=measure), found))


def _filled(writing: Writing, found: Checked) -> Writing:
    return writing._replace(schema=found.schema, ordered=found.ordered, revisions=found.revisions)


def checked_compression(compress: str | None) -> str | None:
    if compress not in (None, "zstd"):
        raise InvalidArgumentError(f"compress: expected 'zstd' or None, got {compress!r}")
    return compress


def as_text(path: "AnyPath | None") -> str | None:
    return None if path is None else path_or_url(path)[0]


def _meant(path: AnyPath) -> tuple[str, Format]:
    place, is_url = path_or_url(path)
    if is_url and format_meant(place.rstrip("/")).suffixes:
        local_path(place)  # which says that files cannot lie there
    return place, format_to_write(place)


def _check_options(place: str, format: Format, given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value is not None and name not in format.takes:
            others = [one for one in FORMATS.values() if name in one.takes]
            paths = [f"a {one.suffixes[0]} path" if one.suffixes else "a directory" for one in others]
            raise TreatyError(f"expected {' or '.join(paths)} for {name}, got {place!r}")


@contextmanager
def telling(path: object = "") -> Iterator[None]:
    """A save to a directory that is refused here is one that other processes may wait for."""
    try:
        yield
    except (TypeError, TreatyError):
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if format_meant(text).name != DEFAULT:
            raise
        with team():
            raise
