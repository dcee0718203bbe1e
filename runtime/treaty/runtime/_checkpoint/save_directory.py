"""`treaty.runtime.directory.save` and `save_async`: to a directory, whatever the path looks like."""

from collections.abc import Mapping
from typing import Any

from treaty.runtime._checkpoint.save import as_text, save_as, save_later, telling
from treaty.runtime._process.background import SaveHandle
from treaty.runtime._process.team import PATIENCE
from treaty.runtime._storage.paths import AnyPath, path_or_url
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import DEFAULT, FORMATS


def save(
    path: AnyPath,
    state: Any,
    *,
    cls: Any = None,
    metadata: Mapping[str, Any] | None = None,
    base: "AnyPath | None" = None,
    timeout: float = PATIENCE,
) -> None:
    """Write a checkpoint, and return when it is committed. An earlier one at `path` stays until then.

    Every process of a distributed program calls this with the same path and state, and waits for the others for
    `timeout` seconds. `metadata` is anything that JSON holds. Of what `base`, an earlier checkpoint in a directory, has in the
    same bytes, the new one has hard links.
    """
    with telling():
        place, writing = path_or_url(path)[0], Writing(metadata=metadata or {}, base=as_text(base))
    save_as(FORMATS[DEFAULT], place, state, cls, None, writing, timeout)


def save_async(
    path: AnyPath,
    state: Any,
    *,
    cls: Any = None,
    metadata: Mapping[str, Any] | None = None,
    base: "AnyPath | None" = None,
    timeout: float = PATIENCE,
) -> SaveHandle:
    """Like `save`, but return as soon as the state may change, or be donated: arrays of numpy and of accelerators are copied.

    That waits until the save before it is finished: so long are its arrays held, and they are not held twice.
    """
    with telling():
        place, writing = path_or_url(path)[0], Writing(metadata=metadata or {}, base=as_text(base))
    return save_later(FORMATS[DEFAULT], place, state, cls, writing, timeout)
