"""The short way of a checkpoint that is mapped and wanted as it lies: its state dict straight into the class.

It gives up without a word wherever something has to be explained, asked for or decided; the pipeline then does all of it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from treaty.runtime._errors import StorageError
from treaty.runtime._evolve.shortcut import Change, OtherRevision, Runs, shortcut
from treaty.runtime._process.collector import collector_paused
from treaty.runtime._restore.options import Options
from treaty.runtime._restore.resolve import (
    earlier_revisions,
    is_surely_present,
    note_resolution,
    resolution_from,
)
from treaty.runtime._restore.source import Source
from treaty.runtime._state.alike import NotAlike
from treaty.runtime._state.explain import fits
from treaty.runtime._state.registry import Codec
from treaty.runtime._state.state_dict import attempt_build
from treaty.schema import Schema, TreatyError
from treaty.schema.evolution.migrations import registrations
from treaty.schema.evolution.resolution import Resolution
from treaty.schema.gathering import gather, spread

NOTHING: Any = object()


def build_mapped(source: Source, codec: Codec[Any], options: Options) -> Any:
    """An instance, or NOTHING where only the pipeline can tell."""
    is_present = is_surely_present(source, codec)
    if not is_present and not source.revisions:  # it may be of the present one, and of another
        return NOTHING
    built = NOTHING
    with collector_paused():
        for alike in (True, False) if source.has_runs and options.into == "numpy" else (False,):
            if is_present and built is NOTHING and (found := _of(source, codec.schema, alike)) is not None:
                built = _built(codec, *found, options)
            if built is NOTHING:
                built = _from_earlier(source, codec, options, alike)
    return built


def _from_earlier(source: Source, codec: Codec[Any], options: Options, alike: bool) -> Any:
    changed = _earlier(source, codec, alike)
    if changed is None:
        return NOTHING
    resolution, state, runs = changed
    built = _built(codec, state, runs, options)
    if built is not NOTHING:
        note_resolution(source, codec, resolution)
    return built


def _built(codec: Codec[Any], state: Any, runs: Runs, options: Options) -> Any:
    try:
        return attempt_build(codec, state, options.dims or {}, options.into, runs)
    except NotAlike:
        return NOTHING


def _earlier(source: Source, codec: Codec[Any], alike: bool) -> tuple[Resolution, Any, Runs] | None:
    """The state dict as one of the present, if it can be of exactly one earlier revision, and that takes no migration."""
    found: list[tuple[Resolution, Any, Runs]] = []
    said = tuple(source.revisions.items())
    for number in earlier_revisions(source, codec):
        resolution, change = _way(number, codec, said, registrations())
        if change is not None:
            found += _changed(source, change, resolution, alike)
        elif (as_written := _of(source, resolution.writer)) is not None and fits(resolution.writer, as_written[0]):
            return None
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=256)
def _way(
    number: int, codec: Codec[Any], said: tuple[tuple[str, int], ...], registered: int
) -> tuple[Resolution, Change | None]:
    """From a revision to the present, as a plan and as a function; kept, because both take as long as to build 1,000 leaves."""
    resolution = resolution_from(number, codec, dict(said))
    return resolution, shortcut(resolution.plan, resolution.reader) if resolution.ok else None


def _changed(
    source: Source, change: Change, resolution: Resolution, alike: bool
) -> Iterator[tuple[Resolution, Any, Runs]]:
    as_written = _of(source, resolution.writer, alike)
    if as_written is None:
        return
    state, runs = as_written
    try:
        made = change(gather(resolution.writer, state), runs)
        yield resolution, spread(resolution.reader, made), runs
    except OtherRevision:
        return


def _of(source: Source, schema: Schema, alike: bool = False) -> tuple[Any, Runs] | None:
    """The state dict; None where its names cannot be those of this schema."""
    try:
        return source.mapped(schema, alike=alike)
    except TreatyError as error:
        if not source.asks_schema or isinstance(error, StorageError):
            raise
        return None
