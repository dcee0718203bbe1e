"""Manifests are strict: what is written is read back equal, and nothing else is read."""

import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.directory.states import Linear, Train, linear
from treaty.runtime import CheckpointManager, CorruptCheckpointError, NewerFormatError
from treaty.runtime._trees import MOST_LEVELS
from treaty.runtime.directory import inspect, restore, verify
from treaty.runtime.formats.directory.checksum import checksum
from treaty.runtime.formats.directory.layout import chunk_name, chunk_number, chunk_shape, chunk_starts
from treaty.runtime.formats.directory.manifest import MOST_KEYS, File, Leaf, Manifest, data_of, parse, step_of
from treaty.schema import TreatyError, schema_of


def forged(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """A manifest with a right checksum and wrong contents."""
    data = json.loads(content)
    del data["checksum"]
    changed = change(data)
    text = json.dumps(data if changed is None else changed, separators=(",", ":")).encode()[:-1]
    return text + f',"checksum":"{checksum(text)}"}}\n'.encode()


def first_array(data: Any) -> Any:
    return next(leaf for leaf in data["leaves"] if "chunks" in leaf)


ATTACKS: dict[str, Callable[[Any], Any]] = {
    "climbs out of the directory": lambda data: data.update(data="../data-0000000000000000"),
    "an absolute path": lambda data: data.update(data="/etc"),
    "a newline after the name": lambda data: data.update(data=data["data"] + "\n"),
    "a file elsewhere": lambda data: data["files"][0].update(name="../values.msgpack"),
    "a file of another kind": lambda data: data["files"][0].update(name="treaty.json"),
    "a file twice": lambda data: data["files"].append(data["files"][0]),
    "a file that is not listed": lambda data: data["leaves"][0].update(file=99),
    "a negative file": lambda data: data["leaves"][0].update(file=-1),
    "true for a number": lambda data: data["leaves"][0].update(file=True),
    "a leaf twice": lambda data: data["leaves"].append(data["leaves"][0]),
    "a leaf inside a leaf": lambda data: data["leaves"][1].update(path=[*data["leaves"][0]["path"], "x"]),
    "a path of numbers": lambda data: data["leaves"][0].update(path=[0]),
    "a path that is text": lambda data: data["leaves"][0].update(path="step"),
    "a missing leaf": lambda data: data["leaves"].pop(0),
    "a dtype nobody knows": lambda data: first_array(data).update(dtype="object"),
    "a dtype that is a list": lambda data: first_array(data).update(dtype=[]),
    "another dtype": lambda data: first_array(data).update(dtype="int16"),
    "another shape": lambda data: first_array(data).update(shape=list(reversed(first_array(data)["shape"]))),
    "a shape of fractions": lambda data: first_array(data).update(shape=[1.5, 2]),
    "a negative shape": lambda data: first_array(data).update(shape=[-32, 8]),
    "a huge shape": lambda data: first_array(data).update(shape=[2**62, 2**62], chunks=[2**62, 2**62]),
    "an empty shape of many": lambda data: first_array(data).update(shape=[2**50, 0], chunks=[1, 1], checksums=[]),
    "chunks that do not divide": lambda data: first_array(data).update(chunks=[5, 8]),
    "chunks of nothing": lambda data: first_array(data).update(chunks=[0, 8]),
    "too few checksums": lambda data: first_array(data)["checksums"].pop(),
    "a checksum that is none": lambda data: first_array(data)["checksums"].__setitem__(0, "x" * 16),
    "a wrong checksum": lambda data: first_array(data)["checksums"].__setitem__(0, "0" * 16),
    "swapped checksums": lambda data: first_array(data)["checksums"].reverse(),
    "a wrong size": lambda data: data["files"][0].update(size=2**40),
    "a key too many": lambda data: data.update(extra=1),
    "a key too few": lambda data: data.pop("dims"),
    "a leaf with more keys": lambda data: data["leaves"][0].update(url="s3://x"),
    "a leaf that is a list": lambda data: data["leaves"].__setitem__(0, []),
    "leaves that are an object": lambda data: data.update(leaves={}),
    "dims that are text": lambda data: data.update(dims={"n": "1"}),
    "metadata that is a list": lambda data: data.update(metadata=[]),
    "another digest": lambda data: data.update(digest="sha256:" + "0" * 64),
    "another schema": lambda data: data["schema"]["classes"][0]["fields"].pop(),
    "no schema": lambda data: data.update(schema=None),
    "a schema without its root": lambda data: data["schema"].update(root="nowhere:Nothing"),
    "a list": lambda data: [data],
    "another kind of file": lambda data: data.update(treaty="file"),
    "a later version": lambda data: data.update(version=3),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_forged_manifest_is_refused(attack: Callable[[Any], Any], checkpoint: Path) -> None:
    manifest = checkpoint / "treaty.json"
    manifest.write_bytes(forged(manifest.read_bytes(), attack))
    with pytest.raises(TreatyError):
        restore(checkpoint, Train)
    with pytest.raises(TreatyError):
        verify(checkpoint)


def test_an_unchanged_manifest_passes_the_forger(checkpoint: Path) -> None:
    """The attacks fail for what they change, not for how they are written."""
    manifest = checkpoint / "treaty.json"
    assert forged(manifest.read_bytes(), lambda data: None) == manifest.read_bytes()


@given(st.binary(max_size=300))
def test_bytes_that_are_no_manifest_are_refused(content: bytes) -> None:
    signed = content + f',"checksum":"{checksum(content)}"}}\n'.encode()
    for attempt in (content, signed):
        with pytest.raises(CorruptCheckpointError):
            parse(attempt, "here")
        assert data_of(attempt) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in JSON data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(below for key, one in items for below in places(one, (*path, key)))]


@pytest.fixture(scope="module")
def sample() -> bytes:
    leaf = Leaf(("step",), "float32", (4, 4), chunks=(2, 4), checksums=("0" * 16, "1" * 16))
    files = (File("values.msgpack", 7, "0" * 16),)
    return Manifest(
        "data-0123456789abcdef", schema_of(Train), {"n": 1}, {}, files, (leaf, Leaf(("x",), file=0))
    ).to_bytes()


@given(data=st.data())
@settings(max_examples=200)
def test_a_manifest_with_anything_anywhere_is_read_or_refused(data: st.DataObject, sample: bytes) -> None:
    """One value replaced, and the checksum made right: never another exception than Treaty's own."""
    content = json.loads(sample)
    *outer, last = data.draw(st.sampled_from(places(content)[1:]))
    value = data.draw(json_values)

    def change(manifest: Any) -> None:
        for key in outer:
            manifest = manifest[key]
        manifest[last] = value

    if [*outer, last] == ["checksum"]:
        return
    with suppress(TreatyError):
        parse(forged(sample, change), "here")


def test_deep_nesting_is_refused() -> None:
    deep = b'{"treaty":' + b"[" * 200_000
    with pytest.raises(CorruptCheckpointError, match="at the manifest of here"):
        parse(deep + f',"checksum":"{checksum(deep)}"}}\n'.encode(), "here")


def test_a_later_version_says_so(checkpoint: Path) -> None:
    manifest = checkpoint / "treaty.json"
    manifest.write_bytes(forged(manifest.read_bytes(), lambda data: data.update(version=3)))
    newer = r"checkpoint: written by a newer Treaty \(directory format 3, this one reads up to 2\); upgrade treaty$"
    readers: list[Callable[[Path], Any]] = [inspect, verify, lambda path: restore(path, Train)]
    for read in readers:
        with pytest.raises(NewerFormatError, match=newer):
            read(checkpoint)
    assert (
        data_of(manifest.read_bytes()) is not None
    )  # so that a save over it leaves its data alone until it is replaced


NEWER: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a member": (lambda data: data.update(extra=1), "with 'extra' at the manifest, which this one does not know"),
    "a member of a leaf": (lambda data: data["leaves"][0].update(codec="zstd"), "with 'codec' at $"),
    "a member of an array": (lambda data: first_array(data).update(codec="zstd"), "with 'codec' at $"),
    "a member of a file": (lambda data: data["files"][0].update(codec="zstd"), "with 'codec' at files, which"),
    "a schema format": (
        lambda data: data["schema"].update(treaty=2),
        "(its schema: written by a newer Treaty (format 2,",
    ),
    "a member of a class": (
        lambda data: data["schema"]["classes"][0].update(sealed=[]),
        "with 'sealed' in a class",
    ),
    "a member of a field": (
        lambda data: data["schema"]["classes"][0]["fields"][0].update(unit=[]),
        "with 'unit' in a field",
    ),
    "a kind of type": (
        lambda data: data["schema"]["classes"][0]["fields"][0]["type"].update(kind="ragged"),
        "a type of kind 'ragged'",
    ),
    "a kind of class": (
        lambda data: data["schema"]["classes"][0].update(kind="pydantic"),
        "a class of kind 'pydantic'",
    ),
}


