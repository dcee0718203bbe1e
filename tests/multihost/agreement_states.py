"""States of the tests of saves by several processes."""

from typing import Any

import numpy as np
from jax import Array
from jaxtyping import Float32, Int32, Key

from treaty.generator import load
from treaty.schema import state


@state
class Rows:
    step: Int32[Array, ""]
    tables: dict[str, Float32[Array, "rows width"]]
    rate: float
    local: Float32[np.ndarray, "many"]
    seen: Float32[np.ndarray, "few"]


@state
class Stages:
    small: Float32[Array, "a"]
    large: Float32[Array, "b"]
    single: Float32[Array, "c"]
    both: Float32[Array, "d"]
    copied: Float32[Array, "e"]
    key: Key[Array, ""]
    first: Float32[Array, "f"]
    tiny: Float32[Array, "g"]
    empty: Float32[Array, "h"]


load(Rows)
load(Stages)


def rows(step: int) -> Rows:
    """A step's rows, whole: no number in them is another step's."""
    table = np.arange(72, dtype=np.float32).reshape(12, 6) + 1000 * step
    on_host: Any = {"step": np.array(step, np.int32), "tables": {"a": table, "b": -table}}
    return Rows(
        **on_host,
        rate=0.1,
        local=np.arange(64, dtype=np.float32) + step,
        seen=np.arange(4, dtype=np.float32),
    )
