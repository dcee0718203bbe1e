"""State dicts in directories, for conversion: read without a class, and written with any schema or with none."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from treaty.runtime._lazy import HostArray, LazyArray, Start, read_by_bands
from treaty.runtime._memory import aligned
from treaty.runtime._workers import Workers
from treaty.runtime.directory._manifest import Leaf, Manifest, nest
from treaty.runtime.directory._places import PathLike, Place, place_of
from treaty.runtime.directory._plan import plan_tree
from treaty.runtime.directory._processes import team
from treaty.runtime.directory._read import NUMPY, Part, Reader, read_committed
from treaty.runtime.directory._write import write
from treaty.schema import Schema, ir

_TREE: Final = "tree"  # the class of a tree that has none


def read_tree(path: PathLike) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dict, arrays as lazy ones that are checked when they are read, and the metadata."""
    return read_committed(path, lambda place, manifest: (_tree(place, manifest), dict(manifest.metadata)))


def write_tree(
    path: Path,
    tree: Mapping[str, Any],
    metadata: Mapping[str, Any],
    schema: Schema | None = None,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Save a state dict that fits the schema. Without one the manifest says that nothing is known of the tree."""
    with team() as processes:
        plan = plan_tree(tree, schema or _untyped(tree), dims or {}, metadata)
        write(place_of(path), plan, processes)


def _tree(place: Place, manifest: Manifest) -> dict[str, Any]:
    reader = Reader(place, manifest)
    reader.check_files(range(len(manifest.leaves)))
    values = {
        number: value
        for file in {leaf.file for leaf in manifest.leaves if leaf.dtype is None}
        for number, value in _pack(reader, manifest, file, arrays=False).items()
    }

    @lru_cache(maxsize=1)  # leaves that share a file are read one after the other
    def pack(file: int) -> dict[int, Any]:
        return _pack(reader, manifest, file, arrays=True)

    def array(number: int, leaf: Leaf) -> LazyArray:
        dtype = NUMPY[str(leaf.dtype)]

        def read() -> Any:
            if leaf.file is not None:
                return pack(leaf.file)[number]
            memory = aligned(leaf.shape, dtype)
            reader.arrays({number: [Part((0,) * len(leaf.shape), memory)]})
            return memory

        def parts() -> Iterator[HostArray]:
            with Workers(1, "treaty-read") as ahead:

                def begin(start: Start, memory: HostArray) -> Callable[[], object]:
                    return ahead.begin(partial(reader.arrays, {number: [Part(start, memory)]}))

                yield from read_by_bands(leaf.shape, dtype, leaf.chunks, begin)

        return LazyArray(leaf.shape, dtype, read, None if leaf.file is not None else parts)

    leaves = enumerate(manifest.leaves)
    found = nest([(leaf.path, values[i] if leaf.dtype is None else array(i, leaf)) for i, leaf in leaves])
    return dict(found)


def _pack(reader: Reader, manifest: Manifest, file: int | None, *, arrays: bool) -> dict[int, Any]:
    assert file is not None  # a leaf that is no array shares a file
    own = [i for i, leaf in enumerate(manifest.leaves) if leaf.file == file and (leaf.dtype is not None) == arrays]
    return reader.pack(file, own)


def _untyped(tree: Mapping[str, Any]) -> Schema:
    fields = tuple(ir.Field(key, key, key, ir.Untyped()) for key in tree)
    return Schema(_TREE, (ir.Class(_TREE, _TREE, "state", (), fields),))
