"""The values of a checkpoint that are no arrays, for those who look into it: without numpy and JAX, which `read` needs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime.formats.directory.manifest import VALUES, File, Leaf
from treaty.runtime.formats.directory.places import Place
from treaty.runtime.formats.directory.presence import corrupt

_MOST_BYTES: Final = 2**24  # of a file of values that is read to be looked at
_OTHER: Final = object()  # what only numpy can read, or is not there
_COMPLEX: Final = 2  # what Flax's MessagePack calls them


def read_values(
    place: Place, data: str, files: Sequence[File], leaves: Sequence[Leaf]
) -> Mapping[tuple[str, ...], Any]:
    """By path. Numbers of numpy's types are left out, and so is all of a file that is too large to look at."""
    index, file = next(((index, one) for index, one in enumerate(files) if one.name == VALUES), (-1, None))
    if file is None or file.size > _MOST_BYTES:
        return {}
    content = bytearray(file.size)
    try:
        digest = place.read_into(f"{data}/{VALUES}", memoryview(content))
    except CorruptCheckpointError as error:
        raise corrupt(place, [str(error)]) from error
    if digest != file.checksum:
        raise corrupt(place, [f"expected checksum {file.checksum}, got {digest} in {VALUES}"])
    found = _unpacked(place, content)
    known = ((leaf, found.get(str(number), _OTHER)) for number, leaf in enumerate(leaves) if leaf.file == index)
    read = ((leaf.path, _from_hex(value) if leaf.is_hex else value) for leaf, value in known)
    return {path: value for path, value in read if value is not _OTHER}


def _unpacked(place: Place, content: bytearray) -> dict[str, Any]:
    import msgpack

    try:
        found = msgpack.unpackb(content, ext_hook=_extension, unicode_errors="surrogatepass")
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise corrupt(place, [f"expected MessagePack, got {error} in {VALUES}"]) from error
    if not isinstance(found, dict):
        raise corrupt(place, [f"expected values by number, got {type(found).__name__} in {VALUES}"])
    return found


def _extension(code: int, content: bytes) -> Any:
    import msgpack

    return complex(*msgpack.unpackb(content)) if code == _COMPLEX else _OTHER


def _from_hex(text: Any) -> Any:
    try:
        return int(text, 16)
    except (TypeError, ValueError):
        return _OTHER
