"""The formats that Treaty reads and writes, and the one place where it is decided which of them is meant."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, MissingCheckpointError, storing
from treaty.runtime._storage.overtaken import Known, begin_again
from treaty.runtime._storage.paths import AnyPath, exists, local_path, path_or_url
from treaty.runtime.formats.directory import FORMAT as DIRECTORY
from treaty.runtime.formats.eformer import FORMAT as EFORMER
from treaty.runtime.formats.msgpack import FORMAT as MSGPACK
from treaty.runtime.formats.npz import FORMAT as NPZ
from treaty.runtime.formats.orbax import FORMAT as ORBAX
from treaty.runtime.formats.safetensors import FORMAT as SAFETENSORS
from treaty.runtime.formats.shared.format import Format
from treaty.schema import TreatyError

if TYPE_CHECKING:
    from treaty.runtime._restore.source import Source

_T = TypeVar("_T")

# In the order in which they are looked for: what has a sign of its own comes before what could be anything.
FORMATS: Final[dict[str, Format]] = {
    format.name: format for format in (DIRECTORY, SAFETENSORS, EFORMER, ORBAX, NPZ, MSGPACK)
}
DEFAULT: Final = DIRECTORY.name

# Suffixes that no directory is meant by, though they are no format's. Others that are words are refused where nothing is there.
_OTHERS: Final = frozenset(
    (
        ".bin",
        ".bz2",
        ".ckpt",
        ".gz",
        ".h5",
        ".hdf5",
        ".joblib",
        ".lz4",
        ".npy",
        ".onnx",
        ".pickle",
        ".pkl",
        ".pt",
        ".pth",
        ".tar",
        ".xz",
        ".zip",
        ".zst",
    )
)


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise InvalidArgumentError(f"expected a format of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def format_meant(path: str) -> Format:
    """The format that a path asks for by its suffix; other paths are directories of Treaty."""
    for format in FORMATS.values():
        if format.suffixes and path.endswith(format.suffixes):
            return format
    return FORMATS[DEFAULT]


def format_to_write(path: str) -> Format:
    """As `format_meant`, for a path that may be new: what looks like a file of another kind is not made a directory."""
    format = format_meant(path)
    if not format.suffixes and (bare := path.rstrip("/")) and (suffix := _suffix(bare)):
        is_known = bool(format_meant(bare).suffixes) or suffix in _OTHERS
        if is_known or not (path.endswith("/") or os.path.isdir(bare)):
            raise _refused(path, suffix, is_known)
    return format


def _suffix(path: str) -> str:
    """How the name of a file of some kind ends; nothing where a name has a dot that is of a number, as in step_1.5 and run.v2."""
    _, is_url, rest = path.rpartition("://")
    _, slash, name = rest.rpartition("/")
    suffix = os.path.splitext(name)[1].lower()
    is_a_word = suffix[1:].isascii() and suffix[1:].isalnum() and suffix[1].isalpha()
    if (is_url and not slash) or not is_a_word:  # the name of a bucket is no file's
        return ""
    is_free = suffix[-1].isdigit() or name.startswith(".")
    return "" if is_free and suffix not in _OTHERS and not _nearest(suffix) else suffix


def _nearest(suffix: str) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(suffix, _suffixes(), 1, 0.75)


def _suffixes() -> list[str]:
    return [suffix for format in FORMATS.values() for suffix in format.suffixes]


def _refused(path: str, suffix: str, is_known: bool) -> InvalidArgumentError:
    near = [f"did you mean {one}?" for one in _nearest(suffix)]
    advice = near or ([] if is_known else [f"a directory of that name is written {path + '/'!r}"])
    return InvalidArgumentError("; ".join([f"expected {', '.join(_suffixes())} or a directory, got {path!r}", *advice]))


def format_at(path: str) -> Format:
    """The format of what lies at a path. Of a directory of none, the reader of Treaty's own says what it lacks."""
    meant = format_meant(path.rstrip("/"))
    if path_or_url(path)[1]:
        if meant.suffixes:
            local_path(path)  # which says where such files can lie
        return FORMATS[DEFAULT]
    if meant.suffixes and os.path.isfile(path):
        return meant  # a name that says it is believed: what else may be in the file, its reader tells
    for format in FORMATS.values():
        if format.is_at(path):
            return format
    with storing("read", path):
        is_there = exists(path)
    if not is_there:
        if meant.suffixes:
            raise MissingCheckpointError(f"expected a file, got nothing at {path!r}")
        raise MissingCheckpointError(f"expected a checkpoint, got nothing at {path}")
    if os.path.isdir(path):
        for hint in (format.hint(path) for format in FORMATS.values() if format.hint is not None):
            if hint is not None:
                raise InvalidArgumentError(hint)
        return FORMATS[DEFAULT]
    raise CorruptCheckpointError(f"expected a checkpoint of {', '.join(FORMATS)}, got something else at {path}")


def reading(path: AnyPath, use: "Callable[[Source], _T]", name: str | None = None) -> _T:
    """What `use` makes of the open checkpoint at a path; it begins again where another takes its place meanwhile."""
    return looking(path, lambda format, place, known: use(_opened(format, place, known)), name)


def _opened(format: Format, place: str, known: Known) -> "Source":
    with storing("read", place):
        return format.open(place, known)


def looking(path: AnyPath, use: Callable[[Format, str, Known], _T], name: str | None = None) -> _T:
    """As `reading`, for those who may do without opening it."""
    place, is_url = path_or_url(path)
    look = _Recognised(place, is_url, name)
    return begin_again(place, look, lambda: use(look.format(), place, look.known))


class _Recognised:
    """What lies at a path, and what it is known by. A path that leads nowhere is no error yet: it may, a moment later."""

    def __init__(self, place: str, is_url: bool, name: str | None) -> None:
        self._place, self._is_url, self._name = place, is_url, name
        self._found: Format | TreatyError | None = None
        self.known = Known(None)

    def __call__(self, held: ExitStack) -> Known:
        if not self._is_url and not os.path.lexists(self._place):
            from treaty.runtime._storage.workspace import put_back  # not for looking at what is there

            put_back(Path(self._place))
        try:
            with storing("read", self._place):
                self._found = format_at(self._place) if self._name is None else format_named(self._name)
                known = self._found.look(self._place, held)
        except TreatyError as error:
            self._found = error
            known = Known((type(error), str(error)))
        self.known = known._replace(by=(getattr(self._found, "name", None), known.by))
        return self.known

    def format(self) -> Format:
        if not isinstance(self._found, Format):
            assert self._found is not None
            raise self._found
        return self._found
