"""`report`: a page about a checkpoint of any format, about two, or about a directory of steps."""

from treaty.runtime._report.gather import gather
from treaty.runtime._report.html_page import page
from treaty.runtime._report.reading import MAX_BYTES
from treaty.runtime._storage.paths import AnyPath


def report(
    path: AnyPath,
    newer: "AnyPath | None" = None,
    *,
    verify: bool = False,
    max_bytes: int = MAX_BYTES,
    progress: bool | None = None,
) -> str:
    """One page of HTML about the checkpoint at `path`, which needs no other file and no network.

    With `newer` it says what changed between the two. Of a directory of steps it shows all of them, and what is in the newest.
    Up to `max_bytes` of arrays are read for statistics: params first, small arrays before large ones. `verify` also reads every
    byte and checks it.
    """
    return page(gather([path] if newer is None else [path, newer], verify, max_bytes, progress))
