"""Values to MessagePack and back: the class's own checks on the way out as on the way in."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar, overload

from treaty.runtime._state import alike
from treaty.runtime._state.arrays import check
from treaty.runtime._state.registry import Codec, codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import Into, check_state, from_state_dict, write_state
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
    codec = codec_of_instance(obj) if cls is None else codec_of_class(cls)
    try:
        return join(_pieces(codec, obj, chunk_bytes))
    except Exception:  # alike items that are not after all, or something wrong, which the plain way tells best
        return join(_pieces(codec, obj, chunk_bytes, sketch=False))


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
        try:
            obj, read = alike.knowing(runs, partial(from_state_dict, target, state, dims=dims, into=into))
            if read == runs.keys():
                return obj
        except Exception:
            pass  # read again, item by item
    return from_state_dict(target, decode(data), dims=dims, into=into)


def save_file(path: str, codec: Codec[_T], obj: _T, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Stream an instance to a MessagePack file that replaces `path` as a whole."""
    try:
        pieces = _in_order(_pieces(codec, obj, chunk_bytes))
    except Exception:
        pieces = None
    write_pieces(path, pieces or _pieces(codec, obj, chunk_bytes, sketch=False))


def _in_order(pieces: list[Piece]) -> list[Piece] | None:
    return pieces if all(isinstance(one, bytes) or one.flags.c_contiguous for one in pieces) else None


def _pieces(codec: Codec[_T], obj: _T, chunk_bytes: int, sketch: bool = True) -> list[Piece]:
    """What to write, checked."""
    runs: dict[int, alike.Run] = {}
    if sketch:
        state, runs = alike.sketching(partial(codec.write, obj))
        known = {key: [run] for key, run in runs.items()}
        alike.knowing(known, partial(codec.read, state, check, *[None] * len(codec.dims)), build=False)
    else:
        state = write_state(codec, obj)
        check_state(codec, state)
    try:
        return encode(state, chunk_bytes=chunk_bytes, runs=runs)
    except TreatyError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise TreatyError(f"expected what MessagePack can hold, got {error} in {codec.id}") from error
