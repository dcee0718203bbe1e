"""A map of arrays that is like one before is read as a copy of it. It must never show in what comes out."""

from typing import Any
from unittest.mock import Mock

import flax.serialization
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.equality import same
from treaty.runtime import CorruptCheckpointError
from treaty.runtime._trees import MAX_DEPTH
from treaty.runtime.formats.msgpack import pack
from treaty.runtime.formats.msgpack.decode import _Decoder, decode
from treaty.runtime.formats.msgpack.encode import CHUNKED

Tree = dict[str, Any]


def layer(value: float, shape: tuple[int, ...] = (4, 3), dtype: Any = np.float32) -> Tree:
    return {"kernel": np.full(shape, value, dtype), "bias": np.full(shape[-1:], value + 0.5, dtype)}


def test_named_layers_come_back_each_with_its_own_arrays() -> None:
    tree = {f"Dense_{i}": layer(i) for i in sorted(range(200), key=str)}

    found = decode(pack(tree))

    assert list(found) == list(tree)
    same(found, flax.serialization.msgpack_restore(pack(tree)))
    arrays = [array for one in found.values() for array in one.values()]
    assert len({array.ctypes.data for array in arrays}) == len(arrays)


def test_a_layer_like_one_before_is_not_taken_apart_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the shortcut could be lost without a trace, as it once was."""
    taken_apart = Mock(side_effect=_Decoder.entry, autospec=True)
    monkeypatch.setattr(_Decoder, "entry", lambda *args: taken_apart(*args))

    decode(pack({f"Dense_{i}": layer(i) for i in sorted(range(300), key=str)}))

    assert taken_apart.call_count == 3  # the first layer and its two arrays


OTHERS: dict[str, Any] = {
    "another shape of the same size": layer(7, (3, 4)),
    "a longer one": layer(7, (40, 30)),
    "another dtype of the same width": layer(7, dtype=np.int32),
    "keys the other way round": dict(reversed(layer(7).items())),
    "another key": {"kernel": layer(7)["kernel"], "bigs": layer(7)["bias"]},
    "one more": {**layer(7), "scale": np.ones(3, np.float32)},
    "one fewer": {"kernel": layer(7)["kernel"]},
    "a number in place of an array": {"kernel": layer(7)["kernel"], "bias": 3.5},
    "nested": {"kernel": layer(7)["kernel"], "bias": layer(8)},
    "an empty array": layer(7, (4, 0)),
    "nothing": {},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("before", [1, 3, 20])
def test_what_only_begins_alike_is_read_as_it_is(other: str, before: int) -> None:
    tree = {f"a{i:03}": layer(i) for i in range(before)} | {"other": OTHERS[other]}
    tree |= {f"z{i:03}": layer(-i) for i in range(before)} | {"other again": OTHERS[other]}

    same(decode(pack(tree)), tree)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["f4", "i4", "u1"])), max_size=24))
def test_any_mix_of_maps_is_read_as_flax_reads_it(shapes: list[tuple[int, int, str]]) -> None:
    tree = {f"{'k' * (i % 5)}{i}": layer(i % 7, (a, b), dtype) for i, (a, b, dtype) in enumerate(shapes)}
    data = pack(tree)

    same(decode(data), flax.serialization.msgpack_restore(data))
    same(decode(memoryview(bytearray(data))), decode(data))


def test_a_key_that_comes_twice_is_refused() -> None:
    one, other = pack({"a": layer(1)})[1:], pack({"b": layer(2)})[1:]
    with pytest.raises(CorruptCheckpointError, match="expected each key once, got 'a' again"):
        decode(b"\x83" + one + other + one)


def test_a_map_that_is_cut_is_refused() -> None:
    data = pack({"a": layer(1), "b": layer(2)})
    for end in range(len(data)):
        with pytest.raises(CorruptCheckpointError):
            decode(data[:end])


def test_no_level_is_won_by_a_copy() -> None:
    deepest: Any = {"x": layer(2)}
    for _ in range(MAX_DEPTH - 1):
        deepest = {"d": deepest}
    with pytest.raises(ValueError, match="levels"):
        pack({"a": layer(1), "b": deepest})
    inner = pack(layer(1))
    data = b"\x82\xa1a" + inner + b"\xa1b" + b"\x81\xa1d" * (MAX_DEPTH - 1) + b"\x81\xa1x" + inner
    with pytest.raises(CorruptCheckpointError, match=f"expected at most {MAX_DEPTH} levels"):
        decode(data)


def test_what_is_a_dict_below_a_list_is_damage_elsewhere() -> None:
    parts = {CHUNKED: np.ones(3, np.float32), "shape": np.ones(2, np.float32)}
    ext = pack({"v": parts}, as_flax=True)[3:]
    listed = b"\x82\xa1a\x91" + ext + b"\xa1b" + ext
    assert msgpack.unpackb(listed, strict_map_key=False)["a"][0].keys() == parts.keys()
    with pytest.raises(CorruptCheckpointError, match=r"expected a chunked array.*\$\.b"):
        decode(listed)
