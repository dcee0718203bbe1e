"""Lazy arrays box by box: whatever the pieces and the chunks are, every element arrives once, in its place."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._lazy import LazyArray, Start, bands, by_bands, chunk_of, in_parts, read_by_bands

SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)


@st.composite
def arrays_and_chunks(draw: st.DrawFn) -> tuple[Any, list[int]]:
    shape = draw(SHAPES)
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    return array, [draw(st.integers(1, max(1, size))) for size in shape]


@given(arrays_and_chunks(), st.integers(1, 50))
def test_an_array_in_pieces_is_written_by_bands(made: tuple[Any, list[int]], step: int) -> None:
    array, chunks = made

    def parts() -> Iterator[Any]:
        return (array.reshape(-1)[at : at + step] for at in range(0, array.size, step))

    found = np.full_like(array, -1)
    for start, part in by_bands(in_parts(array.shape, array.dtype, parts), chunks):
        box = tuple(slice(first, first + size) for first, size in zip(start, part.shape, strict=True))
        assert (found[box] == -1).all()
        found[box] = part
    np.testing.assert_array_equal(found, array)


@given(arrays_and_chunks())
def test_a_stored_array_is_read_by_bands_in_order(made: tuple[Any, list[int]]) -> None:
    array, chunks = made

    def begin(start: Start, memory: Any) -> Callable[[], object]:
        box = tuple(slice(first, first + size) for first, size in zip(start, memory.shape, strict=True))

        def wait() -> None:
            memory[...] = array[box]

        return wait

    found = list(read_by_bands(array.shape, array.dtype, chunks, begin))

    assert b"".join(part.tobytes() for part in found) == array.tobytes()


@given(arrays_and_chunks())
def test_bands_are_made_of_whole_chunks(made: tuple[Any, list[int]]) -> None:
    array, chunks = made
    for start, box in bands(array.shape, chunks):
        for first, size, chunk, total in zip(start, box, chunks, array.shape, strict=True):
            assert first % chunk == 0
            assert size % chunk == 0 or first + size == total


@given(SHAPES, st.integers(1, 64))
def test_chunks_are_bands_of_their_own(shape: tuple[int, ...], limit: int) -> None:
    """What is cut by `chunk_of` needs no more memory than one chunk, and that is within the limit."""
    chunk = chunk_of(shape, 1, limit)

    for _, box in bands(shape, chunk):
        assert int(np.prod(box)) <= max(limit, 1)


def test_a_copy_of_a_lazy_array_is_one() -> None:
    stored = np.arange(3.0)
    lazy = LazyArray((3,), stored.dtype, lambda: stored)
    assert np.shares_memory(np.asarray(lazy), stored)
    assert not np.shares_memory(np.array(lazy, copy=True), stored)
    assert np.asarray(lazy, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(lazy, np.float32, copy=False)


def test_parts_that_do_not_fill_an_array_are_told() -> None:
    lazy = in_parts((4,), np.dtype(np.float32), lambda: iter([np.zeros(3, np.float32)]))
    with pytest.raises(CorruptCheckpointError) as caught:
        lazy.read()
    assert str(caught.value) == "expected 4 elements of float32[4], got 3"