@pytest.mark.parametrize("case", NEWER)
def test_what_is_not_known_was_written_by_a_newer_treaty(case: str, checkpoint: Path) -> None:
    change, said = NEWER[case]
    manifest = checkpoint / "treaty.json"
    manifest.write_bytes(forged(manifest.read_bytes(), change))
    with pytest.raises(NewerFormatError, match=r"written by a newer Treaty .*; upgrade treaty$") as caught:
        verify(checkpoint)
    assert said in str(caught.value)


def test_what_a_reader_may_ignore_is_ignored(checkpoint: Path) -> None:
    manifest = checkpoint / "treaty.json"
    manifest.write_bytes(forged(manifest.read_bytes(), lambda data: data.update(more={"host": "a"})))
    restore(checkpoint, Train)
    verify(checkpoint)


names = st.text(max_size=5)
shapes = st.lists(st.integers(1, 50), max_size=4).map(tuple)


@st.composite
def leaves(draw: st.DrawFn, path: tuple[str, ...]) -> Leaf:
    shape = draw(shapes)
    kind = draw(st.sampled_from(["value", "huge", "small", "large"]))
    if kind in ("value", "huge"):
        return Leaf(path, file=0, is_hex=kind == "huge")
    if kind == "small":
        return Leaf(path, "bfloat16", shape, file=1)
    leaf = Leaf(path, "float32", shape, chunks=chunk_shape(shape, 4, draw(st.integers(1, 4000))))
    count = 1
    for axis in leaf.grid:
        count *= axis
    return Leaf(path, "float32", shape, chunks=leaf.chunks, checksums=tuple(f"{i:016x}" for i in range(count)))


