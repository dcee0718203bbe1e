"""to_bytes and from_bytes in memory, beside Flax, pickle, safetensors, np.savez, and a bare join of the same buffers."""

import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import safetensors.numpy
from flax import serialization

from benchmarks import models
from benchmarks.harness import Row, compare, race, warm
from treaty.runtime import from_bytes, to_bytes

BESIDE: Final = "beside"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    for nodes, d, rounds in [(10, 4, 2)] if quick else [(8, 2_896, 5), (1_000, 16, 30), (10_000, 16, 10)]:
        pairs = models.layers(nodes, d)
        yield from _compare(pairs, rounds)


def _compare(pairs: list[tuple[Any, Any]], rounds: int) -> Iterator[Row]:
    ours, theirs = models.host_model(pairs), models.flax_model(pairs)
    data = to_bytes(ours)
    if data != serialization.to_bytes(theirs):
        raise AssertionError("the bytes differ from Flax's")
    flat = {
        f"{i}.{name}": leaf for i, pair in enumerate(pairs) for name, leaf in zip(("kernel", "bias"), pair, strict=True)
    }
    pieces = _pieces(data, list(flat.values()))
    about = f"{len(flat):,} leaves, {len(data) / 2**20:,.0f} MiB"
    warm(4 * len(data))

    writers: dict[str, Callable[[], object]] = {
        "treaty": lambda: to_bytes(ours),
        "flax": lambda: serialization.to_bytes(theirs),
        "safetensors": lambda: safetensors.numpy.save(flat),
        "pickle": lambda: pickle.dumps(flat, protocol=5),
        "np.savez": lambda: _savez(flat),
        "join": lambda: b"".join(pieces),
    }
    targets = {"flax": {16: ">= 6x", 2_000: ">= 12x", 20_000: ">= 40x"}.get(len(flat), "-"), "join": ">= 0.8x"}
    yield from _rows(f"to_bytes, {about}", race(writers, rounds), targets)

    stored: dict[str, Any] = {
        name: write() for name, write in writers.items() if name not in ("treaty", "flax", "join")
    }
    readers: dict[str, Callable[[], object]] = {
        "treaty": lambda: from_bytes(models.HostModel, data, into="numpy"),
        "flax": lambda: serialization.from_bytes(theirs, data),
        "safetensors": lambda: safetensors.numpy.load(stored["safetensors"]),
        "pickle": lambda: pickle.loads(stored["pickle"]),
        "np.savez": lambda: dict(np.load(io.BytesIO(stored["np.savez"]))),
    }
    targets = {"flax": {2_000: ">= 20x", 20_000: ">= 12x"}.get(len(flat), "-")}
    yield from _rows(f"from_bytes into numpy, {about}", race(readers, rounds), targets)


def _rows(case: str, times: Mapping[str, Any], targets: Mapping[str, str]) -> Iterator[Row]:
    for name, sample in times.items():
        if name != "treaty":
            row = compare(f"{case}: {name}", {"treaty": times["treaty"], name: sample}, targets.get(name, "-"))
            yield row


def _pieces(data: bytes, arrays: list[Any]) -> list[Any]:
    """The buffers of which the bytes are made: what any writer must at least join."""
    pieces: list[Any] = []
    position = 0
    for array in arrays:
        start = data.index(array.tobytes(), position)
        pieces += [data[position:start], array]
        position = start + array.nbytes
    if position != len(data) or b"".join(pieces) != data:
        raise AssertionError("the pieces are not the bytes")
    return pieces


def _savez(flat: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **flat)
    return file.getvalue()
