"""Values to MessagePack and back: the class's own checks on the way out as on the way in."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar, overload

from treaty.runtime._state import alike
from treaty.runtime._state.arrays import check, keep_on_host
from treaty.runtime._state.registry import Codec, codec_for, codec_of, is_class
from treaty.runtime._state.state_dict import Into, check_arguments, check_state, from_state_dict, write_state
from treaty.runtime._state.template import has_untyped, same_shapes
from treaty.runtime._storage.files import write_pieces
from treaty.runtime.formats.msgpack.decode import decode
from treaty.runtime.formats.msgpack.encode import CHUNK_BYTES, Piece, encode
from treaty.runtime.formats.msgpack.join import join
from treaty.runtime.formats.msgpack.runs import Runs
from treaty.schema import TreatyError

_T = TypeVar("_T")


def to_bytes(obj: object, cls: Any = None) -> bytes:
    """The state of an instance in MessagePack, the bytes that Flax gives for the same state dict.

    Shapes and dtypes are checked first: what does not fit the class could not be restored. `cls` names the
    generic alias where the class of `obj` alone does not say it.
    """
    return join_pieces(obj, cls)


def join_pieces(obj: object, cls: Any = None, chunk_bytes: int = CHUNK_BYTES) -> bytes:
    codec = codec_for(obj, cls)
    try:
        return alike.attempt(lambda: join(_sketched(codec, obj, chunk_bytes)))
    except alike.NotAlike:
        return join(_plain(codec, obj, chunk_bytes))


@overload
def from_bytes(
    target: type[_T], data: Any, *, dims: Mapping[str, int] | None = None, into: Into | None = None
) -> _T: ...
@overload
def from_bytes(target: _T, data: Any, *, dims: Mapping[str, int] | None = None, into: Into | None = None) -> _T: ...
def from_bytes(target: Any, data: Any, *, dims: Mapping[str, int] | None = None, into: Into | None = None) -> Any:
    """Build `target`, a class, generic alias or template, from any buffer that holds its MessagePack.

    Raises CorruptCheckpointError for bytes that are damaged, StateMismatchError for those of something else.
    With `into="numpy"` and for np.ndarray fields the arrays are read-only views of `data`.
    """
    if into == "numpy":
        runs: Runs = {}
        state = decode(data, runs)
        if not runs:
            return from_state_dict(target, state, dims=dims, into=into)
        try:
            return alike.attempt(lambda: _read_alike(target, state, runs, dims or {}))
        except alike.NotAlike:
            pass
    return from_state_dict(target, decode(data), dims=dims, into=into)


def _read_alike(target: Any, state: Any, runs: Runs, dims: Mapping[str, int]) -> Any:
    """`from_state_dict` of a state with runs, without explanations."""
    is_template = not is_class(target)
    codec = codec_of(target)
    check_arguments(codec, dims, "numpy")
    if is_template and has_untyped(codec.schema):  # the template says what becomes of each item
        raise alike.NotAlike
    obj = alike.reading(runs, lambda: codec.read(state, keep_on_host, *(dims.get(name) for name in codec.dims)))
    if is_template and not same_shapes(obj, target):
        raise alike.NotAlike
    return obj


def save_file(path: str, codec: Codec[_T], obj: _T, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Stream an instance to a MessagePack file that replaces `path` as a whole."""
    try:
        pieces = alike.attempt(lambda: _in_order(_sketched(codec, obj, chunk_bytes)))
    except alike.NotAlike:
        pieces = _plain(codec, obj, chunk_bytes)
    write_pieces(path, pieces)


def _in_order(pieces: list[Piece]) -> list[Piece]:
    """The pieces; they are written as they lie in memory, and only the first of alike arrays was asked how that is."""
    if not all(isinstance(one, bytes) or one.flags.c_contiguous for one in pieces):
        raise alike.NotAlike
    return pieces


def _sketched(codec: Codec[_T], obj: _T, chunk_bytes: int) -> list[Piece]:
    """What to write, checked, with alike items written and checked once."""
    state, runs = alike.sketching(partial(codec.write, obj))
    if runs:
        alike.checking(runs, partial(codec.read, state, check, *[None] * len(codec.dims)))
    else:
        check_state(codec, state)
    return _encoded(codec, state, chunk_bytes, runs)


def _plain(codec: Codec[_T], obj: _T, chunk_bytes: int) -> list[Piece]:
    """The same, item by item, with an explanation of what is wrong."""
    state = write_state(codec, obj)
    check_state(codec, state)
    return _encoded(codec, state, chunk_bytes)


def _encoded(
    codec: Codec[_T], state: Mapping[str, Any], chunk_bytes: int, runs: Mapping[int, alike.AlikeRun] | None = None
) -> list[Piece]:
    try:
        return encode(state, chunk_bytes=chunk_bytes, runs=runs)
    except TreatyError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise TreatyError(f"expected what MessagePack can hold, got {error} in {codec.id}") from error
