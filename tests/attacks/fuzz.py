"""Mutates checkpoints and reads them back, for ever or for a while: `make fuzz SECONDS=600`, `SEED=7` to repeat.

Whatever the bytes, every reader gives a sound value or one of two errors, and all readers the same. What Flax reads is
read as Flax does, or refused for one of a few reasons. What does not hold is written to fuzz-crash-<seed>-<number>.msgpack.
"""

import argparse
import random
import re
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import flax.serialization
import ml_dtypes
import numpy as np
from jaxtyping import Float32, Int8

from tests.attacks import hostile
from tests.attacks.writers import Writer
from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import (
    CorruptCheckpointError,
    StateMismatchError,
    from_bytes,
    from_state_dict,
    serialization,
    to_bytes,
)
from treaty.runtime.formats.msgpack import pack
from treaty.runtime.formats.msgpack.decode import decode
from treaty.schema import state


@state
class Layer:
    w: Float32[np.ndarray, "a b"]
    b: Int8[np.ndarray, "b"]
    n: int


@state
class Model:
    layers: list[Layer]
    scale: list[Float32[np.ndarray, ""]]
    table: dict[str, Int8[np.ndarray, "k"]]
    lr: float
    note: str


class Scaled(NamedTuple):
    w: Any
    b: Any
    n: Any


load(Model)
_layer = Scaled(np.zeros((1, 2), np.float32), np.zeros(2, np.int8), 0)
TEMPLATES: list[Any] = [
    {"layers": [_layer, _layer], "scale": (np.float32(0),) * 3, "table": {}, "lr": 0.0, "note": ""},
    {"complex": None, "scalar": np.float16(0), "list": {}, "large": np.zeros(200, np.int8), "empty": [], 3: None},
    [np.zeros(2)],
    None,
]


def model(layers: int, scales: int) -> Model:
    return Model(
        layers=[
            Layer(w=np.full((1, 2), i, np.float32), b=np.arange(2, dtype=np.int8) + np.int8(i % 100), n=7)
            for i in range(layers)
        ],
        scale=[np.array(i, np.float32) for i in range(scales)],
        table={"a": np.zeros(2, np.int8), "b": np.arange(2, dtype=np.int8)},
        lr=0.5,
        note="é",
    )


def seeds() -> list[bytes]:
    """Small checkpoints that take every path of the readers, and every hostile file."""
    others = {
        "complex": 1 + 2j,
        "bytes": b"abc",
        "scalar": np.float16(2),
        "list": [1, -1, 2**40, None, True, {"x": [np.zeros(2, ml_dtypes.bfloat16)]}],
        "large": np.arange(200, dtype=np.int8),
        "empty": np.zeros((0, 3), np.int32),
        "text": np.array(["ab", "é"]),
        "raw": np.array([b"abc"]),
        "3": np.datetime64("2020-01-01"),
    }
    keyed = {None: 1, True: [{"x": 2}], 1.5: b"", -3: {b"k": 1}, 2**40: np.float64(1)}
    small, many = to_bytes(model(2, 3)), to_bytes(model(36, 40))
    wide = Writer(order="shuffled", wide=True).write(flax.serialization.msgpack_restore(small))
    return [
        small,
        many,
        wide,
        pack(others),
        pack(others, chunk_bytes=4),
        pack(keyed),
        *(one.data for one in hostile.hostile()),
    ]


REFUSED = object()
MAY_REFUSE = re.compile(
    r"expected (each key once|a key,|extension type 1, 2 or 3|a chunked array|at most 256 levels|a scalar|a complex number"
    r"|parts of one dtype|the shape of a chunked|the parts of a chunked|an array's shape|the name of a dtype|a shape"
    r"|a length|an array that ends|the data of an array|\d+ bytes for )"
)

HEADS = [
    *(bytes([code]) for code in range(0x80, 0x100, 3)),
    *(bytes([code]) + struct.pack(">B", 255) for code in (0xC4, 0xC7, 0xD9)),
    *(bytes([code]) + struct.pack(">H", 65535) for code in (0xC5, 0xC8, 0xDA, 0xDC, 0xDE)),
    *(bytes([code]) + struct.pack(">I", 2**32 - 1) for code in (0xC6, 0xC9, 0xDB, 0xDD, 0xDF)),
    *(b"\xcf" + struct.pack(">Q", value) for value in (0, 2**31, 2**62, 2**64 - 1)),
]


