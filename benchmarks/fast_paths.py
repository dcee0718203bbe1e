"""Each shortcut of the runtime beside the plain way that it replaces: what does not pay for its lines should go.

The modules that hold them say in one line what they buy: these numbers. The plain way is had by turning the shortcut off.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks import models
from benchmarks.harness import Row, compare, race, warm
from treaty.runtime import from_bytes, save, to_bytes, to_state_dict
from treaty.runtime._state import alike, instances, many_arrays
from treaty.runtime._storage import files, memory
from treaty.runtime.formats.directory import manifest
from treaty.runtime.formats.msgpack import decode as msgpack_decode
from treaty.runtime.formats.msgpack import encode as msgpack_encode
from treaty.runtime.formats.msgpack import join as msgpack_join
from treaty.runtime.formats.msgpack import pack
from treaty.runtime.formats.safetensors import header

BESIDE: Final = "plain"
RESULT: Final = "times faster"
_Patches = Mapping[tuple[Any, str], Any]
_NEVER: Final = 2**60


def run(quick: bool) -> Iterator[Row]:
    rounds = 2 if quick else 30
    for nodes in [10] if quick else [32, 1_000, 10_000]:
        yield from _msgpack(nodes, rounds)
    yield from _instances(100 if quick else 20_000, rounds)
    yield from _heads(40 if quick else 20_000, rounds)
    yield _put(40 if quick else 10_000, rounds)
    yield from _memory(1 if quick else 256, 2 if quick else 8)


def _msgpack(nodes: int, rounds: int) -> Iterator[Row]:
    model = models.host_model(models.layers(nodes, 16))
    data, about = to_bytes(model), f"{2 * nodes:,} leaves"
    yield _row(f"alike items, to_bytes, {about}", lambda: to_bytes(model), {(alike, "FEWEST"): _NEVER}, rounds)
    off: _Patches = {(msgpack_decode, "FEWEST_ENTRIES"): _NEVER}
    yield _row(f"runs, from_bytes, {about}", lambda: from_bytes(models.HostModel, data, into="numpy"), off, rounds)

    decoder: Any = msgpack_decode._Decoder
    named = pack({f"Dense_{i}": layer for i, layer in sorted(to_state_dict(model)["layers"].items())})
    flat = pack({f"a{i}": np.ones((3 + i % 5, 4), np.float32) for i in range(nodes)})
    yield _row(
        f"maps of arrays like one before, decode, {about}",
        lambda: msgpack_decode.decode(named),
        {(decoder, "copies"): _nothing_read},
        rounds,
    )
    yield _row(
        f"arrays with a known head, decode, {nodes:,} leaves",
        lambda: msgpack_decode.decode(flat),
        {(decoder, "known"): _nothing_read},
        rounds,
    )
    state = to_state_dict(model)
    uncached = msgpack_encode.array_head.__wrapped__
    yield _row(
        f"heads of arrays made once, encode, {about}",
        lambda: msgpack_encode.encode(state),
        {(msgpack_encode, "array_head"): uncached},
        rounds,
    )


def _put(count: int, rounds: int) -> Row:
    """Two shapes in turn, as kernels and biases are."""
    arrays = [np.full((4, 4) if i % 2 else (4,), i, np.float32) for i in range(count)]
    off: _Patches = {(many_arrays, "FEWEST"): _NEVER}
    about = f"alike arrays to the device, {count:,} leaves"
    return _row(about, lambda: models.wait(many_arrays.put_many(arrays)), off, rounds)


def _nothing_read(decoder: Any, state: Any, at: int, *_: Any) -> int:
    return at


def _instances(count: int, rounds: int) -> Iterator[Row]:
    array, cls = np.ones(3), models.HostLayer
    values = {"kernel": [array] * count, "bias": [array] * count}
    make = instances.constructor(cls)
    rows = list(zip(*values.values(), strict=True))
    each: dict[str, Callable[[], object]] = {
        "treaty": lambda: [make(kernel=kernel, bias=bias) for kernel, bias in rows],
        "plain": lambda: [cls(kernel=kernel, bias=bias) for kernel, bias in rows],
    }
    yield compare(f"instances without __init__, {count:,}", race(each, rounds))
    together = {"treaty": lambda: instances.many(cls, values, count), "plain": each["treaty"]}
    yield compare(f"instances by columns, {count:,}", race(together, rounds))


def _heads(count: int, rounds: int) -> Iterator[Row]:
    head, _ = header.render({f"layers.{i}.kernel": ("F32", (4, 4)) for i in range(count)}, {})
    data = head + bytes(64 * count)
    off: _Patches = {(header, "_read_quickly"): lambda *_: None}
    yield _row(f"columns, safetensors header, {count:,}", lambda: header.parse(data), off, rounds)
    leaves = [{"path": ["layers", str(i), "kernel"], "dtype": "float32", "shape": [4], "file": 0} for i in range(count)]
    parser = manifest._Parser("x")
    off = {(manifest, "_are_arrays"): lambda _: False}
    yield _row(f"columns, manifest, {count:,}", lambda: parser.leaves(leaves), off, rounds)


def _memory(mib: int, rounds: int) -> Iterator[Row]:
    warm(2 * mib * 2**20)
    pieces = [np.ones(2**18, np.float32) for _ in range(mib)]
    off: _Patches = {(msgpack_join, "_LARGE"): _NEVER}
    yield _row(f"huge pages, join of {mib} MiB", lambda: msgpack_join.join(pieces), off, rounds)
    for size in [1] if mib < 8 else [4, 16]:
        arrays = [np.ones(size * 2**18, np.float32)] * max(1, mib // size)
        off = {(memory, "HUGE_PAGE"): _NEVER}
        case = f"huge pages, {len(arrays)} new arrays of {size} MiB"
        yield _row(case, partial(_copies, arrays), off, rounds)
    model = models.host_model(models.layers(8, 2_048 if mib > 8 else 8))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.msgpack"
        off = {(files, "start_writing"): lambda *_: None}
        yield _row("the disk begins at once, save of 128 MiB", lambda: save(path, model), off, rounds)


def _copies(arrays: list[Any]) -> list[Any]:
    return list(map(memory.copied, arrays))


def _row(case: str, call: Callable[[], object], off: _Patches, rounds: int) -> Row:
    def plain() -> object:
        with ExitStack() as stack:
            for (module, name), value in off.items():
                stack.enter_context(patch.object(module, name, value))
            return call()

    return compare(case, race({"treaty": call, "plain": plain}, rounds))
