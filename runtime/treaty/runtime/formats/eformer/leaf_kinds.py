"""Every kind of leaf as an array and back. The kind is stored beside the array, so that nothing changes its type."""

from typing import Any, Final, cast

import jax
import jax.numpy as jnp
import numpy as np
import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError, LeafError, show_path
from treaty.runtime._lazy import LazyArray
from treaty.runtime.formats.eformer.index import Entry
from treaty.runtime.formats.eformer.leaf_paths import Keys, directory

Array = jax.Array | np.ndarray[Any, Any] | LazyArray

_DTYPES: Final = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}
_TEXT: Final = ("str", "bytes")
_KEY: Final = "key:"


def to_array(prefix: str | None, keys: Keys, leaf: Any) -> tuple[Entry, Array]:
    kind, array = _classify(keys, leaf)
    dtype = array.dtype.name
    if not _storable(dtype):
        raise LeafError(f"expected a dtype that TensorStore has, got {dtype} at {show_path(keys)}: cast it first")
    path = directory(prefix, keys)
    if not _is_file_path(path):
        raise LeafError(
            f"expected keys that fit file names (UTF-8, 255 bytes), got {path[:40]!r}… at {show_path(keys)}"
        )
    return Entry(path, array.shape, dtype, keys, kind), array


def on_host(entry: Entry) -> bool:
    """Whether the leaf was not a jax array, so that one process stores it and it returns without a device."""
    return entry.leaf != "jax" and not entry.leaf.startswith(_KEY)


def from_array(entry: Entry, array: Array) -> Any:
    """The leaf that was saved, of the type it was saved with."""
    kind = entry.leaf
    if kind in ("jax", "numpy"):
        return array
    if kind.startswith(_KEY):
        try:
            return jax.random.wrap_key_data(jnp.asarray(array), impl=kind.removeprefix(_KEY))
        except (TypeError, ValueError) as error:
            raise CorruptCheckpointError(f"expected the data of a {kind}, got other at {entry}: {error}") from error
    host = cast("np.ndarray[Any, Any]", array)
    if kind == "numpy.scalar" and host.ndim == 0:
        return host[()]
    if kind in _DTYPES and host.ndim == 0 and host.dtype.name in (_DTYPES[kind], "uint64" if kind == "int" else ""):
        return host.item()
    if kind in _TEXT and host.ndim == 1 and host.dtype == np.uint8:
        return _text(entry, host.tobytes())
    raise CorruptCheckpointError(f"expected a {kind}, got {host.dtype.name}{list(host.shape)} at {entry}")


def _classify(keys: Keys, leaf: Any) -> tuple[str, Array]:
    if isinstance(leaf, jax.Array):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return f"{_KEY}{jax.random.key_impl(leaf)}", jax.random.key_data(leaf)
        return "jax", leaf
    if isinstance(leaf, LazyArray):  # of another format, which does not say whose it was
        return "jax", leaf
    if isinstance(leaf, np.ndarray):
        return "numpy", leaf
    if isinstance(leaf, np.generic):
        return "numpy.scalar", np.asarray(leaf)
    if isinstance(leaf, str | bytes):
        data = leaf.encode("utf-8", "surrogatepass") if isinstance(leaf, str) else leaf
        return ("str" if isinstance(leaf, str) else "bytes"), np.frombuffer(data, np.uint8)
    kind = type(leaf).__name__
    if type(leaf) not in (bool, int, float, complex):
        raise LeafError(f"expected an array, number, text or None, got {kind} at {show_path(keys)}: leave it out")
    try:
        large = type(leaf) is int and leaf >= 2**63
        return kind, np.asarray(leaf, dtype=np.uint64 if large else _DTYPES[kind])
    except OverflowError as error:
        raise LeafError(f"expected an integer of 64 bits, got {leaf} at {show_path(keys)}") from error


def _is_file_path(path: str) -> bool:
    try:
        return all(len(name.encode()) <= 255 for name in path.split("/"))
    except UnicodeEncodeError:
        return False


def _storable(dtype: str) -> bool:
    try:
        return ts.dtype(dtype).numpy_dtype.name == dtype
    except ValueError:
        return False


def _text(entry: Entry, data: bytes) -> str | bytes:
    if entry.leaf == "bytes":
        return data
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"expected UTF-8 text, got other bytes at {entry}") from error
