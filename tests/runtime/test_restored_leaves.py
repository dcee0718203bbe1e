"""What becomes of single leaves on the way in: numpy scalars, dtypes that are converted, sizes, and what cannot be held."""

import logging
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import BFloat16, Float32, Float64, Int16, Int32

from treaty.generator import load
from treaty.runtime import StateMismatchError, from_state_dict, plan, restore, save, to_state_dict
from treaty.schema import Dims, Length, TreatyError, state
from treaty.schema.keymap import KeyMap, Rule

P: Any = PartitionSpec


@state
class Counted:
    count: Int32[Array, ""]
    w: Float32[Array, "d"]


@state
class Small:
    count: Int16[Array, ""]
    w: BFloat16[Array, "d"]


@state
class Listed:
    parts: Annotated[list[Counted], Dims(...), Length("n")]
    table: Annotated[dict[str, Counted], Dims(...)]


@state
class Narrow:
    parts: Annotated[list[Small], Dims(...), Length("n")]
    table: Annotated[dict[str, Small], Dims(...)]


@state
class Wide:
    x: Float64[Array, "d"]
    y: Float64[np.ndarray, "d"]


load(Listed)
load(Narrow)
load(Wide)
FORMATS = ["x.msgpack", "directory", "x.npz", "x.safetensors"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_numpy_scalar_is_placed_as_the_array_that_is_declared(tmp_path: Path, name: str) -> None:
    counted: Any = Counted(count=np.int32(3), w=jnp.ones(8))  # type: ignore[arg-type]
    save(tmp_path / name, counted)
    mesh = Mesh(np.array(jax.devices()[:8]), ("data",))
    found = restore(tmp_path / name, Counted, mesh=mesh, rules={"d": "data"})
    assert isinstance(found.count.sharding, NamedSharding)
    assert len(found.count.sharding.device_set) == 8
    assert int(found.count) == 3


@pytest.mark.parametrize("name", FORMATS)
def test_a_numpy_scalar_is_widened_as_the_array_that_is_declared(tmp_path: Path, name: str) -> None:
    small = Small(count=np.int16(3), w=jnp.ones(2, jnp.bfloat16))  # type: ignore[arg-type]
    save(tmp_path / name, small)
    assert plan(tmp_path / name, Counted).ok
    found = restore(tmp_path / name, Counted)
    assert (found.count.dtype, int(found.count)) == (jnp.int32, 3)
    assert restore(tmp_path / name, Counted, into="numpy").count.dtype == np.int32


@pytest.mark.parametrize("name", FORMATS)
def test_a_plan_and_the_log_tell_every_dtype_that_is_converted(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    small = Small(count=np.int16(3), w=jnp.ones(2, jnp.bfloat16))  # type: ignore[arg-type]
    save(tmp_path / name, Narrow(parts=[small, small], table={"a": small}))
    told = {str(one) for one in plan(tmp_path / name, Listed).leaves}
    assert told == {
        "$.parts[*].count: widened (int16 to int32)",
        "$.parts[*].w: widened (bfloat16 to float32)",
        "$.table[*].count: widened (int16 to int32)",
        "$.table[*].w: widened (bfloat16 to float32)",
    }
    with caplog.at_level(logging.INFO, "treaty"):
        restore(tmp_path / name, Listed)
    assert "as Listed: 4 widened" in caplog.text


def test_a_plan_tells_what_is_cast_because_that_was_asked_for(tmp_path: Path) -> None:
    save(tmp_path / "x.msgpack", Counted(count=jnp.int32(1), w=jnp.ones(2)))
    found = plan(tmp_path / "x.msgpack", Halved, cast={"float32": "bfloat16"})
    assert [str(one) for one in found.leaves] == ["$.count: as-is", "$.w: cast (float32 to bfloat16)"]


@state
class Halved:
    count: Int32[Array, ""]
    w: BFloat16[Array, "d"]


load(Halved)


def test_a_numpy_scalar_where_a_class_is_declared_is_told() -> None:
    stored = {"parts": {"0": np.float32(1)}, "table": {}}
    with pytest.raises(
        StateMismatchError, match=r"expected Counted as a dict, got numpy scalar float32 at \$.parts\[0\]"
    ):
        from_state_dict(Listed, stored)


@pytest.mark.parametrize("name", ["x.msgpack", "directory"])
def test_a_stored_numpy_scalar_where_a_class_is_declared_is_told(tmp_path: Path, name: str) -> None:
    save(tmp_path / name, Scalars(parts=[np.float32(1)], table={}))
    with pytest.raises(
        StateMismatchError, match=r"expected Counted as a dict, got numpy scalar float32 at \$.parts\[0\]"
    ):
        restore(tmp_path / name, Listed)
    assert not plan(tmp_path / name, Listed).ok


@state
class Scalars:
    parts: list[np.float32]
    table: dict[str, np.float32]


load(Scalars)


@pytest.mark.parametrize("name", FORMATS)
def test_what_jax_cannot_hold_is_told_with_its_path_before_anything_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / name, restore_wide())
    expected = (
        "expected float64 at $.x, got a JAX that holds float32 (jax_enable_x64 is off); "
        'set it, declare np.ndarray, or pass into="numpy"'
    )
    with pytest.raises(TreatyError) as caught:
        restore(tmp_path / name, Wide, at="$")
    assert str(caught.value) == expected
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    with pytest.raises(TreatyError) as caught:
        restore(tmp_path / name, Wide, mesh=mesh)
    assert str(caught.value) == expected
    assert restore(tmp_path / name, Wide, into="numpy").x.dtype == np.float64


def restore_wide() -> Wide:
    return Wide(x=np.ones(2), y=np.ones(2))  # type: ignore[arg-type]


def test_sizes_of_a_key_maps_axes_are_taken_by_restore_as_by_from_state_dict(tmp_path: Path) -> None:
    keymap = KeyMap([Rule("weight", "w", layout="(heads d_head) -> (heads d_head)"), Rule("count", "count")])
    tensors = {"weight": np.ones(8, np.float32), "count": np.array(1, np.int32)}
    dims = {"heads": 2, "d": 8}
    assert from_state_dict(Counted, tensors, keymap=keymap, dims=dims).w.shape == (8,)
    np.savez(tmp_path / "x.npz", **tensors)  # type: ignore[arg-type]
    assert restore(tmp_path / "x.npz", Counted, keymap=keymap, dims=dims).w.shape == (8,)
    for wrong in ({"hedas": 2}, {"heads": 2, "d": 7}):
        with pytest.raises(TreatyError):
            restore(tmp_path / "x.npz", Counted, keymap=keymap, dims=wrong)


@pytest.mark.parametrize("name", FORMATS)
def test_scalars_that_a_key_map_takes_apart_can_be_stacked_again(tmp_path: Path, name: str) -> None:
    keymap = KeyMap([Rule("layers.{i}.scale", "w"), Rule("count", "count")])
    value: Any = Counted(count=jnp.int32(1), w=np.arange(3, dtype=np.float32))  # type: ignore[arg-type]
    save(tmp_path / name, value, keymap=keymap)
    np.testing.assert_array_equal(restore(tmp_path / name, Counted, keymap=keymap).w, value.w)


@state
class Partly:
    """As `Counted`, under another name and with a default."""

    w: Float32[Array, "d"]
    count: Int32[Array, ""] = jnp.int32(7)


load(Partly)


def test_what_was_left_out_is_not_made_up_for_a_class_of_another_name(tmp_path: Path) -> None:
    save(tmp_path / "directory", Counted(count=jnp.int32(1), w=jnp.ones(2)))
    with pytest.raises(StateMismatchError, match=r"expected int32\[\], got nothing at \$.count"):
        restore(tmp_path / "directory", Partly, at=["w"])


def test_the_state_of_a_leaf_is_what_it_was() -> None:
    value = Counted(count=jnp.int32(1), w=jnp.ones(2))
    assert to_state_dict(from_state_dict(Counted, to_state_dict(value))).keys() == {"count", "w"}
