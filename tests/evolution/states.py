"""Checkpoints in every format, and what they hold compared bit for bit."""

import enum
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from treaty.runtime import save, to_state_dict
from treaty.runtime._state.registry import codec_of_instance, revisions_of
from treaty.runtime._trees import flatten
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import format_named


def _orbax(path: Path, state: Any) -> None:
    """Nothing in Treaty's API saves as Orbax: `treaty convert` does."""
    format_named("orbax").write(str(path), to_state_dict(state), Writing())


def _sharded(path: Path, state: Any) -> None:
    codec = codec_of_instance(state)
    writing = Writing(max_shard_bytes=64, schema=codec.schema, revisions=revisions_of(codec.schema))
    path.mkdir()
    format_named("safetensors").write(str(path / "model.safetensors"), to_state_dict(state), writing)


WRITERS: Final[Mapping[str, Callable[[Path, Any], None]]] = {
    "directory": save,
    "x.msgpack": save,
    "x.safetensors": save,
    "x.npz": save,
    "orbax": _orbax,
    "sharded": _sharded,
}


def write(folder: Path, state: Any, names: Any = WRITERS) -> dict[str, Path]:
    """The state in each format: the paths by format."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        WRITERS[name](folder / name, state)
    return {name: folder / name for name in names}


def bits(state: Any) -> dict[str, tuple[str, Any]]:
    """Every leaf of a state by its path, as its type and its bytes: equal only where all bits are."""
    return {".".join(path): _bits(leaf) for path, leaf in flatten(to_state_dict(state))}


def _bits(leaf: Any) -> tuple[str, Any]:
    if hasattr(leaf, "dtype"):
        array = np.asarray(leaf)
        return f"{array.dtype}{list(array.shape)}", array.tobytes()
    return type(leaf).__name__, repr(leaf)


def leaf_bits(value: Any) -> Any:
    """Of a value of any field: an array, a number, or a tree of them, whatever its classes are called."""
    if isinstance(value, enum.Enum):
        return leaf_bits(value.name)
    if isinstance(value, Partial):
        return leaf_bits({"args": value.args, "keywords": value.keywords})
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return str(jax.random.key_impl(value)), leaf_bits(jax.random.key_data(value))
    if attrs.has(type(value)):
        value = {one.alias: getattr(value, one.name) for one in attrs.fields(type(value))}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: leaf_bits(one) for key, one in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, (list, tuple)):
        return type(value)(map(leaf_bits, value))
    return _bits(value)


def fingerprint(path: Path) -> dict[str, str]:
    """The contents of all files at a path, and what files there are."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}
