"""What a path may be: a place on this machine or a URL, and which names in a directory are nobody's."""

import os
import re
from typing import Final, TypeAlias

from treaty.runtime._errors import InvalidArgumentError

AnyPath: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SQUASHED: Final = re.compile(r"(file|gs|gcs|s3|https?|memory):/", re.IGNORECASE)
_FILE: Final = "file://"
_STRAYS: Final = (".DS_Store", "Thumbs.db", "desktop.ini", "lost+found")
_STRAY_STARTS: Final = ("._", ".nfs")  # what macOS puts beside a file, and NFS in place of one that is still open
_LOCK: Final = ".__lock"  # the end of names that TensorStore keeps for itself


def is_stray(name: str) -> bool:
    """Whether a file manager or a file system put a name into a directory; an object store lists a folder as no name."""
    return not name or name in _STRAYS or name.startswith(_STRAY_STARTS)


def exists(path: AnyPath) -> bool:
    """As os.path.exists, but an OSError where the system does not tell: what cannot be looked at is not missing."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def path_or_url(path: AnyPath) -> tuple[str, bool]:
    """A path as text, of a `file://` URL the path that it means, and whether it is a URL of another kind."""
    text = os.fsdecode(path)
    if not text or "\0" in text:
        raise InvalidArgumentError(f"expected a path, got {text!r}")
    if text[: len(_FILE)].lower() == _FILE:
        from urllib.parse import unquote

        text = unquote(text[len(_FILE) :], errors="surrogateescape")
        if not text.startswith("/") or "\0" in text:
            raise InvalidArgumentError(f"expected file:///path, with three slashes, got {os.fsdecode(path)}")
        return text, False
    if _URL.match(text):
        return text, True
    if _SQUASHED.match(text):
        raise InvalidArgumentError(f"expected a URL as a str, got {path!r}: a Path makes one slash of two")
    return text, False


def local_path(path: AnyPath) -> str:
    """A path on this machine, for what object stores cannot hold. URLs are not repeated: they may hold secrets."""
    text, is_url = path_or_url(path)
    if is_url:
        scheme = text.partition("//")[0]
        raise InvalidArgumentError(
            f"expected a path on this machine, got a URL of {scheme}//…; URLs are for directories "
            "that `save`, `restore`, `inspect` and `verify` are given"
        )
    return text


def for_tensorstore(path: AnyPath) -> str:
    """A directory as TensorStore is to be told of it: without links and "..", and ending in a slash."""
    place = os.path.realpath(os.fsdecode(path))
    if "\\" in place:
        raise InvalidArgumentError(
            f"expected a path without a backslash, which TensorStore takes for a slash, got {place}"
        )
    if any(name.endswith(_LOCK) for name in place.split("/")):
        raise InvalidArgumentError(f"expected a path without {_LOCK}, which TensorStore keeps for itself, got {place}")
    try:
        place.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"expected a path in UTF-8, as TensorStore does, got {place!r}") from None
    return f"{place.rstrip('/')}/"
