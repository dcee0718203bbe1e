"""treaty.runtime.sharding: each function by example, and as a property where there is one."""

import math
import re
from pathlib import PurePosixPath
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from treaty.runtime import sharding
from treaty.runtime._eformer import memory as _memory
from treaty.schema import TreatyError
from treaty.schema.dtypes import TABLE

P: Any = PartitionSpec
abstract: Any = jax.ShapeDtypeStruct
DTYPES = [row.numpy for row in TABLE]
ON_DEVICE = [dtype for dtype in DTYPES if dtype.itemsize < 8 and dtype.name not in ("int1", "uint1")]
ON_DEVICE = [dtype for dtype in ON_DEVICE if not dtype.name.startswith("float6")]


def mesh() -> Mesh:
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


def ones(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "np.ndarray[Any, np.dtype[Any]]":
    return np.arange(math.prod(shape)).reshape(shape).astype(bool).astype(dtype)


# Where arrays live


def test_reshard_lays_an_array_out_as_the_target_says() -> None:
    x = jnp.arange(32.0).reshape(8, 4)
    moved = sharding.reshard(x, NamedSharding(mesh(), P("data", "model")))
    assert moved.sharding == NamedSharding(mesh(), P("data", "model"))
    assert [shard.data.shape for shard in moved.addressable_shards] == [(2, 2)] * 8
    np.testing.assert_array_equal(moved, x)


@pytest.mark.parametrize("dtype", ON_DEVICE, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (8, 2)], ids=str)
def test_reshard_takes_every_dtype_and_shape(dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> None:
    moved = sharding.reshard(jnp.asarray(ones(shape, dtype)), NamedSharding(mesh(), P("data")))
    assert (moved.shape, moved.dtype, len(moved.sharding.device_set)) == (shape, dtype, 8)
    assert np.asarray(moved).tobytes() == ones(shape, dtype).tobytes()


def test_a_dim_that_its_mesh_axes_do_not_divide_is_replicated() -> None:
    moved = sharding.reshard(jnp.zeros((6, 2)), NamedSharding(mesh(), P("data", "model")))
    assert moved.sharding.is_equivalent_to(NamedSharding(mesh(), P(None, "model")), 2)
    moved = sharding.reshard(jnp.zeros(8), NamedSharding(mesh(), P("data", "model")))  # more entries than dims
    assert moved.sharding.is_equivalent_to(NamedSharding(mesh(), P("data")), 1)
    moved = sharding.reshard(jnp.zeros(16), NamedSharding(mesh(), P(("data", "model"))))
    assert [shard.data.shape for shard in moved.addressable_shards] == [(2,)] * 8


def test_reshard_takes_trees_keys_and_other_shardings() -> None:
    keys = jax.random.split(jax.random.key(0, impl="rbg"), 8)
    tree: dict[str, Any] = {"keys": keys, "lr": 0.5}
    moved = sharding.reshard(tree, NamedSharding(mesh(), P("data")))
    assert moved["keys"].sharding.is_equivalent_to(NamedSharding(mesh(), P("data")), 1)
    np.testing.assert_array_equal(jax.random.key_data(moved["keys"]), jax.random.key_data(keys))
    assert isinstance(moved["lr"], jax.Array)
    second = SingleDeviceSharding(jax.devices()[1])
    assert sharding.reshard(keys, second).sharding == second
    few = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("few",)), P("few"))
    assert sharding.reshard(moved["keys"], few).sharding.device_set == set(jax.devices()[:2])


def test_a_bare_spec_needs_a_mesh() -> None:
    with jax.set_mesh(mesh()):
        assert sharding.reshard(jnp.zeros(8), P("data")).sharding == NamedSharding(mesh(), P("data"))
        assert sharding.reshard(jnp.zeros(8), P("elsewhere")).sharding.is_fully_replicated
    with pytest.raises(TreatyError, match=r"expected a mesh for P\w*\('data',\); pass a NamedSharding"):
        sharding.reshard(jnp.zeros(8), P("data"))


@pytest.mark.parametrize("cpu_offload", [False, True])
def test_to_host_replicates(cpu_offload: bool) -> None:
    x = sharding.reshard(jnp.arange(8.0), NamedSharding(mesh(), P("data")))
    half = Mesh(np.array(jax.devices()[4:]), ("half",))
    found = sharding.to_host(x, None, half, cpu_offload)
    assert found.is_fully_replicated
    assert found.sharding.device_set == set(jax.devices("cpu") if cpu_offload else jax.devices()[4:])
    np.testing.assert_array_equal(found, x)


