"""Checkpoints of any format restored through a state dict: whole, in part, through a key map, or onto a mesh.

All that is wrong is raised before an array is read; then arrays are read and placed batch by batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from attrs import frozen
from jax.sharding import Mesh

from treaty.runtime import _bytes
from treaty.runtime._errors import StateMismatchError, show_keys
from treaty.runtime._lazy import LazyArray
from treaty.runtime._overtaken import begin_again
from treaty.runtime._recognise import format_at, safetensors_in
from treaty.runtime._restore_options import check_options, parse_paths
from treaty.runtime._sharding.shardings import Rules, placement
from treaty.runtime._state.axes import Keys, declared_arrays
from treaty.runtime._state.registry import Codec, codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import Into, explain, from_state_dict
from treaty.runtime._state.trees import abstract, dotted, flatten, nest
from treaty.runtime._uninterrupted import uninterrupted
from treaty.runtime._workers import in_threads
from treaty.runtime.formats import msgpack
from treaty.schema import Schema, TreatyError, ir
from treaty.schema.dtypes import BY_NAME
from treaty.schema.keymap import KeyMap

_IN_FLIGHT: Final = 2**30
_THREADS: Final = 8


@frozen
class Wish:
    """What the caller of `restore` asked for."""

    at: str | Sequence[str] | None = None
    dims: Mapping[str, int] | None = None
    keymap: KeyMap | None = None
    mesh: Mesh | None = None
    rules: Rules | None = None
    shardings: Any = None
    into: Into | None = None
    cast: Mapping[str, str] | None = None
    max_bytes_in_flight: int | None = None
    progress: bool | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a file is wanted as it lies: all of it, on the default device or the host."""
        others = (self.at, self.keymap, self.mesh, self.rules, self.shardings, self.cast, self.max_bytes_in_flight)
        return all(one is None for one in others)

    def check(self, codec: Codec[Any]) -> None:
        check_options(
            codec,
            at=self.at,
            dims=self.dims,
            mesh=self.mesh,
            rules=self.rules,
            shardings=self.shardings,
            into=self.into,
            cast=self.cast,
            max_bytes_in_flight=self.max_bytes_in_flight,
        )


def restore(path: str, target: Any, wish: Wish) -> Any:
    from treaty.runtime.formats._known import looking_at

    return begin_again(path, looking_at(path), lambda: _restore(path, format_at(path), target, wish))


def _restore(path: str, format: str, target: Any, wish: Wish) -> Any:
    if wish.is_plain and format == "msgpack":
        return _bytes.restore_file(path, target, dims=wish.dims, into=wish.into)
    if wish.is_plain and format == "safetensors":
        from treaty.runtime.formats import safetensors

        place = safetensors_in(path)
        return safetensors.restore_once(place, target, keymap=None, dims=wish.dims, into=wish.into)
    is_class = isinstance(target, type) or hasattr(target, "__origin__")
    codec = codec_of_class(target) if is_class else codec_of_instance(target)
    wish.check(codec)
    tree = _tree(path, format, codec.schema, wish)
    shapes = abstract(tree) if type(tree) is dict else tree
    found = explain(target, _as_cast(codec.schema, shapes, wish.cast), dims=wish.dims)
    if found:
        raise StateMismatchError(found)
    return from_state_dict(target, _read(codec.schema, tree, shapes, wish), dims=wish.dims, into=wish.into)


def _tree(path: str, format: str, schema: Schema, wish: Wish) -> Any:
    """The wanted part of a checkpoint, on the side of the fields; arrays are lazy, or views of the mapped file."""
    if wish.keymap is not None:
        from treaty.runtime._convert.keymap import to_fields

        stored: Any = to_fields(wish.keymap, _named(path, format), wish.dims)
    else:
        stored = _stored(path, format, schema if wish.at is None else None)
    part = _selected(stored, wish.at, path)
    if format in ("msgpack", "safetensors", "treaty") and wish.keymap is None:
        return part  # these say themselves what is empty, and what was no array
    from treaty.runtime._convert.lazy_restore import fit

    return fit(schema, part, forgets_none=format == "eformer")


def _stored(path: str, format: str, schema: Schema | None) -> Any:
    if format == "msgpack":
        return msgpack.read_file(path)
    if format == "safetensors":
        from treaty.runtime.formats import safetensors

        return safetensors.load_once(safetensors_in(path), schema=schema)[0]
    if format == "npz":
        from treaty.runtime.formats import npz

        return npz.read_open(path)
    if format == "orbax":
        from treaty.runtime.formats import orbax

        return orbax.read_open(path)
    if format == "eformer":
        from treaty.runtime._leaves.tree import read_tree as read_eformer

        return read_eformer(Path(path))
    from treaty.runtime.directory._tree import read_tree

    return read_tree(path)[0]


