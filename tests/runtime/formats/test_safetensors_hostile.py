"""Damaged and hostile safetensors files: one clear error each, and no memory for what a file only claims."""

import json
import re
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import numpy as library

from treaty.runtime import CorruptCheckpointError
from treaty.runtime.formats import safetensors as format
from treaty.runtime.formats.safetensors import header as head
from treaty.schema import TreatyError

A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file_of(header: Any, size: int = 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * size


def note(value: Any) -> dict[str, Any]:
    return {"__metadata__": {"treaty": value if isinstance(value, str) else json.dumps(value)}, "a": A}


def a(**changes: Any) -> dict[str, Any]:
    return {"a": {**A, **changes}}


BAD = {
    "no length": (b"\1\0\0", "expected 8 bytes with the length of the header, got 3"),
    "huge header": (struct.pack("<Q", 2**63) + b"{}", f"expected a header of at most 2 bytes, got {2**63}"),
    "header beyond the end": (file_of({}, 0)[:-1], "expected a header of at most 1 bytes, got 2"),
    "no JSON": (file_of(b"{nope"), "expected a header in JSON, got Expecting property name"),
    "no UTF-8": (file_of(b'{"\xff"}'), "expected a header in JSON, got 'utf-8' codec can't decode"),
    "a list": (file_of(b"[]", 0), "expected a header that begins with '{', got b'['"),
    "space first": (file_of(b" {}", 0), "expected a header that begins with '{', got b' '"),
    "rest after JSON": (file_of(b"{}x", 0), "expected a header in JSON, got Extra data"),
    "NaN": (file_of(b'{"a":NaN}'), "expected JSON, got NaN"),
    "endless number": (file_of(b'{"a":' + b"9" * 5000 + b"}"), "expected a header in JSON, got Exceeds the limit"),
    "nesting": (file_of(b'{"a":' * 100_000), "expected a header in JSON, got maximum recursion depth"),
    "a name twice": (file_of(b'{"a":1,"b":1,"a":1}'), "expected each name once, got 'a' again"),
    "a field twice": (file_of(b'{"a":{"dtype":"F32","dtype":"F16"}}'), "expected each name once, got 'dtype' again"),
    "no fields": (file_of({"a": 1}), "expected dtype, shape and data_offsets, got something else at 'a'"),
    "metadata of numbers": (
        file_of({"__metadata__": {"x": 1}, "a": A}),
        "expected text by name, got something else at",
    ),
    "metadata as a list": (file_of({"__metadata__": [], "a": A}), "expected text by name, got something else at"),
    "unknown dtype": (file_of(a(dtype="F4")), ", got F4 at 'a'"),
    "dtype as a list": (file_of(a(dtype=["F32"])), ", got ['F32'] at 'a'"),
    "negative length": (file_of(a(shape=[-2])), "expected a shape, got [-2] at 'a'"),
    "bool as length": (file_of(a(shape=[True, 2])), "expected a shape, got [True, 2] at 'a'"),
    "float as length": (file_of(a(shape=[2.0])), "expected a shape, got [2.0] at 'a'"),
    "too many axes": (file_of(a(shape=[1] * 65 + [2])), "expected a shape, got [1, 1,"),
    "overflow beside 0": (file_of(a(shape=[0, 2**62], data_offsets=[0, 0]), 0), "expected a shape, got [0, 4611686"),
    "overflow": (file_of(a(shape=[2**32, 2**32])), "expected a shape, got [4294967296, 4294967296] at 'a'"),
    "wrong length": (file_of(a(shape=[3])), "expected 12 bytes for F32[3], got 8 at 'a'"),
    "offsets backwards": (file_of(a(data_offsets=[8, 0])), "expected data_offsets [begin, end], got [8, 0] at 'a'"),
    "three offsets": (file_of(a(data_offsets=[0, 8, 8])), "expected data_offsets [begin, end], got [0, 8, 8] at 'a'"),
    "offsets as text": (file_of(a(data_offsets="08")), "expected data_offsets [begin, end], got 08 at 'a'"),
    "hole at the start": (
        file_of(a(data_offsets=[4, 12]), 12),
        "expected data from byte 0 on, got a gap at byte 4, 'a'",
    ),
    "hole": (
        file_of({**a(), "b": {**A, "data_offsets": [12, 20]}}, 20),
        "expected data from byte 8 on, got a gap at byte 12, 'b'",
    ),
    "overlap": (
        file_of({**a(), "b": {**A, "data_offsets": [4, 12]}}, 12),
        "expected data from byte 8 on, got an overlap at byte 4, 'b'",
    ),
    "shared": (file_of({**a(), "b": A}), "expected data from byte 8 on, got an overlap at byte 0, 'b'"),
    "cut off": (file_of(a(), 7), "expected 8 bytes of data, got 7"),
    "rest": (file_of(a(), 9), "expected 8 bytes of data, got 9"),
    "rest of nothing": (file_of({}, 1), "expected 0 bytes of data, got 1"),
}
BAD_TREES = {
    "two at a place": ({"a": A, "a.b": {**A, "data_offsets": [8, 16]}}, "expected one value a place, got two"),
    "depth": ({"." * 500: A}, "expected at most 400 levels, got 501"),
    "note no JSON": (note("[]"), "expected a note that begins with '{'"),
    "values as text": (note({"values": "x"}), "expected values, paths and dtypes, got something else"),
    "path as text": (note({"values": [["x", 1]]}), "expected values, paths and dtypes, got something else"),
    "empty path": (note({"paths": {"a": []}}), "expected values, paths and dtypes, got something else"),
    "dtype as number": (note({"dtypes": {"a": 1}}), "expected values, paths and dtypes, got something else"),
    "value over a tensor": (note({"values": [[["a"], 1]]}), "expected one value a place, got two at $.a"),
    "value below a tensor": (note({"values": [[["a", "b"], 1]]}), "got two on the way to $.a.b"),
    "value as list": (note({"values": [[["v"], [1]]]}), "expected a value, got [1] at $.v"),
    "unknown kind": (note({"values": [[["v"], {"eval": "1"}]]}), "expected a value, got {'eval': '1'} at $.v"),
    "bad base64": (note({"values": [[["v"], {"bytes": "!"}]]}), "expected a value, got {'bytes': '!'} at $.v"),
    "bad float": (note({"values": [[["v"], {"float": 10**400}]]}), "expected a value, got {'float': 1000"),
    "bad numpy": (note({"values": [[["v"], {"numpy": ["object", ""]}]]}), "expected a value, got {'numpy': "),
    "full dict": (note({"values": [[["v"], {"dict": {"a": 1}}]]}), "expected a value, got {'dict': "),
    "bits of another size": (note({"dtypes": {"a": "int4"}}), "expected bits of int4, got float32[2] at 'a'"),
    "bits of no dtype": (note({"dtypes": {"a": "object"}}), "expected bits of object, got float32[2] at 'a'"),
    "bits of a scalar": (note({"dtypes": {"a": "complex128"}}), "expected bits of complex128, got float32[2] at 'a'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_its_place(case: str, tmp_path: Path) -> None:
    data, message = BAD[case]
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=re.escape(message)) as caught:
        format.load(path)
    assert str(caught.value).endswith(f" in {path}")
    assert len(str(caught.value)) < 500 + len(str(path))


@pytest.mark.parametrize("case", BAD_TREES)
def test_names_and_notes_that_make_no_tree_are_refused(case: str, tmp_path: Path) -> None:
    header, message = BAD_TREES[case]
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of(header, 8 * sum(name != "__metadata__" for name in header)))
    with pytest.raises(CorruptCheckpointError, match=re.escape(message)):
        format.load(path)


def test_no_claim_of_a_file_takes_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for header in (a(shape=[2**40], data_offsets=[0, 2**42]), a(shape=[2**58]), a(shape=[0, 2**58])):
        path.write_bytes(file_of(header))
        tracemalloc.start()
        with pytest.raises(CorruptCheckpointError):
            format.load(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000


@given(st.data())
def test_a_changed_byte_gives_a_tree_or_a_treaty_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "m.safetensors"
    format.dump(path, {"a": np.ones(2, np.float32), "b": {"c": 1.5, "d.e": np.zeros(3, np.int8)}})
    contents = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(contents[: data.draw(st.integers(0, len(contents))) if data.draw(st.booleans()) else None])
    with suppress(TreatyError):
        format.load(path)


SHARD = "m-00001-of-00001.safetensors"
BAD_INDEXES = {
    "another directory": ({"a": "../m.safetensors"}, "expected a file beside the index, got '../m.safetensors' at 'a'"),
    "a subdirectory": ({"a": f"sub/{SHARD}"}, "expected a file beside the index, got 'sub/"),
    "an absolute path": ({"a": "/etc/passwd.safetensors"}, "expected a file beside the index, got '/etc/passwd"),
    "a drive": ({"a": "c:m.safetensors"}, "expected a file beside the index, got 'c:m.safetensors'"),
    "backslashes": ({"a": "..\\m.safetensors"}, "expected a file beside the index, got "),
    "a NUL": ({"a": "m\0.safetensors"}, "expected a file beside the index, got "),
    "another kind of file": ({"a": "passwd"}, "expected a file beside the index, got 'passwd'"),
    "no text": ({"a": 1}, "expected a file beside the index, got 1 at 'a'"),
    "a missing shard": ({"a": "gone.safetensors"}, "expected the shard 'gone.safetensors', got no such file, named in"),
    "a missing tensor": ({"a": SHARD, "b": SHARD}, f"expected in '{SHARD}' what the index says, got 'b' missing in it"),
    "another tensor": ({"b": SHARD}, f"expected in '{SHARD}' what the index says, got 'a' also in it"),
    "no map": ([], "expected metadata and weight_map, got something else"),
}


@pytest.mark.parametrize("case", BAD_INDEXES)
def test_a_bad_index_is_refused(case: str, tmp_path: Path) -> None:
    weight_map, message = BAD_INDEXES[case]
    (tmp_path / SHARD).write_bytes(file_of(a()))
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": weight_map}))
    with pytest.raises(CorruptCheckpointError, match=re.escape(message)) as caught:
        format.load(tmp_path / "m.safetensors")
    assert str(index) in str(caught.value)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    format.dump(tmp_path / "m.safetensors", {"a": np.ones(4), "b": np.ones(4)}, max_shard_bytes=32)
    (shard,) = tmp_path.glob("m-*-00002-of-00002.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(CorruptCheckpointError, match=rf"expected 32 bytes of data, got 31 in .*{shard.name}"):
        format.load(tmp_path / "m.safetensors")


def test_an_index_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "m.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}')
    with pytest.raises(CorruptCheckpointError, match="expected each name once, got 'a' again in"):
        format.load(index)
    index.write_text("")
    with pytest.raises(CorruptCheckpointError, match="expected an index that begins with"):
        format.load(index)


DTYPES = st.sampled_from(["F32", "U8", "BF16", "F64", "NOPE", "BOOL"])
PIECES = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "a",
        "0",
        "1",
        "-",
        " ",
        "null",
        "\\u003a",
        '"a":1,',
        '"dtype":"F32",',
        "NaN",
    ]
)


@st.composite
def headers(draw: st.DrawFn) -> str:
    """Headers as the library writes them, mostly sound, some with a place, a name or a few characters changed."""
    rows, end = [], 0
    for name in draw(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=4)):
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        dtype = draw(DTYPES)
        size = int(np.prod(shape)) * {"F32": 4, "BF16": 2, "F64": 8}.get(dtype, 1)
        begin = end + draw(st.sampled_from([0] * 9 + [1]))
        end = begin + size
        fields = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        rows.append(f"{json.dumps(name, ensure_ascii=draw(st.booleans()))}:{json.dumps(fields, separators=(',', ':'))}")
    rows = draw(st.permutations(rows))
    if draw(st.booleans()):
        metadata = draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
        rows.insert(0, f'"__metadata__":{json.dumps(metadata, separators=(",", ":"))}')
    text = "{" + ",".join(rows) + "}" + " " * draw(st.integers(0, 2))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at, cut = draw(st.integers(0, len(text))), draw(st.integers(0, 2))
        text = text[:at] + draw(PIECES) + text[at + cut :]
    return text


