"""The manifest of a directory checkpoint: what is stored, where, and the checksum of every byte of it.

`docs/directory-format.md` states the format. Nothing here needs JAX, TensorStore or the user's code, and nothing in a
manifest is believed before it was checked: names have fixed forms, so no path can lead out of the directory.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from treaty.runtime._errors import CorruptCheckpointError, NewerFormatError, show_keys
from treaty.runtime.formats.directory.checksum import checksum, is_checksum
from treaty.schema.dtypes import BY_NAME

if TYPE_CHECKING:
    from treaty.schema import Schema

NAME: Final = "treaty.json"
VERSION: Final = 2  # of checkpoints that have compressed chunks; of others 1
CODECS: Final = {"zstd": "noshuffle", "zstd-shuffle": "shuffle", "zstd-bitshuffle": "bitshuffle"}  # with Blosc's words
REMOVED: Final = b'{"treaty":"removed"'  # how what is in a manifest's place begins while a store removes its data
VALUES: Final = "values.msgpack"
DATA: Final = re.compile(r"data-[0-9a-f]{16}\Z")
OWN: Final = (  # every file that a checkpoint can have; compiled by whoever asks, which looking inside does not
    rf"{re.escape(NAME)}|\.{re.escape(NAME)}\.[0-9a-f]+\.tmp"
    r"|data-[0-9a-f]+/([0-9]+/)?(zarr\.json|c(\.[0-9]+)*|[a-z]+(-[0-9]+)?\.msgpack|part-[0-9]+\.json)"
    r"(_[0-9a-f]+\.__lock)?"  # what TensorStore had not renamed yet when a save was killed
)
SMALL: Final = re.compile(r"small-(0|[1-9][0-9]{0,8})\.msgpack\Z")

_ITEMSIZE: Final = {name: row.itemsize for name, row in BY_NAME.items()}
_HEAD: Final = re.compile(rb'{"treaty":"directory","version":[1-9][0-9]{0,8},"data":"(data-[0-9a-f]{16})",')
_TRAILER: Final = re.compile(rb',"checksum":"([0-9a-f]{16})"}\n\Z')
_TRAILER_SIZE: Final = len(b',"checksum":""}\n') + 16
_KEYS: Final = {"treaty", "version", "data", "schema", "digest", "dims", "metadata", "files", "leaves", "checksum"}
MOST_KEYS: Final = 400  # in a path: MOST_LEVELS of `_trees`, which needs JAX
_OVERHEAD: Final = 16  # bytes that a compressed chunk may be longer
_MORE: Final = "more"  # where later writers put what a reader may ignore
_REVISIONS: Final = "revisions"  # in there
_UPPER: Final = "upper"  # in there
_STEP: Final = "step"  # in there, of a manager's; last of all, so that it is found from the end
_CHUNKED: Final = {"path", "dtype", "shape", "chunks", "checksums"}
_COMPRESSED: Final = {*_CHUNKED, "codec", "sizes"}
_LEAF: Final = {*_CHUNKED, "file", "int"}
_FILE: Final = {"name", "size", "checksum"}
_IN_FILE: Final = {"path", "dtype", "shape", "file"}
_At = str | tuple[str, ...]  # a place in the manifest, or the path of a leaf


class File(NamedTuple):
    """A MessagePack file that holds whole leaves, by their number."""

    name: str
    size: int
    checksum: str


class Leaf(NamedTuple):
    """One leaf of the state dict. `dtype` is None for what is not an array; `file` is None for a TensorStore array."""

    path: tuple[str, ...]
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    file: int | None = None
    chunks: tuple[int, ...] = ()
    checksums: tuple[str, ...] = ()  # of the chunks, in row-major order
    is_hex: bool = False  # an int that MessagePack has no room for, stored as text
    codec: str | None = None  # of the chunks, if they are compressed
    sizes: tuple[int, ...] = ()  # of the chunks' files, if they are compressed

    @property
    def is_chunked(self) -> bool:
        """Whether this is an array of its own in TensorStore."""
        return self.dtype is not None and self.file is None

    @property
    def nbytes(self) -> int:
        return 0 if self.dtype is None else math.prod(self.shape) * _ITEMSIZE[self.dtype]

    @property
    def chunk_bytes(self) -> int:
        return 0 if self.dtype is None else math.prod(self.chunks) * _ITEMSIZE[self.dtype]

    @property
    def stored_bytes(self) -> int:
        """What it takes on the disk."""
        return sum(self.sizes) if self.sizes else self.nbytes

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis. Chunks divide the array evenly."""
        return tuple(size // chunk for size, chunk in zip(self.shape, self.chunks, strict=True))


class Manifest(NamedTuple):
    """All that a checkpoint says about itself."""

    data: str  # the directory, beside the manifest, that holds everything else
    schema: "Schema"
    dims: Mapping[str, int]
    metadata: Mapping[str, Any]
    files: tuple[File, ...]
    leaves: tuple[Leaf, ...]
    revisions: Mapping[str, int] = {}  # of the classes of the schema, by symbol, as far as they were locked
    # What XXH3 with 128 bits has above a checksum: of a file by its name, of the chunks of a leaf by its number.
    upper: Mapping[str, Sequence[str]] = {}
    step: Mapping[str, Any] = {}  # what a manager notes of it; not read with the rest

    def to_bytes(self) -> bytes:
        body: dict[str, Any] = {
            "treaty": "directory",
            "version": VERSION if any(leaf.codec for leaf in self.leaves) else 1,
            "data": self.data,
            "schema": json.loads(self.schema.to_json()),
            "digest": self.schema.digest,
            "dims": dict(self.dims),
            "metadata": dict(self.metadata),
            "files": [{"name": one.name, "size": one.size, "checksum": one.checksum} for one in self.files],
            "leaves": [_leaf_to_data(leaf) for leaf in self.leaves],
        }
        more: dict[str, Any] = {_REVISIONS: dict(self.revisions), _UPPER: dict(self.upper), _STEP: dict(self.step)}
        if self.step:
            more[_STEP]["nbytes"] = sum(leaf.nbytes for leaf in self.leaves)
        if any(more.values()):
            body[_MORE] = {name: one for name, one in more.items() if one}
        text = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()[:-1]
        return text + f',"checksum":"{checksum(text)}"}}\n'.encode()


class Contents(NamedTuple):
    """A manifest whose schema was not read yet: that takes as long as all the rest."""

    parser: "_Parser"
    data: Mapping[str, Any]
    folder: str  # the data directory
    dims: Mapping[str, int]
    metadata: Mapping[str, Any]
    files: tuple[File, ...]
    leaves: tuple[Leaf, ...]

    def schema(self) -> "Schema":
        return self.parser.schema(self.data["schema"], self.data["digest"])


def parse(content: bytes, where: str) -> Manifest:
    """A manifest from its bytes, or a CorruptCheckpointError that says what is wrong at `where`."""
    found = parse_contents(content, where)
    more = found.data.get(_MORE)
    return Manifest(
        found.folder,
        found.schema(),
        found.dims,
        found.metadata,
        found.files,
        found.leaves,
        _revisions(more),
        upper_of(found.data),
    )


def parse_contents(content: bytes, where: str) -> Contents:
    parser = _Parser(where)
    data = parser.load(content)
    leaves = parser.leaves(parser.items(data["leaves"], "leaves"))
    files = tuple(map(parser.file, parser.items(data["files"], "files")))
    parser.agree(files, leaves)
    dims = {parser.text(name, "dims"): parser.count(size, "dims") for name, size in parser.map(data, "dims")}
    folder = parser.matching(data["data"], DATA, "data")
    return Contents(parser, data, folder, dims, dict(parser.map(data, "metadata")), files, leaves)


def data_of(content: bytes) -> str | None:
    """The data directory that a manifest names, without parsing the rest; None where it is damaged."""
    head = _HEAD.match(content)
    try:
        _Parser("").check_sum(content)
    except CorruptCheckpointError:
        return None
    return None if head is None else head[1].decode()


def step_of(content: bytes) -> Mapping[str, Any] | None:
    """What a manager noted of a step, without reading the rest; empty where none did, and None of a damaged manifest."""
    try:
        _Parser("").check_sum(content)
    except CorruptCheckpointError:
        return None
    more = _last_member(content[:-_TRAILER_SIZE], _MORE)
    found = more.get(_STEP) if type(more) is dict else None
    return found if type(found) is dict else {}


def _last_member(content: bytes, name: str) -> Any:
    """The value of the last member of an object that lacks its closing brace; None if that has another name.

    An object inside may have a member of this name too, such as a metric. Behind that one come braces.
    """
    text, sign = content.decode(errors="replace"), f',"{name}":'
    start = len(text)
    while (start := text.rfind(sign, 0, start)) >= 0:
        with suppress(ValueError, RecursionError):
            value, end = _JSON.raw_decode(text, start + len(sign))
            if end == len(text):
                return value
    return None


class _Parser:
    def __init__(self, where: str) -> None:
        self.where = where
        self.members = _LEAF

    def wrong(self, expected: str, got: object, at: _At) -> NoReturn:
        at = at if isinstance(at, str) else show_keys(at)
        raise CorruptCheckpointError(f"expected {expected}, got {str(got)[:80]} at {at} of {self.where}")

    def check_sum(self, content: bytes) -> None:
        trailer = _TRAILER.search(content, max(0, len(content) - _TRAILER_SIZE))
        if trailer is None:
            self.wrong("a manifest that ends with its checksum", f"{len(content)} bytes that do not", "the end")
        found = checksum(memoryview(content)[: trailer.start()])
        if found != trailer[1].decode():
            self.wrong(f"checksum {trailer[1].decode()}", found, "the manifest")

    def load(self, content: bytes) -> dict[str, Any]:
        self.check_sum(content)
        try:
            data = json.loads(content, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            self.wrong("JSON", error, "the manifest")
        if type(data) is not dict or data.get("treaty") != "directory":
            self.wrong("the manifest of a Treaty directory", type(data).__name__, "the manifest")
        version = data.get("version")
        if type(version) is int and version > VERSION:
            raise NewerFormatError(self.where, f"directory format {version}, this one reads up to {VERSION}")
        if type(version) is not int or version < 1:
            self.wrong(f"directory format 1 to {VERSION}", version, "the manifest")
        self.members = _LEAF if version == 1 else _LEAF | _COMPRESSED
        self.known(data, _KEYS | {_MORE}, "the manifest")
        if missing := _KEYS - data.keys():
            self.wrong(f"the keys {', '.join(sorted(_KEYS))}", f"no {', '.join(sorted(missing))}", "the manifest")
        return data

    def known(self, data: Mapping[str, Any], members: set[str], at: _At) -> None:
        """The checksum is right, so a member that is not known was meant: to leave it aside would be to read wrongly."""
        if others := sorted(data.keys() - members):
            at = at if isinstance(at, str) else show_keys(at)
            raise NewerFormatError(self.where, f"with {others[0][:40]!r} at {at}, which this one does not know")

    def leaves(self, data: list[Any]) -> tuple[Leaf, ...]:
        """Most leaves are arrays in a file: these are checked column by column, in half the time of `leaf` for each.

        `python -m benchmarks fast_paths` measures it.
        """
        common = [one for one in data if type(one) is dict and one.keys() == _IN_FILE]
        if not _are_arrays(common):
            return tuple(map(self.leaf, data))
        paths, shapes = ([tuple(one[key]) for one in common] for key in ("path", "shape"))
        dtypes, files = ([one[key] for one in common] for key in ("dtype", "file"))
        arrays = map(Leaf, paths, dtypes, shapes, files)
        if len(common) == len(data):
            return tuple(arrays)
        return tuple(next(arrays) if type(one) is dict and one.keys() == _IN_FILE else self.leaf(one) for one in data)

    def leaf(self, data: Any) -> Leaf:
        if type(data) is not dict:
            self.wrong("an object", type(data).__name__, "leaves")
        path = tuple(self.items(data.get("path"), "a leaf's path"))
        if not _all(str, path):
            self.wrong("strings", path, "a leaf's path")
        self.known(data, self.members, path)
        keys = data.keys()
        if keys == {"path", "file"} or (keys == {"path", "file", "int"} and data["int"] == "hex"):
            return Leaf(path, file=self.count(data["file"], path), is_hex="int" in keys)
        if keys not in (_IN_FILE, _CHUNKED, _COMPRESSED):
            self.wrong("a leaf", f"the keys {', '.join(sorted(data))}", path)
        if type(data["dtype"]) is not str or data["dtype"] not in BY_NAME:
            self.wrong("a dtype", data["dtype"], path)
        shape = self.shape(data["shape"], path)
        if "file" in data:
            return Leaf(path, data["dtype"], shape, self.count(data["file"], path))
        chunks = self.shape(data["chunks"], path)
        sums = tuple(self.items(data["checksums"], path))
        if (
            len(chunks) != len(shape)
            or 0 in chunks
            or 0 in shape
            or any(n % c for n, c in zip(shape, chunks, strict=True))
        ):
            self.wrong(f"chunks that divide {list(shape)}", list(chunks), path)
        leaf = Leaf(path, data["dtype"], shape, chunks=chunks, checksums=sums)
        if len(sums) != math.prod(leaf.grid) or not all(map(is_checksum, sums)):
            self.wrong(f"{math.prod(leaf.grid)} checksums", len(sums), path)
        return leaf if "codec" not in data else self.compressed(leaf, data["codec"], data["sizes"])

    def compressed(self, leaf: Leaf, codec: Any, sizes: Any) -> Leaf:
        if type(codec) is not str or codec not in CODECS:
            self.wrong(f"a codec of {', '.join(CODECS)}", codec, leaf.path)
        found = tuple(self.count(size, leaf.path) for size in self.items(sizes, leaf.path))
        if len(found) != len(leaf.checksums) or max(found) > leaf.chunk_bytes + _OVERHEAD:
            self.wrong(f"{len(leaf.checksums)} sizes of {leaf.chunk_bytes} bytes at most", list(found), leaf.path)
        return leaf._replace(codec=codec, sizes=found)

    def file(self, data: Any) -> File:
        if type(data) is dict:
            self.known(data, _FILE, "files")
        if type(data) is not dict or data.keys() != _FILE:
            self.wrong("name, size and checksum", data, "files")
        name = data["name"]
        if name != VALUES and (type(name) is not str or SMALL.match(name) is None):
            self.wrong("the name of a MessagePack file", name, "files")
        if not is_checksum(data["checksum"]):
            self.wrong("a checksum", data["checksum"], name)
        return File(name, self.count(data["size"], name), data["checksum"])

    def agree(self, files: tuple[File, ...], leaves: tuple[Leaf, ...]) -> None:
        """Names and paths are each there once, and no leaf lies inside another."""
        if len({file.name for file in files}) != len(files):
            self.wrong("each file once", "one twice", "files")
        seen = {leaf.path for leaf in leaves}
        if (longest := max(map(len, seen), default=0)) > MOST_KEYS:
            self.wrong(f"at most {MOST_KEYS} keys in a path", longest, "leaves")
        if len(seen) != len(leaves):
            twice = Counter(leaf.path for leaf in leaves).most_common(1)[0][0]
            self.wrong("each path once", f"{show_keys(twice)} twice", "leaves")
        # Each part is looked at and none is kept: of long paths there are many.
        for node in {path[:-1] for path in seen if path}:
            for depth in range(len(node) + 1):
                if (outer := node[:depth]) in seen:
                    inner = show_keys(min(path for path in seen if path[:depth] == outer and path != outer))
                    self.wrong("each path once", f"{inner} inside the leaf {show_keys(outer)}", "leaves")
        for leaf in leaves:
            if leaf.file is not None:
                if leaf.file >= len(files):
                    self.wrong(f"one of {len(files)} files", f"file {leaf.file}", show_keys(leaf.path))
                if (leaf.dtype is None) != (files[leaf.file].name == VALUES):
                    self.wrong("arrays and values in their own files", files[leaf.file].name, show_keys(leaf.path))

    def schema(self, data: Any, digest: Any) -> "Schema":
        from treaty.schema import Schema, SchemaError

        try:
            schema = Schema.from_json(json.dumps(data))
            found = schema.digest
        except NewerFormatError as error:
            raise NewerFormatError(self.where, f"its {str(error).partition(';')[0]}") from None
        except (SchemaError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self.wrong("a schema", error, "schema")
        if found != digest:
            self.wrong(f"digest {digest}", found, "schema")
        return schema

    def items(self, data: Any, at: _At) -> list[Any]:
        if type(data) is not list:
            self.wrong("an array", type(data).__name__, at)
        return data

    def map(self, data: Any, at: str) -> list[tuple[str, Any]]:
        if type(data[at]) is not dict:
            self.wrong("an object", type(data[at]).__name__, at)
        return list(data[at].items())

    def text(self, data: Any, at: _At) -> str:
        if type(data) is not str:
            self.wrong("a string", type(data).__name__, at)
        return data

    def matching(self, data: Any, form: "re.Pattern[str]", at: _At) -> str:
        if type(data) is not str or form.match(data) is None:
            self.wrong(f"a name like {form.pattern}", data, at)
        return data

    def count(self, data: Any, at: _At) -> int:
        if type(data) is not int or not 0 <= data < 1 << 63:
            self.wrong("a count", data, at)
        return data

    def shape(self, data: Any, at: _At) -> tuple[int, ...]:
        sizes = tuple(self.items(data, at))
        if not _all(int, sizes) or (sizes and not 0 <= min(sizes) <= max(sizes) < 1 << 63):
            self.wrong("a shape", list(sizes), at)
        return sizes


def _revisions(more: Any) -> dict[str, int]:
    """What is not as this version writes it is of another, and left aside: a schema is known without it."""
    said = more.get(_REVISIONS) if type(more) is dict else None
    return said if type(said) is dict and _all(int, list(said.values())) else {}


def upper_of(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """The upper halves of the checksums that a manifest has; as for revisions, what is not as it should be is left aside."""
    more = data.get(_MORE)
    said = more.get(_UPPER) if type(more) is dict else None
    if type(said) is not dict or not _all(list, list(said.values())):
        return {}
    return said if all(map(is_checksum, chain.from_iterable(said.values()))) else {}


def _leaf_to_data(leaf: Leaf) -> dict[str, Any]:
    if leaf.dtype is None:
        return {"path": leaf.path, "file": leaf.file, **({"int": "hex"} if leaf.is_hex else {})}
    if leaf.file is not None:
        return {"path": leaf.path, "dtype": leaf.dtype, "shape": leaf.shape, "file": leaf.file}
    return {
        "path": leaf.path,
        "dtype": leaf.dtype,
        "shape": leaf.shape,
        "chunks": leaf.chunks,
        "checksums": leaf.checksums,
        **({} if leaf.codec is None else {"codec": leaf.codec, "sizes": leaf.sizes}),
    }


def _are_arrays(data: list[dict[str, Any]]) -> bool:
    """Whether leaves with the keys of an array in a file all have values of the right kinds."""
    if not all(_all(list, [one[key] for one in data]) for key in ("path", "shape")):
        return False
    dtypes, files = [one["dtype"] for one in data], [one["file"] for one in data]
    sizes = [*files, *chain.from_iterable(one["shape"] for one in data)]
    return (
        _all(str, [*dtypes, *chain.from_iterable(one["path"] for one in data)])
        and BY_NAME.keys() >= set(dtypes)
        and _all(int, sizes)
        and (not sizes or 0 <= min(sizes) <= max(sizes) < 1 << 63)
    )


def _all(kind: type, items: Sequence[Any]) -> bool:
    return set(map(type, items)) <= {kind}


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text}, which is not JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)