@settings(max_examples=40)
@given(st.data())
def test_what_is_written_is_read_back_equal(data: st.DataObject) -> None:
    keys = data.draw(st.lists(names, unique=True, max_size=6))
    files = (File("values.msgpack", 7, "0" * 16), File("small-0.msgpack", 2**40, "f" * 16))
    manifest = Manifest(
        data="data-0123456789abcdef",
        schema=schema_of(Train),
        dims=data.draw(st.dictionaries(names, st.integers(0, 2**40), max_size=3)),
        metadata=data.draw(
            st.dictionaries(names, st.none() | st.floats(allow_nan=False, allow_infinity=False) | names)
        ),
        files=files,
        leaves=tuple(data.draw(leaves((key, "x"))) for key in keys),
    )
    content = manifest.to_bytes()
    assert parse(content, "here") == manifest
    assert data_of(content) == "data-0123456789abcdef"
    json.loads(content)  # for everybody


@given(st.lists(st.integers(1, 300), max_size=4), st.sampled_from([1, 2, 4, 8]), st.integers(1, 5000))
def test_chunks_divide_the_array_and_are_numbered_in_order(shape: list[int], itemsize: int, limit: int) -> None:
    chunks = chunk_shape(shape, itemsize, limit)
    assert all(size % chunk == 0 for size, chunk in zip(shape, chunks, strict=True))
    leaf = Leaf((), "uint8", tuple(shape), chunks=chunks)
    count = 1
    for axis in leaf.grid:
        count *= axis
    if count < 2000:
        leaf = Leaf((), "uint8", tuple(shape), chunks=chunks, checksums=("0" * 16,) * count)
        assert [chunk_number(leaf, start) for start, *_ in chunk_starts(leaf)] == list(range(count))


def test_chunks_are_as_large_as_the_limit_allows() -> None:
    assert chunk_shape((4096, 1024), 4, 2**25) == (4096, 1024)
    assert chunk_shape((50257, 768), 4, 2**25) == (1733, 768)
    assert chunk_shape((7, 4096), 4, 7 * 1024 * 4) == (1, 4096)
    assert chunk_shape((10007, 64), 1, 10007 * 32) == (10007, 32)  # 10007 is prime
    assert chunk_name((0, 3)) == "c.0.3"


@pytest.mark.parametrize(
    "metrics", [{"more": 2.0}, {"loss": 1.0, "more": 2.0}, {"loss": 1.0, "more": 2.0, "step": 3.0}]
)
def test_a_metric_may_have_the_name_of_a_member_of_the_manifest(metrics: dict[str, float], tmp_path: Path) -> None:
    state = linear(2, 3)
    with CheckpointManager(tmp_path / "run", Linear, keep_last=1) as manager:
        manager.save(1, state, metrics=metrics)
        manager.wait()
        assert manager.metrics(1) == metrics
        manager.save(2, state)
        manager.wait()
        assert manager.all_steps() == [2]


def test_what_a_manager_notes_is_in_the_manifest_itself_and_in_no_object_inside(checkpoint: Path) -> None:
    alike = [{"x": 0, "more": {"step": {"step": 7}}}] * 50_000
    content = forged((checkpoint / "treaty.json").read_bytes(), lambda data: data.update(more={}, later=alike))
    assert step_of(content) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda leaves: leaves.append(leaves[0]), r"expected each path once, got \$\.step twice at leaves"),
        (lambda leaves: leaves[0].update(path=["params"]), r"got \$\.params\.\S+ inside the leaf \$\.params at leaves"),
        (lambda leaves: leaves[0].update(path=["a"] * 401), r"expected at most 400 keys in a path, got 401 at leaves"),
    ],
)
def test_which_path_is_wrong_is_said(change: Callable[[Any], Any], message: str, checkpoint: Path) -> None:
    content = (checkpoint / "treaty.json").read_bytes()
    with pytest.raises(CorruptCheckpointError, match=message):
        parse(forged(content, lambda data: change(data["leaves"])), "here")
    assert MOST_KEYS == MOST_LEVELS


def test_a_path_of_very_many_keys_takes_no_more_memory_than_its_manifest(checkpoint: Path) -> None:
    content = (checkpoint / "treaty.json").read_bytes()
    long = forged(content, lambda data: data["leaves"][0].update(path=[""] * 20_000))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCheckpointError, match="expected at most 400 keys in a path, got 20000"):
            parse(long, "here")
        assert tracemalloc.get_traced_memory()[1] < 100 * len(long)
    finally:
        tracemalloc.stop()