@given(headers(), st.integers(0, 64))
def test_reading_by_columns_gives_what_reading_one_by_one_gives_or_nothing(text: str, size: int) -> None:
    data = text.encode()

    quick = head._read_quickly(data, 8 + len(data), 8 + len(data) + size)

    if quick is not None:
        (names, *columns), metadata = quick
        (expected, *others), text_by_name = head._read_strictly(data, 8 + len(data), 8 + len(data) + size)
        assert [list(names), *map(list, columns), metadata] == [list(expected), *map(list, others), text_by_name]


@pytest.mark.parametrize("metadata", [{}, {"format": "pt", "treaty": '{"a:b":[1,"\\u00e4"]}'}])
def test_sound_files_are_read_by_columns(metadata: dict[str, str], tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"a.b": np.ones((2, 3), np.float32), "ä:c": np.zeros((0, 2), np.int8), "d": np.array(1.5)}
    library.save_file(arrays, tmp_path / "a.safetensors", metadata=metadata or None)
    format.dump(tmp_path / "b.safetensors", arrays)

    for path in tmp_path.iterdir():
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        assert head._read_quickly(data[8:start], start, len(data)) is not None


@pytest.mark.parametrize("names", [[".x", "x"], ["x", ".x"], ["a.", "a.b"], ["..x", ".x", "x"]])
def test_names_of_dots_and_nothing_are_keys_like_others(names: list[str], tmp_path: Path) -> None:
    library.save_file({name: np.full(1, i) for i, name in enumerate(names)}, tmp_path / "a.safetensors")

    tree, _ = format.load(tmp_path / "a.safetensors")

    for i, name in enumerate(names):
        node: Any = tree
        for key in name.split("."):
            node = node[key]
        assert node == i
