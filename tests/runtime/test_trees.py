"""State dicts taken apart and put together."""

from contextlib import suppress

import numpy as np
import pytest

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._same import same_bytes
from treaty.runtime._trees import nest


def test_an_empty_node_that_was_given_stays_empty() -> None:
    empty: dict[str, object] = {}
    for below in (("a", "b"), ("a",)):
        with suppress(CorruptCheckpointError):
            nest([(("a",), empty), (below, 1)])
        assert empty == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (complex(float("nan"), 1), complex(float("nan"), 2)),
        (complex(0.0, 1), complex(-0.0, 1)),
        (np.float32(0.0), np.float32(-0.0)),
        (np.uint32(0x7FC00000).view(np.float32), np.uint32(0x7FC00001).view(np.float32)),
        (np.complex64(complex(1, 0.0)), np.complex64(complex(1, -0.0))),
    ],
)
def test_scalars_that_differ_in_a_bit_are_not_the_same(one: object, other: object) -> None:
    assert not same_bytes(one, other)
    assert same_bytes(one, one)


def test_scalars_of_the_same_bits_are_the_same() -> None:
    for value in (float("nan"), complex(1, float("nan")), np.float16("nan"), "a", b"a", None, True, 10**30):
        assert same_bytes(value, value)
    assert not same_bytes(1, True)
    assert not same_bytes(1.0, 1)