def mutated(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        span = rng.choice((1, 1, 2, 4, 8, 40))
        what = rng.randrange(8)
        if what == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif what == 1 and changed:
            changed[at % len(changed)] = rng.choice((0, 1, 0x7F, 0x80, 0xC0, 0xFF, rng.randrange(256)))
        elif what == 2:
            changed[at:at] = rng.choice(HEADS)
        elif what == 3:
            head = rng.choice(HEADS)
            changed[at : at + len(head)] = head
        elif what == 4:
            del changed[at : at + span]
        elif what == 5:
            changed[at:at] = changed[at : at + span]
        elif what == 6:
            start = rng.randrange(len(other) + 1)
            changed[at : at + span] = other[start : start + span]
        else:
            del changed[at:]
    return bytes(changed)


def check(data: bytes) -> bool:
    """Whether the bytes are sound; fails where anything but the two errors happens, or readers differ."""
    tree, damage = attempt(CorruptCheckpointError, lambda: decode(data))
    if damage:
        assert " at byte " in damage
        assert len(damage) < 4000
        assert attempt(CorruptCheckpointError, lambda: decode(bytearray(data), {}))[1] == damage
        assert attempt(CorruptCheckpointError, lambda: from_bytes(Model, data, into="numpy"))[1] == damage
        assert MAY_REFUSE.match(damage) or by_flax(lambda: flax.serialization.msgpack_restore(data)) is REFUSED, damage
        return False
    same(decode(pack(tree)), tree)
    theirs = by_flax(lambda: flax.serialization.msgpack_restore(data))
    if theirs is not REFUSED:
        same(tree, theirs)
    check_templates(data)
    plain, mismatch = attempt(StateMismatchError, lambda: from_state_dict(Model, tree, into="numpy"))
    restored, same_mismatch = attempt(StateMismatchError, lambda: from_bytes(Model, data, into="numpy"))
    assert same_mismatch == mismatch
    if mismatch:
        return False
    same(restored, plain)
    same(from_bytes(Model, to_bytes(restored), into="numpy"), restored)
    return True


def attempt(kind: type[Exception], read: Callable[[], object]) -> tuple[Any, str]:
    """What was read, or what the error said."""
    try:
        return read(), ""
    except kind as error:
        return None, str(error)


def check_templates(data: bytes) -> None:
    """The drop-in module restores what Flax does, and where it is strict, nothing that differs from the template."""
    for template in TEMPLATES:
        theirs = by_flax(partial(flax.serialization.from_bytes, template, data))
        with serialization.strict(False):
            lenient, refused = attempt(ValueError, partial(serialization.from_bytes, template, data))
        if theirs is not REFUSED and not refused:
            same(lenient, theirs)
        assert not refused or theirs is REFUSED or MAY_REFUSE.match(refused), refused
        strict, wrong = attempt(ValueError, partial(serialization.from_bytes, template, data))
        if not wrong:
            same(strict, lenient)


def by_flax(read: Callable[[], object]) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except Exception:  # whatever Flax and numpy raise
        return REFUSED


def cases(seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    corpus = seeds()
    while True:
        yield mutated(rng.choice(corpus[:6] if rng.random() < 0.8 else corpus), rng.choice(corpus), rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    warnings.simplefilter("error")
    print(f"seed {options.seed}, {options.seconds:g} seconds", flush=True)
    end, sound, number = time.monotonic() + options.seconds, 0, 0
    for number, data in enumerate(cases(options.seed)):
        try:
            sound += check(data)
        except BaseException:
            crash = Path(f"fuzz-crash-{options.seed}-{number}.msgpack")
            crash.write_bytes(data)
            print(f"case {number} fails: {crash}", flush=True)
            raise
        if time.monotonic() > end:
            break
    print(f"{number + 1} cases, {sound} of them sound")


if __name__ == "__main__":
    main()
