"""Arrays of TensorStore as lazy ones. They are read into memory of ours: where TensorStore finds none, it ends the process."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorstore as ts

from treaty.runtime._lazy import HostArray, LazyArray, Part, Start, box_by_box, read_by_bands
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._storage.claimed_sizes import fits_in_memory
from treaty.runtime._storage.memory import aligned

Wait: TypeAlias = Callable[[Callable[[], Any]], Any]


def stored_array(store: Any, wait: Wait, kind: type[LazyArray] = LazyArray) -> LazyArray:
    """`wait` calls what it is given, which ends when a read has, and makes of a failure an error that names the leaf."""
    shape, dtype = tuple(store.shape), store.dtype.numpy_dtype

    def begin(start: Start, memory: HostArray) -> Callable[[], object]:
        use_tensorstore()  # the array may have been opened before this process was forked
        box = Part(start, memory).box
        reading = ts.array(memory).write(store[box][ts.d[:].translate_to[0]] if box else store)
        return lambda: wait(reading.result)

    def allocated() -> HostArray:
        if not fits_in_memory(store.size * dtype.itemsize):
            raise MemoryError(f"{dtype}{list(shape)}, which does not fit in memory")
        return aligned(shape, dtype)

    def read() -> HostArray:
        memory: HostArray = wait(allocated)
        begin((0,) * len(shape), memory)()
        return memory

    def fill(part: Part) -> None:
        begin(*part)()

    def parts() -> Iterator[HostArray]:
        return read_by_bands(shape, dtype, store.chunk_layout.read_chunk.shape, begin)

    return kind(shape, dtype, read, parts, box_by_box(fill))
