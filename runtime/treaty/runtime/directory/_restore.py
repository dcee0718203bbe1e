"""Restoring: everything is checked against the class before the first array is read, then read where it is wanted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from attrs import frozen
from jax.sharding import Mesh

from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._restore_options import check_options
from treaty.runtime._sharding.shardings import Rules, placement
from treaty.runtime._state.axes import Declared, Keys, declared_arrays
from treaty.runtime._state.casts import may_cast
from treaty.runtime._state.registry import Codec, codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import Into, explain, explain_quickly, from_state_dict
from treaty.runtime.directory._manifest import Leaf, Manifest, nest
from treaty.runtime.directory._placement import Target, fill_room, make_room, nbytes_needed, place
from treaty.runtime.directory._places import PathLike, Place
from treaty.runtime.directory._progress import progress_bar
from treaty.runtime.directory._read import NUMPY, Reader, read_committed
from treaty.runtime.directory._select import Selected, select

IN_FLIGHT: Final = 2**30


@frozen
class _Wish:
    """What the caller asked for."""

    codec: Codec[Any]
    target: Any  # a class, or an instance whose shapes and containers the result must have
    is_class: bool
    at: str | Sequence[str] | None
    dims: Mapping[str, int]
    mesh: Mesh | None
    rules: Rules | None
    shardings: Any
    into: Into | None
    cast: Mapping[str, str] | None
    max_bytes_in_flight: int
    progress: bool | None


def restore(
    path: PathLike,
    cls: Any,
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
    shardings: Any = None,
    into: Into | None = None,
    cast: Mapping[str, str] | None = None,
    max_bytes_in_flight: int = IN_FLIGHT,
    progress: bool | None = None,
) -> Any:
    """An instance of `cls` from a directory checkpoint, whatever hardware it was saved on.

    `cls` may be a template instance, whose shapes and static fields must then match too.
    `at` is the path of a subtree that `cls` describes, or a list of paths that are to be read while the rest is left.
    `mesh` with `rules` places arrays by the names of their dims, or by regular expressions on their paths (see
    `shardings`); `shardings` is one Sharding, or an instance of `cls` that holds them. Dtypes must be the declared
    ones or narrower ones that lose nothing; `cast={"float32": "bfloat16"}` allows more. `max_bytes_in_flight` bounds
    the host memory of arrays that are on their way to a device. `progress` None shows a bar on a terminal.
    """
    is_class = isinstance(cls, type) or hasattr(cls, "__origin__")
    codec = codec_of_class(cls) if is_class else codec_of_instance(cls)
    wish = _Wish(
        codec, cls, is_class, at, dims or {}, mesh, rules, shardings, into, cast, max_bytes_in_flight, progress
    )
    check_options(
        codec,
        at=at,
        dims=dims,
        mesh=mesh,
        rules=rules,
        shardings=shardings,
        into=into,
        cast=cast,
        max_bytes_in_flight=max_bytes_in_flight,
    )
    return read_committed(path, lambda place, manifest: _restore(place, manifest, wish))


def _restore(place: Place, manifest: Manifest, wish: _Wish) -> Any:
    selected = select(manifest.leaves, wish.at, place.where)
    total = sum(leaf.nbytes for _, _, leaf in selected)
    with progress_bar("restore", total, wish.progress) as advance:
        reader = Reader(place, manifest, advance)
        reader.check_files(number for number, _, _ in selected)
        leaves = _values(reader, selected)
        targets = _targets(wish, nest([(path, leaves[number]) for number, path, _ in selected]), selected)
        leaves.update(_small(reader, selected, targets))
        leaves.update(_large(reader, selected, targets, wish.max_bytes_in_flight))
    state = nest([(path, leaves[number]) for number, path, _ in selected])
    return from_state_dict(wish.target, state, dims=wish.dims, into=wish.into)


def _values(reader: Reader, selected: Selected) -> dict[int, Any]:
    """Every leaf: values as they are, arrays by shape and dtype."""
    found: dict[int, Any] = {number: _struct(leaf) for number, _, leaf in selected if leaf.dtype is not None}
    values = [(number, leaf.file) for number, _, leaf in selected if leaf.dtype is None]
    if values:
        index = values[0][1]
        assert index is not None
        found.update(reader.pack(index, [number for number, _ in values]))
    return found


def _targets(wish: _Wish, tree: Any, selected: Selected) -> dict[int, Target]:
    """The preflight: all that is wrong is raised here; what is right gets its place."""
    declared = _fit(wish, tree, {path: leaf for _, path, leaf in selected if leaf.dtype is not None})
    placed = placement(wish.codec.schema, tree, wish.mesh, wish.rules, wish.shardings, wish.into)
    targets = {}
    for number, path, leaf in selected:
        if leaf.dtype is not None:
            one = declared.get(path)
            stored = NUMPY[leaf.dtype]
            wanted = NUMPY[one.type.dtype] if one is not None and hasattr(one.type, "dtype") else stored
            on_host = wish.into is not None or one is None or one.on_host
            targets[number] = Target(leaf.shape, stored, wanted, on_host, placed.get(path))
    return targets


def _fit(wish: _Wish, tree: Any, arrays: Mapping[Keys, Leaf]) -> dict[Keys, Declared]:
    schema = wish.codec.schema
    mismatches = _mismatches(wish, tree)
    if not mismatches:
        return declared_arrays(schema, tree)
    try:
        declared = declared_arrays(schema, tree)
    except (KeyError, AttributeError, TypeError):  # of another structure: no cast will help
        raise StateMismatchError(mismatches) from None
    for path, one in declared.items():
        dtype = getattr(one.type, "dtype", None)
        stored = arrays[path].dtype if path in arrays else None
        if dtype is not None and stored is not None and may_cast(stored, dtype, wish.cast):
            _put(tree, path, _struct(arrays[path], dtype))
    mismatches = _mismatches(wish, tree)
    if mismatches:
        raise StateMismatchError(mismatches)
    return declared


def _mismatches(wish: _Wish, tree: Any) -> tuple[Mismatch, ...]:
    if wish.is_class:
        return explain_quickly(wish.codec, tree, wish.dims)
    return explain(wish.target, tree, dims=wish.dims)


def _small(reader: Reader, selected: Selected, targets: Mapping[int, Target]) -> Iterator[tuple[int, Any]]:
    files: dict[int, list[int]] = {}
    for number, _, leaf in selected:
        if leaf.dtype is not None and leaf.file is not None:
            files.setdefault(leaf.file, []).append(number)
    for index, numbers in files.items():
        found = reader.pack(index, numbers)
        rooms = [fill_room(targets[number], found[number]) for number in numbers]
        for number, array in zip(numbers, place(rooms), strict=True):
            yield number, np.array(array) if isinstance(array, np.ndarray) else array  # not a view of the file


def _large(reader: Reader, selected: Selected, targets: Mapping[int, Target], limit: int) -> Iterator[tuple[int, Any]]:
    """Batch after batch of at most `limit` bytes, or of one array: read, check, place."""
    numbers = [number for number, _, leaf in selected if leaf.is_chunked]
    for batch in _batches(numbers, targets, limit):
        rooms = [make_room(targets[number]) for number in batch]
        reader.arrays({number: room.parts for number, room in zip(batch, rooms, strict=True)})
        yield from zip(batch, place(rooms), strict=True)


def _batches(numbers: Sequence[int], targets: Mapping[int, Target], limit: int) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for number in numbers:
        needed = nbytes_needed(targets[number])
        if batch and size + needed > limit:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += needed
    if batch:
        yield batch


def _struct(leaf: Leaf, dtype: str | None = None) -> Any:
    assert leaf.dtype is not None
    make: Any = jax.ShapeDtypeStruct
    return make(leaf.shape, NUMPY[dtype or leaf.dtype])


def _put(tree: Any, path: Keys, value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value
