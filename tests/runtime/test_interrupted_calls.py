"""Ctrl-C at every step of a call that remembers something for its duration: the next call knows nothing of it."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import from_bytes, serialization, to_bytes, to_state_dict
from treaty.schema import state


@state
class Layer:
    w: Float32[Array, "n"]


@state
class Model:
    layers: tuple[Layer, ...]


load(Model)
MODEL = Model(layers=tuple(Layer(w=jnp.full(3, index, jnp.float32)) for index in range(8)))
FILES = ("alike.py", "msgpack/instances.py", "contextlib.py", "_flax/read.py")


def interrupted(call: Callable[[], object]) -> Iterator[None]:
    """The call, interrupted at its first step in one of FILES, then at the second, and so on until it ends."""
    number, ended = 0, False
    while not ended:
        number += 1
        left = number

        def step(frame: Any, event: str, _: object) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.endswith(FILES):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            if event == "opcode":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            call()
            ended = True
        except KeyboardInterrupt:
            yield
        finally:
            sys.settrace(before)


def test_after_an_interrupted_to_bytes_nothing_is_left_out() -> None:
    whole = to_bytes(MODEL)
    for count, _ in enumerate(interrupted(lambda: to_bytes(MODEL))):
        assert len(to_state_dict(MODEL)["layers"]) == 8
        assert not np.shares_memory(to_state_dict(MODEL)["layers"]["7"]["w"], MODEL.layers[0].w), count
    assert to_bytes(MODEL) == whole


def test_after_an_interrupted_from_bytes_every_item_is_its_own() -> None:
    whole = to_bytes(MODEL)
    for _ in interrupted(lambda: from_bytes(Model, whole, into="numpy")):
        found = from_bytes(Model, whole, into="numpy")
        assert [float(layer.w[0]) for layer in found.layers] == list(range(8))


def test_after_an_interrupted_restore_mismatches_are_raised_as_ever() -> None:
    target, stored = {"w": np.zeros(3)}, {"w": np.zeros(3)}
    for _ in interrupted(lambda: serialization.from_state_dict(target, stored)):
        with pytest.raises(ValueError, match="got float64"):
            serialization.from_state_dict(target, {"w": np.zeros(4)})