def _named(path: str, format: str) -> Mapping[str, Any]:
    """The leaves by their dotted names. Those of safetensors need not fit into a tree."""
    if format != "safetensors":
        return dotted(_stored(path, format, None))
    from treaty.runtime.formats import _safetensors_files, _safetensors_names

    tensors, metadata = _safetensors_files.read(safetensors_in(path))
    if _safetensors_names.NOTE in metadata:
        return dotted(_safetensors_names.nest(tensors, metadata, None))
    return tensors


def _as_cast(schema: Schema, shapes: Any, cast: Mapping[str, str] | None) -> Any:
    """The shapes with the dtypes that arrays will have; of another structure, no cast will help."""
    if not cast:
        return shapes
    try:
        declared = declared_arrays(schema, shapes)
    except (KeyError, AttributeError, TypeError):
        return shapes
    leaves: dict[Keys, Any] = dict(flatten(shapes))
    make: Any = jax.ShapeDtypeStruct  # its constructor has no types
    for path, one in declared.items():
        leaf, dtype = leaves.get(path), getattr(one.type, "dtype", None)
        if isinstance(leaf, jax.ShapeDtypeStruct) and dtype is not None and cast.get(leaf.dtype.name) == dtype:
            leaves[path] = make(leaf.shape, BY_NAME[dtype].numpy)
    return nest(leaves)


def _read(schema: Schema, tree: Any, shapes: Any, wish: Wish) -> Any:
    """The tree with its arrays where they belong."""
    from treaty.runtime.directory._placement import Target, fill_room, place
    from treaty.runtime.directory._progress import progress_bar

    declared = declared_arrays(schema, shapes)
    placed = placement(schema, shapes, wish.mesh, wish.rules, wish.shardings, wish.into)
    leaves = dict(flatten(tree))
    arrays = {keys: leaf for keys, leaf in leaves.items() if isinstance(leaf, (np.ndarray, LazyArray))}
    targets = {}
    for keys, leaf in arrays.items():
        one = declared.get(keys)
        wanted = BY_NAME[one.type.dtype].numpy if one is not None and isinstance(one.type, ir.Array) else leaf.dtype
        on_host = wish.into is not None or one is None or one.on_host
        targets[keys] = Target(tuple(leaf.shape), leaf.dtype, wanted, on_host, placed.get(keys))
    total = sum(leaf.nbytes for leaf in arrays.values())
    with progress_bar("restore", total, wish.progress) as advance:
        for batch in _batches(arrays, wish.max_bytes_in_flight or _IN_FLIGHT):
            read = _read_batch([arrays[keys] for keys in batch])
            rooms = [fill_room(targets[keys], array) for keys, array in zip(batch, read, strict=True)]
            leaves.update(zip(batch, place(rooms), strict=True))
            advance(sum(arrays[keys].nbytes for keys in batch))
    return nest(leaves)


@uninterrupted
def _read_batch(leaves: Sequence[Any]) -> list[Any]:
    if not any(isinstance(leaf, LazyArray) for leaf in leaves):
        return list(leaves)  # views of a mapped file
    return in_threads(_THREADS, "treaty-read", _host, leaves)


def _host(leaf: Any) -> Any:
    return leaf.read() if isinstance(leaf, LazyArray) else leaf


def _batches(arrays: Mapping[Keys, Any], limit: int) -> Iterator[list[Keys]]:
    """Runs of at most `limit` bytes, or of one array."""
    batch: list[Keys] = []
    size = 0
    for keys, array in arrays.items():
        if batch and size + array.nbytes > limit:
            yield batch
            batch, size = [], 0
        batch.append(keys)
        size += array.nbytes
    if batch:
        yield batch


def _selected(state: Any, at: str | Sequence[str] | None, where: str) -> Any:
    paths = parse_paths(at)
    if paths is None:
        return state
    if isinstance(at, str):
        return _below(state, paths[0], where)
    wanted = set(paths)
    kept = [keys for keys in paths if not any(keys[:depth] in wanted for depth in range(len(keys)))]
    return nest({keys: _below(state, keys, where) for keys in dict.fromkeys(kept)})


def _below(state: Any, keys: Sequence[str], where: str) -> Any:
    for depth, key in enumerate(keys):
        if type(state) is not dict or key not in state:
            there = ", ".join(map(str, list(state)[:12])) if type(state) is dict else "a leaf"
            raise TreatyError(f"expected {show_keys(keys)} in {where}, got {there} at {show_keys(keys[:depth])}")
        state = state[key]
    return state
