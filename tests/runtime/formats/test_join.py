"""Joined buffers are the same bytes, whether they are large enough for huge pages or not."""

import hashlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from treaty.runtime._lazy import LazyArray
from treaty.runtime.formats.msgpack import join as _join
from treaty.runtime.formats.msgpack.encode import encode

PIECES: list[Any] = [
    b"head",
    np.arange(6, dtype=np.float32).reshape(2, 3),
    b"",
    np.empty((0, 4), np.int8),
    np.array(7, np.int64),
    np.arange(5).astype(ml_dtypes.bfloat16),
    np.array([1, 2, 3], ml_dtypes.int4),
    np.array([True, False]),
    b"tail",
]


def test_small_and_large_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    small = _join.join(PIECES)
    monkeypatch.setattr(_join, "_LARGE", 0)

    large = _join.join(PIECES)

    assert large == small == b"".join(piece if isinstance(piece, bytes) else piece.tobytes() for piece in PIECES)
    assert hash(large) == hash(small)


def test_a_result_of_many_huge_pages_is_whole() -> None:
    parts = [np.random.default_rng(seed).bytes(5 * 2**20 + seed) for seed in range(4)]
    arrays = [np.frombuffer(part, np.uint8) for part in parts]

    joined = _join.join([b"x", *arrays])

    expected = hashlib.sha256(b"x")
    for part in parts:
        expected.update(part)
    assert hashlib.sha256(joined).digest() == expected.digest()


def test_nothing_joined_is_nothing() -> None:
    assert _join.join([]) == b""


@pytest.mark.parametrize("least", [0, 2**24])
def test_lazy_arrays_are_read_when_they_are_joined(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(_join, "_LARGE", least)
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    lazy = LazyArray(array.shape, array.dtype, lambda: array)

    assert _join.join(encode({"a": lazy})) == _join.join(encode({"a": array}))


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises((TypeError, AttributeError)):
        _join.join([b"a", object()])
