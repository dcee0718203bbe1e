"""A few seconds of what `make fuzz` does for longer, the same cases each time; and every single cut and bit flip."""

from itertools import islice

import numpy as np
import pytest

from tests.attacks import fuzz
from tests.attacks.fuzz import Model, cases, check, model, seeds
from treaty.runtime import CorruptCheckpointError, StateMismatchError, from_bytes, to_bytes
from treaty.runtime.formats.msgpack import pack
from treaty.runtime.formats.msgpack.decode import decode


def test_mutated_checkpoints_give_sound_values_or_one_of_two_errors() -> None:
    sound = sum(map(check, islice(cases(seed=3), 4000)))
    assert 50 < sound < 3900  # neither all refused nor all accepted, or the mutations miss their mark


def test_the_check_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes(model(36, 40))
    assert check(data)
    monkeypatch.setattr(fuzz, "from_bytes", lambda *_, **__: model(36, 39))
    with pytest.raises(AssertionError, match="scale"):
        check(data)


@pytest.mark.parametrize("seed", range(5))
def test_a_checkpoint_cut_anywhere_is_refused(seed: int) -> None:
    data = seeds()[seed]
    for end in range(len(data)):
        with pytest.raises(CorruptCheckpointError, match=r" at byte \d+, \$"):
            decode(data[:end])


@pytest.mark.parametrize("data", [to_bytes(model(1, 1)), pack({"w": {str(i): np.int8(i) for i in range(3)}})], ids=len)
def test_every_flipped_bit_is_refused_or_sound(data: bytes) -> None:
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        check(bytes(flipped))


def test_every_flipped_bit_among_alike_items_is_refused_or_sound() -> None:
    """Every bit of the first, of one in the middle and of the last of many items."""
    data = to_bytes(model(0, 60))
    start, end = data.index(b"\xa5scale"), data.index(b"\xa5table")
    row = (end - start) // 60
    for at in (*range(start, start + 2 * row), *range(start + 30 * row, start + 31 * row), *range(end - row, end + 8)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            try:
                restored = from_bytes(Model, bytes(flipped), into="numpy")
            except (CorruptCheckpointError, StateMismatchError):
                continue
            assert all(one.shape == () and one.dtype == np.float32 for one in restored.scale)
            check(bytes(flipped))