def test_to_host_offloads_keys_and_empty_arrays() -> None:
    keys = jax.random.split(jax.random.key(7), 4)
    found = sharding.to_host(keys, "bf16", mesh(), True)
    np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(keys))
    assert sharding.to_host(jnp.zeros((0, 3), jnp.int4), "bf16", mesh(), True).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["bf16", "bfloat16", jnp.bfloat16, np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_to_host_casts_what_is_floating(dtype: Any) -> None:
    assert sharding.to_host(jnp.ones(3), dtype, mesh(), False).dtype == jnp.bfloat16
    assert sharding.to_host(np.ones(3), dtype, mesh(), False).dtype == jnp.bfloat16
    assert sharding.to_host(jnp.ones(3, jnp.float8_e4m3fn), dtype, mesh(), False).dtype == jnp.bfloat16
    assert sharding.to_host(jnp.ones(3, jnp.int4), dtype, mesh(), False).dtype == jnp.int4
    assert sharding.to_host(jnp.ones(3, jnp.complex64), dtype, mesh(), True).dtype == jnp.complex64


def test_to_host_says_what_it_cannot_cast() -> None:
    with pytest.raises(TreatyError, match="expected the name of a dtype, such as bf16 or float32, got 'half'"):
        sharding.to_host(jnp.ones(3), "half", mesh(), False)
    with pytest.raises(TreatyError, match="expected an array to cast to bf16, got list"):
        sharding.to_host([1.0], "bf16", mesh(), False)
    assert sharding.to_host([1.0], None, mesh(), True) == [1.0]


# Bytes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_estimated_bytes_are_those_of_the_host_array(dtype: "np.dtype[Any]") -> None:
    for shape in [(), (0, 3), (3, 5)]:
        assert sharding.estimate_array_nbytes(np.zeros(shape, dtype)) == np.zeros(shape, dtype).nbytes
        assert sharding.estimate_array_nbytes(abstract(shape, dtype)) == np.zeros(shape, dtype).nbytes


def test_estimated_bytes_of_keys_and_python_values() -> None:
    assert sharding.estimate_array_nbytes(jax.random.split(jax.random.key(0), 3)) == 24
    assert sharding.estimate_array_nbytes(jax.random.split(jax.random.key(0, impl="rbg"), 3)) == 48
    assert [sharding.estimate_array_nbytes(value) for value in (1.5, [1, 2, 3], True, 1j)] == [4, 12, 1, 8]


def test_available_memory_is_half_of_the_host_and_less_on_a_small_device() -> None:
    gib = 2**30
    assert _memory._estimate(64 * gib, {}) == 32 * gib
    assert _memory._estimate(64 * gib, {"bytes_limit": 40 * gib}) == 16 * gib
    assert _memory._estimate(64 * gib, {"bytes_in_use": 5}) == 32 * gib
    assert _memory._estimate(1000, {}) == 100 * 2**20
    assert 100 * 2**20 <= sharding.estimate_available_memory() < 2**50


shapes = st.lists(st.integers(0, 7), max_size=4).map(tuple)


@given(shapes, st.sampled_from(DTYPES), st.integers(1, 200))
def test_chunks_never_exceed_the_limit_and_join_to_the_tensor(
    shape: tuple[int, ...], dtype: "np.dtype[Any]", limit: int
) -> None:
    tensor = ones(shape, dtype)
    limit = max(limit, dtype.itemsize)
    chunks = sharding.chunk_tensor_by_memory(tensor, limit)
    assert all(chunk.nbytes <= limit for chunk in chunks)
    assert all(chunk.ndim == tensor.ndim and (chunk.size or chunk is tensor) for chunk in chunks)
    joined = np.concatenate([chunk.reshape(-1) for chunk in chunks]).reshape(shape)
    assert joined.tobytes() == tensor.tobytes()
    if len(chunks) > 1 and math.prod(shape[1:]) * dtype.itemsize <= limit:
        assert np.concatenate(chunks, axis=0).tobytes() == tensor.tobytes()


def test_chunks_by_example() -> None:
    def shapes_of(tensor: Any, limit: int) -> list[tuple[int, ...]]:
        return [chunk.shape for chunk in sharding.chunk_tensor_by_memory(tensor, limit)]

    assert shapes_of(jnp.zeros((7, 10)), 120) == [(2, 10), (2, 10), (3, 10)]
    assert shapes_of(jnp.zeros((10, 10)), 120) == [(2, 10), (2, 10), (3, 10), (3, 10)]
    assert shapes_of(jnp.zeros((2, 5), jnp.int4), 3) == [(1, 2), (1, 3), (1, 2), (1, 3)]
    assert shapes_of(jnp.zeros(()), 4) == [()]
    assert shapes_of(jnp.zeros((0, 9)), 0) == [(0, 9)]


@pytest.mark.parametrize("limit", [3, 0, -1])
def test_a_limit_below_one_element_is_refused(limit: int) -> None:
    message = f"expected a memory limit of 4 bytes or more, one float32, got {limit}"
    with pytest.raises(TreatyError, match=re.escape(message)):
        sharding.chunk_tensor_by_memory(jnp.zeros((2, 3)), limit)
    with pytest.raises(ValueError, match=re.escape(message)):
        sharding.chunk_tensor_by_memory(jnp.zeros(()), limit)


# Broadcasting, in one process; tests/multihost has the real thing


@pytest.mark.parametrize("dtype", ON_DEVICE, ids=str)
def test_broadcasting_to_oneself_is_placing(dtype: "np.dtype[Any]") -> None:
    tensor = ones((8, 3), dtype)
    target = NamedSharding(mesh(), P("data"))
    assert np.asarray(sharding.broadcast_tensor(tensor, 5)).tobytes() == tensor.tobytes()
    placed = sharding.broadcast_tensor(tensor, 5, target)
    assert (placed.dtype, placed.sharding) == (dtype, target)
    assert np.asarray(placed).tobytes() == tensor.tobytes()


def test_broadcasting_keeps_scalars_empty_arrays_and_keys() -> None:
    assert float(sharding.broadcast_tensor(jnp.float32(3), 1)) == 3
    assert sharding.broadcast_tensor(jnp.zeros((0, 3)), 1).shape == (0, 3)
    keys = jax.random.split(jax.random.key(0), 8)
    placed = sharding.broadcast_tensor(keys, 100, NamedSharding(mesh(), P("data")))
    np.testing.assert_array_equal(jax.random.key_data(placed), jax.random.key_data(keys))


def test_broadcasting_refuses_what_it_would_lose() -> None:
    with pytest.raises(TreatyError, match="expected jax_enable_x64 for float64, got it off"):
        sharding.broadcast_tensor(np.zeros(3), 100)
    with pytest.raises(TreatyError, match="expected a memory limit of 1 byte or more, got 0"):
        sharding.broadcast_tensor(jnp.zeros(3), 0)


def test_flattening_joins_keys_with_dots() -> None:
    assert sharding.flatten_for_broadcast({"a": {"b": 1, "c": {}}, "d": {0: None}}) == {"a.b": 1, "d.0": None}
    flat = {("a", "b"): 1}
    assert sharding.flatten_for_broadcast(flat) is flat
    assert sharding.flatten_for_broadcast({}) == {}


@pytest.mark.parametrize("state", [{"a.b": 1, "a": {"b": 2}}, {"x": {1: 1, "1": 2}}], ids=str)
def test_flattening_refuses_to_drop_a_value(state: dict[str, Any]) -> None:
    with pytest.raises(TreatyError, match=r"expected keys that differ when joined with dots, got '(a.b|x.1)' twice"):
        sharding.flatten_for_broadcast(state)


# Functions by tensor name


def test_gathering_with_functions() -> None:
    state = {"a.b": 1, "c": 2}
    functions = {"a": {"b": lambda value: value + 1}, "c": lambda value: -value}
    assert sharding.apply_gather_functions(state, functions, False, False) == {"a.b": 2, "c": -2}
    assert sharding.apply_gather_functions(state, {"c": abs}, True, False) == {"a.b": 1, "c": 2}
    assert sharding.apply_gather_functions({("a", "b"): -1}, {("a", "b"): abs}, False, False) == {("a", "b"): 1}
    with pytest.raises(KeyError, match=r"expected a gather function, got none at 'a\.b'; pass one or allow mismatches"):
        sharding.apply_gather_functions(state, {"c": abs}, False, False)


def test_gathering_by_flag() -> None:
    state = {"x": sharding.reshard(jnp.arange(8), NamedSharding(mesh(), P("data"))), "n": 3}
    gathered = sharding.apply_gather_functions(state, True, False, False)
    assert type(gathered["x"]) is np.ndarray
    assert gathered["n"] == 3
    assert sharding.apply_gather_functions(state, False, False, False) == state


def test_gathering_verbosely_shows_progress(capfd: pytest.CaptureFixture[str]) -> None:
    assert sharding.apply_gather_functions({"a": -1}, {"a": abs}, False, True) == {"a": 1}
    assert "Gathering state" in capfd.readouterr().err


class Reader:
    def get_tensor(self, name: str) -> Any:
        return {"w": np.arange(3.0), "i": jnp.arange(3), "q": jnp.ones(3, jnp.float8_e5m2)}[name]


def test_reading_one_tensor_shards_calls_back_and_casts() -> None:
    key, tensor, mismatch = sharding.read_process_array(
        "w", {"w": lambda x: x + 1}, False, Reader(), lambda x, name: x * 2 if name == "w" else x, "bf16"
    )
    assert (key, tensor.tolist(), tensor.dtype, mismatch) == ("w", [2, 4, 6], jnp.bfloat16, 0)


def test_reading_casts_only_wide_floats() -> None:
    assert sharding.read_process_array("w", None, False, Reader())[1].dtype == np.float64
    assert sharding.read_process_array("i", None, False, Reader(), dtype="bf16")[1].dtype == jnp.int32
    assert sharding.read_process_array("q", None, False, Reader(), dtype="bf16")[1].dtype == jnp.float8_e5m2


def test_reading_without_a_shard_function() -> None:
    assert sharding.read_process_array("w", {}, False, Reader())[2] == 0
    assert sharding.read_process_array("w", {"other": abs}, True, Reader())[2] == 1
    with pytest.raises(KeyError, match="expected a shard function, got none at 'w'; pass one or allow mismatches"):
        sharding.read_process_array("w", {"w": None}, False, Reader())


def test_an_error_in_a_shard_function_is_no_mismatch() -> None:
    def broken(_: Any) -> Any:
        raise KeyError("no such axis")

    with pytest.raises(KeyError, match="no such axis"):
        sharding.read_process_array("w", {"w": broken}, True, Reader())


# Shard files


@pytest.mark.parametrize("prefix", ["/x/model", "model", "", "a\nb", "run-2", "gs://b/m"])
def test_file_names_lead_back_to_their_prefix(prefix: str) -> None:
    names = [
        prefix,
        f"{prefix}.safetensors",
        sharding.index_filename(prefix),
        sharding.shard_filename(prefix, 1, 4),
        sharding.shard_filename(prefix, 100_000, 123_456),
    ]
    assert {sharding.derive_base_prefix_from_path(name) for name in names} == {prefix}


def test_file_names() -> None:
    assert sharding.shard_filename("/x/model", 1, 4) == "/x/model-00001-of-00004.safetensors"
    assert sharding.index_filename("/x/model") == "/x/model.safetensors.index.json"


states = st.dictionaries(
    st.text("ab.", min_size=1, max_size=5), st.integers(0, 40).map(lambda n: np.zeros(n, np.int8)), max_size=12
)


@given(states, st.integers(-1, 90))
def test_layouts_hold_every_key_once_and_respect_the_limit(state: dict[str, Any], limit: int) -> None:
    for layout in (sharding.group_keys_by_shard_size, sharding.optimize_shard_layout):
        shards = layout(state, limit)
        assert sorted(key for keys in shards for key in keys) == sorted(state)
        assert all(len(keys) == 1 or sum(state[key].nbytes for key in keys) <= limit for keys in shards)
        assert all(shards)
    assert [key for keys in sharding.group_keys_by_shard_size(state, limit) for key in keys] == list(state)


def test_a_module_stays_together_where_it_fits() -> None:
    state = {"b.w": np.zeros(6), "a.w": np.zeros(6), "a.b": np.zeros(1), "b.b": np.zeros(1)}
    assert sharding.group_keys_by_shard_size(state, 60) == [["b.w"], ["a.w", "a.b"], ["b.b"]]
    assert sharding.optimize_shard_layout(state, 60) == [["a.w", "a.b"], ["b.w", "b.b"]]


# Cloud paths


def test_gcs_paths() -> None:
    assert sharding.is_gcs_path("gs://bucket/a")
    assert not sharding.is_gcs_path("/gs://bucket")
    assert not sharding.is_gcs_path(PurePosixPath("/x"))
    assert sharding.parse_gcs_path("gs://bucket/a/b") == ("bucket", "a/b")
    assert sharding.parse_gcs_path("gs://bucket") == ("bucket", "")


@pytest.mark.parametrize("path", ["/x", "GS://b/x", "gs://", "gs:///x"])
def test_a_path_without_bucket_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=f"^expected gs://bucket/name, got '{path}'$"):
        sharding.parse_gcs_path(path)
