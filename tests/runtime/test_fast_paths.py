"""Shortcuts beside the plain ways that they replace: the same results, and the same errors.

Those of MessagePack have files of their own: test_msgpack_runs.py, test_msgpack_maps.py, test_msgpack_agreement.py and
formats/test_join.py; Flax's import is in tests/compat/test_import_order.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jax import Array
from jaxtyping import Float32

from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, TreatyError, restore, save
from treaty.runtime._convert.convert import convert
from treaty.runtime._state import instances
from treaty.runtime._storage import memory, system
from treaty.runtime.formats.directory import manifest
from treaty.runtime.formats.safetensors import header
from treaty.schema import state

MIB = 2**20
CALLS = ("_madvise", "_sync_file_range", "_renameat2", "_malloc_trim")


@state
class Model:
    layers: list[Float32[Array, "a b"]]


load(Model)


def model(value: float = 1) -> Model:
    return Model(layers=[jnp.full((1024, 600), value + i, jnp.float32) for i in range(3)])  # 2.3 MiB each


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except TreatyError as error:
        return type(error), str(error)


# Huge pages


@pytest.mark.parametrize("size", [0, 4, 2 * MIB - 4, 2 * MIB, 2 * MIB + 4, 5 * MIB, 32 * MIB - 4, 32 * MIB])
def test_new_memory_is_the_same_however_it_was_asked_for(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(size // 4, dtype=np.int32).reshape(-1, 1).T
    mapped = memory.copied(array)
    monkeypatch.setattr(memory, "_CAN_MAP", False)
    allocated = memory.copied(array)

    for one in (mapped, allocated):
        same(one, array)
        assert one.flags.writeable
        assert one.flags.c_contiguous
        assert one.size == 0 or one.ctypes.data % 64 == 0


def test_memory_that_is_not_there_is_told_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise MemoryError("no more")

    for name in ("_mapped", "_allocated"):
        monkeypatch.setattr(memory, name, fail)
    for size in (1, 4 * MIB, 64 * MIB):
        with pytest.raises(TreatyError, match=rf"^expected memory for int8\[{size}\], got no more$"):
            memory.aligned((size,), np.dtype(np.int8))


# System calls


@pytest.mark.parametrize("missing", [*CALLS, "all"])
def test_without_a_system_call_the_same_is_stored(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "with.msgpack", model())
    for name in CALLS if missing == "all" else (missing,):
        monkeypatch.setattr(system, name, None)

    save(tmp_path / "without.msgpack", model())
    save(tmp_path / "run", model(7))
    convert(tmp_path / "without.msgpack", tmp_path / "run", replace=True)  # a directory in the place of another
    convert(tmp_path / "run", tmp_path / "back.safetensors")

    assert (tmp_path / "without.msgpack").read_bytes() == (tmp_path / "with.msgpack").read_bytes()
    for name in ("without.msgpack", "run", "back.safetensors"):
        same(restore(tmp_path / name, Model), model())
    assert {one.name for one in tmp_path.iterdir()} == {"with.msgpack", "without.msgpack", "run", "back.safetensors"}


def test_names_are_exchanged_or_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")

    done = system.exchange(one, other)

    assert (one.read_text(), other.read_text()) == (("2", "1") if done else ("1", "2"))
    before = one.read_text(), other.read_text()
    monkeypatch.setattr(system, "_renameat2", None)
    assert not system.exchange(one, other)
    assert (one.read_text(), other.read_text()) == before


# Columns

NAMES = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["a.b", 'quo"te', "back\\slash", "\x00", "é"]
)
TENSORS = st.dictionaries(
    NAMES.filter(lambda name: name != header.METADATA),
    st.tuples(
        st.sampled_from(["F32", "BF16", "U8", "F64", "BOOL"]), st.lists(st.integers(0, 3), max_size=3).map(tuple)
    ),
    max_size=6,
)
METADATA = st.dictionaries(NAMES, NAMES, max_size=2)
EDITS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([b"", b"0", b"1", b",", b"}", b'"', b" ", b"-", b"F"])), max_size=2
)


def edited(text: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    for place, byte in edits:
        at = place % (len(text) + 1)
        text = text[:at] + byte + text[at + 1 :]
    return text


@given(TENSORS, METADATA, EDITS)
@example({"a": ("F32", (2,))}, {}, [])
def test_a_header_read_by_columns_is_the_one_read_tensor_by_tensor(
    tensors: dict[str, tuple[str, tuple[int, ...]]], metadata: dict[str, str], edits: list[tuple[int, bytes]]
) -> None:
    head, order = header.render(tensors, metadata)
    sizes = {"F32": 4, "BF16": 2, "U8": 1, "F64": 8, "BOOL": 1}
    size = sum(int(np.prod(tensors[name][1])) * sizes[tensors[name][0]] for name in order)
    text = edited(head[8:], edits)

    quickly = header._read_quickly(text, 8 + len(text), 8 + len(text) + size)

    strictly = outcome(header._read_strictly, text, 8 + len(text), 8 + len(text) + size)
    if quickly is not None:
        assert [list(column) for column in quickly[0]] == [list(column) for column in strictly[0]]
        assert quickly[1] == strictly[1]


def test_a_header_as_the_library_writes_it_is_read_by_columns() -> None:
    head, _ = header.render({f"layers.{i}.w": ("F32", (4, i)) for i in range(9)}, {"format": "pt"})
    assert header._read_quickly(head[8:], len(head), len(head) + 16 * 36) is not None


LEAF = {"path": ["a"], "dtype": "float32", "shape": [4], "file": 0}
WRONG: list[Any] = [None, True, -1, 2**63, "x", 1.0, [], ["a"], [True], [-1], [2**63], {}, ["a", 0]]


@given(
    st.lists(st.tuples(st.sampled_from([*LEAF, "more", "leave out"]), st.sampled_from(WRONG)), max_size=2),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_leaves_read_by_columns_are_those_read_one_by_one(
    changes: list[tuple[str, Any]], before: int, after: int
) -> None:
    leaf: Any = dict(LEAF)
    for key, value in changes:
        if key == "leave out":
            leaf.pop(str(value), None)
        else:
            leaf[key] = value
    others = [{**LEAF, "path": ["b", str(i)]} for i in range(before + after)]
    leaves = json.loads(json.dumps([*others[:before], leaf, {"path": ["v"], "file": 1}, *others[before:]]))
    parser = manifest._Parser("here")

    assert outcome(parser.leaves, leaves) == outcome(lambda: tuple(map(parser.leaf, leaves)))


def test_leaves_that_are_no_objects_are_told_alike() -> None:
    wrong: Any
    for wrong in (None, [], "x", 3):
        with pytest.raises(CorruptCheckpointError, match=r"^expected an object, got"):
            manifest._Parser("here").leaves([LEAF, wrong])


# Instances


@attrs.frozen
class Plain:
    a: Any
    _b: Any = 3


@attrs.frozen(slots=False, cache_hash=True)
class Hashed(Plain):
    c: Any = None


@pytest.mark.parametrize("cls", [Plain, Hashed])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_instances_made_by_columns_or_one_by_one_are_those_of_init(cls: Any, count: int) -> None:
    names = [one.name for one in attrs.fields(cls)]
    aliases = [str(one.alias) for one in attrs.fields(cls)]
    rows = [[f"{name}{i}" for name in names] for i in range(count)]
    expected = [cls(**dict(zip(aliases, row, strict=True))) for row in rows]
    columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}

    made = instances.many(cls, columns, count)
    make = instances.constructor(cls)

    assert made == expected == [make(**dict(zip(aliases, row, strict=True))) for row in rows]
    assert list(map(hash, made)) == list(map(hash, expected))
    assert list(map(repr, made)) == list(map(repr, expected))
