"""A checkpoint of any format says what its state is: sizes that are equal are guessed to be one dim."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import serialization
from safetensors.numpy import save_file

from tests.generator.scaffold.scaffolding import imported
from treaty.generator._scaffold.round_trip import checkpoint_comes_back
from treaty.generator._scaffold.runtime_door import runtime
from treaty.generator._scaffold.write import checkpoint_text

PARAMS = {
    "layers": [{"w": jnp.ones((16, 16)), "b": jnp.zeros(16)} for _ in range(3)],
    "head": {"w": jnp.ones((16, 10), jnp.bfloat16), "b": jnp.zeros(10)},
}
STATE: dict[str, Any] = {"step": 3, "params": PARAMS, "opt": optax.adam(1e-3).init(PARAMS), "rate": 0.5}
GUESSED = '''"""The state of a checkpoint, as `treaty scaffold` saw it: yours to edit."""

# A guess: sizes that are equal are one dim, which is named after the size. Give each its name.

from typing import Annotated

from jax import Array
from jaxtyping import BFloat16, Float32
from treaty.schema import Dims, Length, state
from treaty.schema.library.optax import Adam, EmptyState


@state
class Head:
    w: BFloat16[Array, "d_16 d_10"]
    b: Float32[Array, "d_10"]


@state
class Layer:
    w: Float32[Array, "d_16 d_16"]
    b: Float32[Array, "d_16"]


@state
class Params:
    head: Annotated[Head, Dims(...)]
    layers: Annotated[tuple[Layer, ...], Length(3), Dims(...)]


@state
class TrainState:
    step: int
    params: Annotated[Params, Dims(...)]
    rate: float
    opt: Annotated[Adam[Params, EmptyState], Dims(...)]
'''


def text_and_leaves(path: Path) -> tuple[str, int]:
    """The text for a checkpoint, and how many leaves of it came back."""
    text = checkpoint_text(str(path), "TrainState", runtime("outline_of_checkpoint")(str(path)))
    cls = imported(text, f"scaffolded_{path.name.replace('.', '_')}").TrainState
    return text, checkpoint_comes_back(cls, str(path))


def test_what_flax_wrote(tmp_path: Path) -> None:
    (tmp_path / "flax.msgpack").write_bytes(serialization.to_bytes(STATE))
    assert text_and_leaves(tmp_path / "flax.msgpack") == (GUESSED, len(jax.tree.leaves(STATE)))


def test_what_orbax_wrote(tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("orbax.checkpoint")
    checkpoint.PyTreeCheckpointer().save(tmp_path / "orbax", STATE)
    assert text_and_leaves(tmp_path / "orbax") == (GUESSED, len(jax.tree.leaves(STATE)))


def test_names_of_safetensors_are_folded(tmp_path: Path) -> None:
    arrays = {f"layers.{i}.{name}.weight": np.zeros((8, 16), np.float32) for i in range(3) for name in ("q", "k")}
    save_file({**arrays, "embed.weight": np.zeros((50, 16), np.float32)}, tmp_path / "x.safetensors")
    text, leaves = text_and_leaves(tmp_path / "x.safetensors")
    assert "layers: Annotated[tuple[Layer, ...], Length(3), Dims(...)]" in text
    assert leaves == 7


def test_dtypes_that_jax_has_no_room_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros((8, 9)), b=np.int64(3))
    text, leaves = text_and_leaves(tmp_path / "x.npz")
    assert 'a: Float64[Array, "d_8 d_9"]' in text
    assert leaves == 2
