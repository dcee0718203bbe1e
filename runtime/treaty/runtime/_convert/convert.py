"""Conversion: read a checkpoint as it lies, lay it out anew, write it aside, compare every leaf, and only then move it."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from xxhash import xxh3_128

from treaty.runtime._convert.compare import describe, leaves, nbytes_of
from treaty.runtime._convert.destination import check_place, destination_at, take_place
from treaty.runtime._errors import ConversionError, InvalidArgumentError, StateMismatchError, show_keys
from treaty.runtime._keymaps.apply import to_fields, to_stored
from treaty.runtime._lazy import HostArray, LazyArray, as_bytes, host, pieces_of
from treaty.runtime._process.progress import progress_bar
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._process.workers import Workers, in_threads
from treaty.runtime._restore.source import Source
from treaty.runtime._same import same_bytes
from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._state.state_dict import explain
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import local_path
from treaty.runtime._storage.system import give_back_memory
from treaty.runtime._storage.workspace import put_back, remove, workspace
from treaty.runtime._trees import abstract, dotted, flatten, is_stored_array, nest_named
from treaty.runtime.formats.shared.format import Format, Writing
from treaty.runtime.formats.table import FORMATS, format_named, format_to_write, looking, reading
from treaty.schema import Schema
from treaty.schema.keymap import KeyMap

PathLike = str | os.PathLike[str]
_IsSame = Callable[[tuple[str, ...], Any, Any], bool]

_WORTH_A_THREAD: Final = 2**20  # bytes to hash
_THREADS: Final = 2  # that compare: each holds a few pieces


@frozen
class Converted:
    """What was done: which formats, and how much."""

    source: str
    destination: str
    leaves: int
    nbytes: int
    where: str  # what was read: of a run that is its newest step


@frozen
class Mapped:
    """A key map to apply: from stored names to fields, or, `reverse`, from fields to stored names."""

    keymap: KeyMap
    reverse: bool = False


@frozen
class OfRun:
    """What a step of a run has that a checkpoint by itself has not."""

    title: str  # of its progress
    note: Mapping[str, Any]  # what a manager knows it by
    metadata: Mapping[str, Any]
    base: str | None  # the neighbour that is converted already
    items: tuple[str, ...]  # the trees in it: one is the state, of several each is a field


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
    of_run: OfRun | None = None,
) -> Converted:
    """Write the checkpoint at `source` to `destination` in another format.

    With `cls` the tree, on the side of the fields, is checked against the class first. `sizes` are dims of the class and
    axes that the key map needs. Arrays pass through memory piece by piece, or, where a format has no pieces, one by one.
    The result is read again and compared with the source to the last bit before it takes its place; whatever goes
    wrong, the destination is what it was.
    """
    place = destination_at(destination)
    origin = local_path(source)
    to = format_to_write(local_path(destination)) if to_format is None else format_named(to_format)
    sizes = sizes or {}
    if from_format is not None:
        format_named(from_format)
    if max_shard_bytes is not None and "max_shard_bytes" not in to.takes:
        others = " or ".join(one.name for one in FORMATS.values() if "max_shard_bytes" in one.takes)
        raise InvalidArgumentError(f"expected --max-shard-bytes for {others} only, got it for {to.name}")
    _check_sizes(cls, mapped, sizes)
    put_back(place)

    def make(written: Path, folder: Path, format: Format, known: Known) -> Converted:
        """From the source as it is now, and not at its place yet."""
        remove(written.parent)
        written.parent.mkdir()
        check_place(place, to, format.members(origin), replace)
        opened = format.open(origin, known) if of_run is None else _items(format, origin, known, of_run.items)
        opened.scratch = folder
        schema = None if cls is None else codec_of_class(cls).schema.as_stored
        tree = _laid_out(opened, schema, cls, mapped, sizes)
        reversed = mapped is not None and mapped.reverse
        writing = Writing(None if reversed else schema, _metadata(opened.metadata, to), max_shard_bytes)
        if cls is None and mapped is None and to.keeps_schema:
            writing = writing._replace(schema=opened.schema, revisions=opened.revisions)
        if of_run is not None:
            writing = writing._replace(metadata=of_run.metadata, step=of_run.note, base=of_run.base)
        title = "convert" if of_run is None else of_run.title
        with progress_bar(title, 2 * nbytes_of(tree), progress) as advance:
            _write(written, to, tree, writing, folder, advance)
        return Converted(format.name, to.name, sum(1 for _ in flatten(tree)), nbytes_of(tree), opened.where)

    with workspace(place) as space:
        written = space.folder / "new" / place.name

        def read(format: Format, _: str, known: Known) -> Converted:
            return make(written, space.folder, format, known)

        done = looking(origin, read, from_format)
        take_place(space, written, place, to, replace)
    return done


def _metadata(metadata: Mapping[str, Any], to: Format) -> Mapping[str, Any]:
    """What a format of text cannot hold becomes JSON; what has no room for metadata, forgets it."""
    if "metadata" not in to.takes:
        return {}
    if not to.text_metadata:
        return metadata
    return {name: one if isinstance(one, str) else json.dumps(one) for name, one in metadata.items()}


def _items(format: Format, place: str, known: Known, items: tuple[str, ...]) -> Source:
    """A step by its items."""
    if len(items) > 1:
        several = [format.open(os.path.join(place, name), known) for name in items]
        joined = Source(place, {name: one.tree() for name, one in zip(items, several, strict=True)})
        joined.is_exact = several[0].is_exact
        return joined
    return format.open(os.path.join(place, *items), known)


def _write(
    written: Path,
    to: Format,
    tree: dict[str, Any],
    writing: Writing,
    folder: Path,
    advance: Callable[[int], None],
) -> None:
    """Write a tree, and compare what can be read of it."""
    with Workers(1, "treaty-hash") as hashing:
        passed = _Passed(advance, hashing)
        to.write(str(written), passed.watch(tree), writing)
        give_back_memory()

        def compare(source: Source) -> None:
            source.scratch = folder
            check_equal(tree, source.settled(writing.schema), passed.is_same)

        reading(written, compare, to.name)
    give_back_memory()


def check_equal(
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
    is_same: _IsSame = lambda _, leaf, found: same_bytes(leaf, found),
) -> None:
    """Every leaf, to the last bit; of arrays that were seen on their way, by the checksum of then."""
    left, right = leaves(expected), leaves(found)
    alike = [path for path, leaf in left.items() if path in right and describe(leaf) == describe(right[path])]
    found_same = in_threads("treaty-compare", lambda path: is_same(path, left[path], right[path]), alike, _THREADS)
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
        if not is_stored_array(node):
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


def _check_sizes(cls: Any, mapped: Mapped | None, sizes: Mapping[str, int]) -> None:
    dims = set() if cls is None else set(codec_of_class(cls).dims)
    axes = set() if mapped is None else mapped.keymap.axes
    for name in sizes:
        if name not in dims | axes:
            known = ", ".join(sorted(dims | axes)) or "none"
            raise InvalidArgumentError(f"--dim: expected dims of the class or axes of the map ({known}), got {name!r}")


def _laid_out(
    opened: Source, schema: Schema | None, cls: Any, mapped: Mapped | None, sizes: Mapping[str, int]
) -> dict[str, Any]:
    tree: dict[str, Any] = opened.settled(schema if mapped is None else None)
    if mapped is not None and not mapped.reverse:
        tree = to_fields(mapped.keymap, dotted(tree), sizes)
        tree = tree if cls is None else opened.fitted(codec_of_class(cls).schema, tree)  # as `restore` does
    if cls is not None:
        _check(cls, tree, sizes)
    if mapped is not None and mapped.reverse:
        tree = nest_named(to_stored(mapped.keymap, tree))
    return tree


def _check(cls: Any, tree: dict[str, Any], sizes: Mapping[str, int]) -> None:
    dims = {name: size for name, size in sizes.items() if name in codec_of_class(cls).dims}
    found = explain(cls, abstract(tree), dims=dims)
    if found:
        raise StateMismatchError(found)
