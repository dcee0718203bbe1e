"""Keys, depths and bits that a format would lose: kept where it can be, refused where it cannot."""

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.serialization
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from jax import Array
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import (
    CorruptCheckpointError,
    InvalidArgumentError,
    NewerFormatError,
    from_bytes,
    restore,
    save,
    save_async,
    serialization,
    to_bytes,
)
from treaty.runtime._convert.convert import convert
from treaty.runtime.formats import msgpack, npz, orbax
from treaty.runtime.formats import safetensors as ours
from treaty.schema import TreatyError, state

CHUNKED = "__msgpack_chunked_array__"


@state
class Chain:
    n: int
    next: "Chain | None" = None


@state
class Item:
    w: Float32[Array, "d"]


@state
class Listed:
    items: list[dict[str, Item]]


@state
class Table:
    rows: dict[str, int]


@state
class Mixed:
    rest: Any
    rate: float
    pair: complex


for cls in (Chain, Table, Mixed, Listed):
    load(cls)

WRITERS: dict[str, Callable[[Path, Any], object]] = {
    "x.msgpack": save,
    "x.safetensors": save,
    "directory": save,
    "x.npz": npz.write,
    "orbax": orbax.write,
}


def chain(length: int) -> Chain:
    found = Chain(n=0)
    for n in range(1, length):
        found = Chain(n=n, next=found)
    return found


def depth(found: Chain | None) -> int:
    count = 0
    while found is not None:
        count, found = count + 1, found.next
    return count


@pytest.mark.parametrize("name", WRITERS)
def test_a_tree_that_is_saved_is_not_too_deep_to_be_restored(name: str, tmp_path: Path) -> None:
    with pytest.raises(TreatyError, match="expected at most 256 levels, got"):
        WRITERS[name](tmp_path / name, chain(257))
    assert not list(tmp_path.iterdir())
    WRITERS[name](tmp_path / name, chain(256))
    assert depth(restore(tmp_path / name, Chain)) == 256


def test_alike_items_count_as_deep_as_they_lie() -> None:
    tree: Any = {"w": np.ones(2, np.float32)}
    for _ in range(255):
        tree = {"a": tree}
    with pytest.raises(ValueError, match="at most 256 levels"):
        msgpack.pack({"deep": tree})


@pytest.mark.parametrize("suffix", [".msgpack", ".msgpack.gz", ".msgpack.zst"])
def test_the_key_of_arrays_in_parts_is_refused(suffix: str, tmp_path: Path) -> None:
    for rows in ({CHUNKED: 1}, {CHUNKED: 1, "shape": 2, "chunks": 3}):
        with pytest.raises(TreatyError, match=f"expected other keys than '{CHUNKED}'"):
            save(tmp_path / f"x{suffix}", Table(rows=rows))
        with pytest.raises(TreatyError, match=f"expected other keys than '{CHUNKED}'"):
            to_bytes(Table(rows=rows))
    assert not list(tmp_path.iterdir())


def test_the_key_of_arrays_in_parts_in_alike_items_is_refused() -> None:
    item = {CHUNKED: Item(w=jnp.ones(2))}
    with pytest.raises(TreatyError, match=f"expected other keys than '{CHUNKED}'"):
        to_bytes(Listed(items=[item] * 20))


@pytest.mark.parametrize("name", ["x.safetensors", "directory", "x.npz", "orbax"])
def test_formats_without_such_a_mark_keep_the_key(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, Table(rows={CHUNKED: 1}))
    assert restore(tmp_path / name, Table).rows == {CHUNKED: 1}
    with pytest.raises(TreatyError, match=f"expected other keys than '{CHUNKED}'"):
        convert(tmp_path / name, tmp_path / "converted.msgpack")
    assert not (tmp_path / "converted.msgpack").exists()


