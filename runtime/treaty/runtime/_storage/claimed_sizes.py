"""Sizes that an array's own metadata claims, looked at before memory is taken: TensorStore ends the process if it gets none."""

import math
import os
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

_ALWAYS: Final = 2**26  # bytes of a chunk, however small its array


def bad_chunks(store: Any) -> str | None:
    """Why chunks cannot be as large as is said: they are at most about as large as their array."""
    itemsize = store.dtype.numpy_dtype.itemsize
    most = max(_ALWAYS, 2 * math.prod(store.shape) * itemsize)
    layout = store.chunk_layout
    for chunk in (layout.read_chunk.shape, layout.write_chunk.shape):
        if chunk is not None and math.prod(chunk) * itemsize > most:
            return f"chunks of {list(chunk)} for {list(store.shape)}"
    return None


def fits_in_memory(nbytes: int) -> bool:
    """Whether so many bytes can be held; all that is swapped out is as good as lost."""
    return nbytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def missing_chunk(store: Any, path: str, files: Mapping[str, int | None]) -> str | None:
    """The name of a chunk of a zarr array, of version 2, that is not among the files, or is empty, if there is one."""
    metadata = store.spec().to_json()["metadata"]
    grid = [range(-(-size // chunk)) for size, chunk in zip(metadata["shape"], metadata["chunks"], strict=True)]
    separator = metadata.get("dimension_separator", ".")
    above = "" if path == "." else f"{path}/"
    names = (above + (separator.join(map(str, index)) or "0") for index in product(*grid))
    return next((name for name in names if files.get(name) == 0 or name not in files), None)
