"""Whether two leaves are the same: arrays by their bits, all else by type and value."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from treaty.runtime._same import same_bytes

NAN = math.nan


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NAN, float("nan")),
        (complex(NAN, 1), complex(NAN, 1)),
        (np.float32(NAN), np.float32(NAN)),
        (np.str_(""), np.str_("")),
        (2**2000, 2**2000),
        ({}, {}),
        (np.array([NAN]), np.array([NAN])),
    ],
)
def test_these_are_the_same(one: Any, other: Any) -> None:
    assert same_bytes(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (complex(0, 0.0), complex(0, -0.0)),
        (np.float32(0), np.float32(-0.0)),
        (ml_dtypes.bfloat16(0), ml_dtypes.bfloat16(-0.0)),
        (np.zeros(1), np.array([-0.0])),
        (1, True),
        (1, 1.0),
        (np.str_("a"), np.str_("")),
        (np.void(b""), np.void(b"a")),
        (np.zeros(2), np.zeros((2, 1))),
    ],
)
def test_these_are_not(one: Any, other: Any) -> None:
    assert not same_bytes(one, other)
    assert not same_bytes(other, one)