def test_what_has_no_form_in_messagepack_is_not_converted_to_it(tmp_path: Path) -> None:
    save(tmp_path / "x", Table(rows={"\ud800": 1}))
    assert restore(tmp_path / "x", Table).rows == {"\ud800": 1}
    with pytest.raises(TreatyError, match=r"expected what MessagePack can hold, got .*surrogates"):
        convert(tmp_path / "x", tmp_path / "converted.msgpack")
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_the_drop_in_module_writes_the_key_as_flax_does(tmp_path: Path) -> None:
    tree = {CHUNKED: True, "shape": {"0": 2}, "chunks": {"0": np.arange(2)}}
    assert serialization.to_bytes(tree) == flax.serialization.to_bytes(tree)
    assert serialization.msgpack_serialize(tree) == flax.serialization.msgpack_serialize(tree)
    serialization.save_to_file(tree, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == flax.serialization.to_bytes(tree)
    np.testing.assert_array_equal(serialization.msgpack_restore(serialization.to_bytes(tree)), np.arange(2))


def nan(bits: int) -> float:
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def bits(*values: float) -> list[bytes]:
    return [struct.pack(">d", value) for value in values]


def mixed() -> Mixed:
    rest = {
        "z": 1,
        "w": np.ones(2, np.float32),
        "a": {"e": {}, "b": np.zeros(1, np.int8)},
        "m": nan(0x7FF8000000000001),
    }
    return Mixed(rest=rest, rate=nan(0xFFF8000000000123), pair=complex(-0.0, nan(0x7FF8000000000002)))


@pytest.mark.parametrize("name", WRITERS)
def test_the_order_of_dicts_and_the_bits_of_nans_are_kept(name: str, tmp_path: Path) -> None:
    value = mixed()
    WRITERS[name](tmp_path / name, value)
    restored = restore(tmp_path / name, Mixed, into="numpy")
    assert bits(restored.rate, restored.rest["m"]) == bits(value.rate, value.rest["m"])
    assert bits(restored.pair.real, restored.pair.imag) == bits(value.pair.real, value.pair.imag)
    if name != "orbax":  # which has no order of its own, as JAX has none
        assert list(restored.rest) == list(value.rest)
        assert list(restored.rest["a"]) == ["e", "b"]


@pytest.mark.parametrize("shard", [None, 4])
def test_what_is_noted_in_safetensors_hinders_no_other_reader(shard: int | None, tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors", mixed(), max_shard_bytes=shard)
    found: dict[str, Any] = {}
    for file in tmp_path.glob("*.safetensors"):
        found |= safetensors.numpy.load_file(file)
    assert sorted(found) == ["rest.a.b", "rest.w"]
    assert list(restore(tmp_path / "x.safetensors", Mixed, into="numpy").rest) == ["z", "w", "a", "m"]


def test_a_note_without_order_and_bits_reads_as_before(tmp_path: Path) -> None:
    note = {"values": [[["rest", "z"], 1], [["rate"], {"float": "nan"}], [["pair"], {"complex": ["0.0", "nan"]}]]}
    arrays = {"rest.w": np.ones(2, np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors", {"format": "pt", "treaty": json.dumps(note)})
    restored = restore(tmp_path / "x.safetensors", Mixed, into="numpy")
    assert list(restored.rest) == ["w", "z"]
    assert math.isnan(restored.rate)


@pytest.mark.parametrize(
    "said",
    [
        "[]",
        "{",
        '{"order": [[["nowhere"], ["a"]]]}',
        '{"order": [[["rest"], ["z"]]]}',
        '{"order": [[["rest"], ["z", "z"]]]}',
        '{"order": 3}',
        '{"nans": [[["rate"], "7ff8"]]}',
        '{"nans": [[["rate"], "3ff0000000000000"]]}',
        '{"nans": [[["rest", "z"], "7ff8000000000001"]]}',
        '{"nans": [[[], "7ff8000000000001"]]}',
    ],
)
def test_a_note_that_does_not_fit_is_damage(said: str, tmp_path: Path) -> None:
    values = [[["rest", "z"], 1], [["rate"], {"float": "nan"}], [["pair"], {"complex": ["0.0", "nan"]}]]
    note = {"values": values, "dtypes": {"__metadata__": said}}
    metadata = {"treaty": json.dumps(note)}
    safetensors.numpy.save_file({"rest.w": np.ones(2, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CorruptCheckpointError):
        ours.load(tmp_path / "x.safetensors")


def test_a_note_with_more_parts_is_of_a_newer_treaty(tmp_path: Path) -> None:
    arrays = {"x": np.ones(2, np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors", {"treaty": '{"values": [], "codecs": {}}'})
    newer = r"written by a newer Treaty \(with 'codecs', which this one does not know\); upgrade treaty$"
    with pytest.raises(NewerFormatError, match=f"^__metadata__.treaty: {newer}"):
        ours.load(tmp_path / "x.safetensors")
    note: Any = np.frombuffer(b'{"values":[],"dtypes":{},"codecs":{}}', np.uint8)
    np.savez(tmp_path / "x.npz", x=np.ones(2), __treaty__=note)
    with pytest.raises(NewerFormatError, match=f"^the member __treaty__: {newer}"):
        npz.read_tree(tmp_path / "x.npz")


def test_bytes_keep_them_too() -> None:
    value = mixed()
    restored = from_bytes(Mixed, to_bytes(value), into="numpy")
    assert list(restored.rest) == list(value.rest)
    assert bits(restored.rate) == bits(value.rate)


@pytest.mark.parametrize("write", [npz.write, orbax.write], ids=["npz", "orbax"])
@pytest.mark.parametrize("dtype", ["torch.float32", ["unhashable"]], ids=str)
def test_an_array_of_another_library_is_refused_by_its_path(write: Any, dtype: object, tmp_path: Path) -> None:
    class Foreign:
        def __init__(self) -> None:
            self.dtype = dtype

    with pytest.raises(InvalidArgumentError, match=r"^expected .*, got .* at \$\.a$"):
        write(tmp_path / "x", {"a": Foreign()})


@state
class Anything:
    x: Any


load(Anything)


@pytest.mark.parametrize("size", [4, 2**18])
@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "x.msgpack", "directory", "orbax", "background"])
def test_a_mask_is_never_dropped_without_a_word(name: str, size: int, tmp_path: Path) -> None:
    masked = np.ma.masked_array(np.arange(float(size)), np.arange(size) % 2 == 0)
    writers: dict[str, Any] = {"orbax": orbax.write, "background": lambda *what: save_async(*what).result()}
    with pytest.raises(TreatyError, match=r"(?i)mask"):
        writers.get(name, save)(tmp_path / name, Anything(x=masked))
    assert not list(tmp_path.iterdir())


def test_a_tree_with_a_masked_array_is_refused_by_orbax_and_npz(tmp_path: Path) -> None:
    tree = {"x": np.ma.masked_array(np.arange(4.0), [True, False, False, False])}
    for write in (orbax.write, npz.write):
        with pytest.raises(TreatyError, match=r"(?i)mask.* at \$\.x"):
            write(tmp_path / "x.npz", tree)
