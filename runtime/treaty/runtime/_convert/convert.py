"""Conversion: read a checkpoint as it lies, lay it out anew, write it aside, compare every leaf, and only then move it."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from xxhash import xxh3_128

from treaty.runtime._convert.compare import describe, leaves, nbytes_of, same_bytes
from treaty.runtime._convert.keymap import to_fields, to_stored
from treaty.runtime._convert.lazy_restore import fit
from treaty.runtime._convert.places import check_place, place_of, take_place
from treaty.runtime._convert.views import host, is_array, pieces_of
from treaty.runtime._errors import ConversionError, InvalidArgumentError, StateMismatchError, show_keys
from treaty.runtime._lazy import HostArray, LazyArray, as_bytes
from treaty.runtime._overtaken import begin_again
from treaty.runtime._paths import local_path
from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._state.state_dict import explain
from treaty.runtime._state.trees import abstract, dotted, flatten, nest_dotted
from treaty.runtime._system import give_back_memory
from treaty.runtime._uninterrupted import go_on, uninterrupted
from treaty.runtime._workers import Workers, in_threads
from treaty.runtime._workspace import put_back, remove, workspace
from treaty.runtime.directory._progress import progress_bar
from treaty.runtime.formats import _table as formats
from treaty.runtime.formats._known import looking_at
from treaty.schema.keymap import KeyMap

PathLike = str | os.PathLike[str]

_WORTH_A_THREAD: Final = 2**20  # bytes to hash
_THREADS: Final = 2  # that compare: each holds a few pieces


@frozen
class Converted:
    """What was done: which formats, and how much."""

    source: str
    destination: str
    leaves: int
    nbytes: int


@frozen
class Mapped:
    """A key map to apply: from stored names to fields, or, `reverse`, from fields to stored names."""

    keymap: KeyMap
    reverse: bool = False


@uninterrupted
def convert(
    source: PathLike,
    destination: PathLike,
    *,
    cls: Any = None,
    mapped: Mapped | None = None,
    sizes: Mapping[str, int] | None = None,
    from_format: str | None = None,
    to_format: str | None = None,
    max_shard_bytes: int | None = None,
    replace: bool = False,
    progress: bool | None = False,
) -> Converted:
    """Write the checkpoint at `source` to `destination` in another format.

    With `cls` the tree, on the side of the fields, is checked against the class first. `sizes` are dims of the class and
    axes that the key map needs. Arrays pass through memory piece by piece, or, where a format has no pieces, one by one.
    The result is read again and compared with the source to the last bit before it takes its place; whatever goes
    wrong, the destination is what it was.
    """
    place = place_of(destination)
    origin = Path(local_path(source))
    to = to_format or formats.meant(place)
    sizes = sizes or {}
    _check_options(from_format or to, to, max_shard_bytes)
    _check_sizes(cls, mapped, sizes)
    put_back(place)

    def make(written: Path, folder: Path) -> Converted:
        """From the source as it is now, and not at its place yet."""
        remove(written.parent)
        written.parent.mkdir()
        name = from_format or formats.recognise(origin)
        check_place(place, to, bool(formats.FORMATS[to].suffixes), formats.files_of(origin, name), replace)
        contents = formats.read(origin, name, folder, cls if mapped is None else None)
        tree = _laid_out(contents.tree, cls, mapped, sizes)
        written_as = None if mapped is not None and mapped.reverse else cls
        options = formats.Options(contents.metadata, max_shard_bytes, written_as)
        _write(written, to, tree, options, folder, progress)
        return Converted(name, to, sum(1 for _ in flatten(tree)), nbytes_of(tree))

    with workspace(place) as space:
        written = space.folder / "new" / place.name
        done = begin_again(str(origin), looking_at(origin), lambda: make(written, space.folder))
        take_place(space, written, place, to, replace)
    return done


def _write(
    written: Path, to: str, tree: dict[str, Any], options: formats.Options, folder: Path, progress: bool | None
) -> None:
    """Write a tree, and compare what can be read of it."""
    with progress_bar("convert", 2 * nbytes_of(tree), progress) as advance, Workers(1, "treaty-hash") as hashing:
        passed = _Passed(advance, hashing)
        formats.FORMATS[to].write(written, passed.watch(tree), options)
        give_back_memory()
        check_equal(tree, formats.read(written, to, folder, options.cls).tree, passed)
    give_back_memory()


def check_equal(expected: Mapping[str, Any], found: Mapping[str, Any], passed: "_Passed | None" = None) -> None:
    """Every leaf, to the last bit; of arrays that were seen on their way, by the checksum of then."""
    left, right = leaves(expected), leaves(found)
    alike = [path for path, leaf in left.items() if path in right and describe(leaf) == describe(right[path])]
    is_same = _is_same if passed is None else passed.is_same
    found_same = in_threads(_THREADS, "treaty-compare", lambda path: is_same(path, left[path], right[path]), alike)
    same = dict(zip(alike, found_same, strict=True))
    problems = [
        f"expected nothing, got {describe(right[path])} at {show_keys(path)}" for path in right if path not in left
    ]
    for path, leaf in left.items():
        if path not in right:
            problems.append(f"expected {describe(leaf)}, got nothing at {show_keys(path)}")
        elif path not in same:
            got = describe(right[path])
            problems.append(f"expected {describe(leaf)} as in the source, got {got} at {show_keys(path)}")
        elif not same[path]:
            problems.append(f"expected {describe(leaf)} as in the source, got other contents at {show_keys(path)}")
    if problems:
        raise ConversionError(problems)


def _is_same(path: tuple[str, ...], leaf: Any, found: Any) -> bool:
    return same_bytes(leaf, found)


class _Passed:
    """The checksums of arrays, made while these are written, so that no source is read or re-arranged twice."""

    def __init__(self, advance: Callable[[int], None], hashing: Workers) -> None:
        self.advance = advance
        self.hashing = hashing  # of one thread, so that pieces are hashed in order
        self.sums: dict[tuple[str, ...], bytes] = {}

    def watch(self, node: Any, path: tuple[str, ...] = ()) -> Any:
        """The tree with lazy arrays for all arrays."""
        if type(node) is dict:
            return {key: self.watch(one, (*path, key)) for key, one in node.items()}
        if not is_array(node):
            return node

        def parts() -> Iterator[HostArray]:
            digest = xxh3_128()
            hashing: Callable[[], None] | None = None
            for piece in pieces_of(node):
                go_on()
                if hashing is not None:
                    hashing()
                if piece.nbytes < _WORTH_A_THREAD:
                    digest.update(as_bytes(piece))
                else:
                    hashing = self.hashing.begin(partial(digest.update, as_bytes(piece)))
                yield piece
                self.advance(piece.nbytes)
            if hashing is not None:
                hashing()
            self.sums[path] = digest.digest()

        def read() -> HostArray:
            array = host(node)
            self.sums[path] = self._sum(array)
            return array

        return LazyArray(tuple(node.shape), node.dtype, read, parts)

    def is_same(self, path: tuple[str, ...], leaf: Any, found: Any) -> bool:
        if path not in self.sums:
            return same_bytes(leaf, found)
        return self._sum(found) == self.sums[path]

    def _sum(self, array: Any) -> bytes:
        digest = xxh3_128()
        for piece in pieces_of(array):
            go_on()
            digest.update(as_bytes(piece))
            self.advance(piece.nbytes)
        return digest.digest()


def _check_options(name: str, to: str, max_shard_bytes: int | None) -> None:
    for given in (name, to):
        if given not in formats.FORMATS:
            raise InvalidArgumentError(f"expected a format of {', '.join(formats.FORMATS)}, got {given!r}")
    if max_shard_bytes is not None and to != "safetensors":
        raise InvalidArgumentError(f"expected max_shard_bytes for safetensors only, got it for {to}")


def _check_sizes(cls: Any, mapped: Mapped | None, sizes: Mapping[str, int]) -> None:
    dims = set() if cls is None else set(codec_of_class(cls).dims)
    axes = set() if mapped is None else mapped.keymap.axes
    for name in sizes:
        if name not in dims | axes:
            known = ", ".join(sorted(dims | axes)) or "none"
            raise InvalidArgumentError(f"expected dims of the class or axes of the map ({known}), got {name!r}")


def _laid_out(tree: dict[str, Any], cls: Any, mapped: Mapped | None, sizes: Mapping[str, int]) -> dict[str, Any]:
    if mapped is not None and not mapped.reverse:
        tree = to_fields(mapped.keymap, dotted(tree), sizes)
        tree = tree if cls is None else fit(codec_of_class(cls).schema, tree)  # as `restore` does
    if cls is not None:
        _check(cls, tree, sizes)
    if mapped is not None and mapped.reverse:
        tree = nest_dotted(to_stored(mapped.keymap, tree))
    return tree


def _check(cls: Any, tree: dict[str, Any], sizes: Mapping[str, int]) -> None:
    dims = {name: size for name, size in sizes.items() if name in codec_of_class(cls).dims}
    found = explain(cls, abstract(tree), dims=dims)
    if found:
        raise StateMismatchError(found)
