"""treaty.runtime.sharding against the real eformer.serialization.utils: what is the same, and each thing that is not."""

import importlib
import inspect
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from treaty.runtime import sharding
from treaty.schema import TreatyError

P: Any = PartitionSpec
NAMES = [name for name, value in vars(sharding).items() if inspect.isfunction(value)]


def load_eformer() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("eformer.serialization.utils")
        except ImportError as error:
            pytest.skip(f"eformer is not installed here: {error}", allow_module_level=True)


eformer = load_eformer()
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # it enters meshes with `with mesh:`


def mesh(kind: AxisType = AxisType.Auto) -> Mesh:
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind, kind))


def outcome(function: Any, *args: Any) -> Any:
    """The result, or the built-in class of the error: ours are TreatyErrors too."""
    try:
        return function(*args)
    except (ValueError, TypeError, KeyError) as error:
        return next(base for base in (KeyError, ValueError, TypeError) if isinstance(error, base))


@pytest.mark.parametrize("name", NAMES)
def test_same_arguments(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (sharding, eformer))
    assert list(ours) == list(theirs)
    assert [one.default for one in ours.values()] == [one.default for one in theirs.values()]


def test_no_name_is_missing() -> None:
    theirs = {name for name, value in vars(eformer).items() if getattr(value, "__module__", "") == eformer.__name__}
    assert theirs - {"logger"} == set(NAMES)


# The same


@pytest.mark.parametrize("spec", [P("data"), P("data", "model"), P(None, "model"), P(("data", "model"))], ids=str)
@pytest.mark.parametrize("shape", [(8, 4), (6, 4), (8, 3), (16,), (5,)], ids=str)
def test_reshard_gives_the_same_layout(spec: Any, shape: tuple[int, ...]) -> None:
    x = jnp.arange(math.prod(shape)).reshape(shape)
    ours, theirs = (module.reshard(x, NamedSharding(mesh(), spec)) for module in (sharding, eformer))
    assert ours.sharding.is_equivalent_to(theirs.sharding, len(shape))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [None, "bf16", "fp16", "float32", "fp8", "fp8_e4m3fn", jnp.float16], ids=str)
@pytest.mark.parametrize("x", [jnp.ones(3), jnp.ones(3, jnp.bfloat16), jnp.arange(3), np.ones(3)], ids=repr)
def test_casts_are_the_same(x: Any, dtype: Any) -> None:
    class Reader:
        def get_tensor(self, name: str) -> Any:
            return x

    ours, theirs = (module.to_host(x, dtype, mesh(), False) for module in (sharding, eformer))
    assert (type(ours), ours.dtype) == (type(theirs), theirs.dtype)
    _, ours, _ = sharding.read_process_array("x", None, False, Reader(), None, dtype)
    _, theirs, _ = eformer.read_process_array("x", None, False, Reader(), None, dtype)
    assert (type(ours), ours.dtype) == (type(theirs), theirs.dtype)


@pytest.mark.parametrize(
    "name", ["bool", "int2", "int4", "uint4", "float4_e2m1fn", "float8_e5m2", "bfloat16", "float32"]
)
def test_byte_counts_are_the_same(name: str) -> None:
    for shape in [(), (0, 2), (3, 5)]:
        x = jnp.zeros(shape, name if name == "bool" else getattr(jnp, name))
        assert sharding.estimate_array_nbytes(x) == eformer.estimate_array_nbytes(x)
    for value in (1.5, [1, 2], True):
        assert sharding.estimate_array_nbytes(value) == eformer.estimate_array_nbytes(value)


def test_available_memory_is_about_the_same() -> None:
    assert sharding.estimate_available_memory() == pytest.approx(eformer.estimate_available_memory(), rel=0.5)


states = st.dictionaries(
    st.text("ab.", min_size=1, max_size=5), st.integers(0, 40).map(lambda n: np.zeros(n, np.int8)), max_size=12
)


@given(states, st.integers(-1, 90))
def test_layouts_are_the_same(state: dict[str, Any], limit: int) -> None:
    assert sharding.group_keys_by_shard_size(state, limit) == eformer.group_keys_by_shard_size(state, limit)
    assert sharding.optimize_shard_layout(state, limit) == eformer.optimize_shard_layout(state, limit)


@given(st.lists(st.integers(0, 12), max_size=3).map(tuple), st.integers(8, 300))
def test_chunks_are_the_same_where_eformer_respects_the_limit(shape: tuple[int, ...], limit: int) -> None:
    tensor = np.zeros(shape)
    theirs = eformer.chunk_tensor_by_memory(tensor, limit)
    if all(chunk.nbytes <= limit for chunk in theirs):
        ours = sharding.chunk_tensor_by_memory(tensor, limit)
        assert [chunk.shape for chunk in ours] == [chunk.shape for chunk in theirs]


PATHS = [
    "/x/model",
    "model.safetensors",
    "m.safetensors.index.json",
    "m-00001-of-00004.safetensors",
    "",
    ".safetensors",
]
PATHS += ["m-00001-of-00002", "m-1-of-2.safetensors", "a-00001-of-00002.safetensors.index.json", "x.json"]
PATHS += ["gs://bucket/a/b", "gs://bucket", "gs://bucket/", "GS://bucket"]


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_read_the_same(path: str) -> None:
    for name in ("derive_base_prefix_from_path", "is_gcs_path", "parse_gcs_path", "index_filename"):
        assert outcome(getattr(sharding, name), path) == outcome(getattr(eformer, name), path)
    assert sharding.shard_filename(path, 3, 12) == eformer.shard_filename(path, 3, 12)


def test_path_objects_are_read_the_same() -> None:
    paths = importlib.import_module("eformer.paths")
    assert sharding.is_gcs_path(paths.LocalPath("/x")) is eformer.is_gcs_path(paths.LocalPath("/x")) is False
    cloud = object.__new__(paths.GCSPath)  # its constructor wants credentials
    cloud.path = "gs://bucket/x"
    assert sharding.is_gcs_path(cloud) is eformer.is_gcs_path(cloud) is True
    assert sharding.parse_gcs_path(cloud) == eformer.parse_gcs_path(cloud) == ("bucket", "x")


@pytest.mark.parametrize(
    "state", [{}, {"a": {"b": 1, "c": {}}, "d": {0: None}}, {("a", "b"): 1}, {"a": [{"b": 1}]}], ids=str
)
def test_flattening_is_the_same(state: dict[Any, Any]) -> None:
    ours, theirs = sharding.flatten_for_broadcast(state), eformer.flatten_for_broadcast(state)
    assert list(ours.items()) == list(theirs.items())


@pytest.mark.parametrize("functions", [True, {"a": {"b": abs}, "c": abs}, {"c": abs}, {}, {("a", "b"): abs}], ids=str)
@pytest.mark.parametrize("allowed", [True, False])
def test_gathering_is_the_same(functions: Any, allowed: bool) -> None:
    state = {"a.b": -1, "c": -2}
    assert outcome(sharding.apply_gather_functions, state, functions, allowed, False) == outcome(
        eformer.apply_gather_functions, state, functions, allowed, False
    )


@pytest.mark.parametrize("functions", [None, {}, {"x": abs}, {"x": None}, {"y": abs}], ids=str)
@pytest.mark.parametrize("allowed", [True, False])
def test_reading_is_the_same(functions: Any, allowed: bool) -> None:
    class Reader:
        def get_tensor(self, name: str) -> Any:
            return np.int8(-3)

    args = ("x", functions, allowed, Reader(), lambda x, name: x * 2)
    assert outcome(sharding.read_process_array, *args) == outcome(eformer.read_process_array, *args)


def test_broadcast_values_are_the_same() -> None:
    x = jnp.arange(24.0).reshape(8, 3)
    target = NamedSharding(mesh(), P("data"))
    for limit in (1, 40, 1000):
        ours, theirs = (module.broadcast_tensor(x, limit, target) for module in (sharding, eformer))
        assert ours.sharding == theirs.sharding
        np.testing.assert_array_equal(ours, theirs)


# The differences: theirs first, ours second


def test_chunks_respect_the_limit_where_eformer_does_not() -> None:
    short = jnp.zeros((2, 100))
    assert [chunk.nbytes for chunk in eformer.chunk_tensor_by_memory(short, 120)] == [800]
    assert max(chunk.nbytes for chunk in sharding.chunk_tensor_by_memory(short, 120)) <= 120
    uneven = jnp.zeros((10, 10))
    assert max(chunk.nbytes for chunk in eformer.chunk_tensor_by_memory(uneven, 120)) == 160
    assert max(chunk.nbytes for chunk in sharding.chunk_tensor_by_memory(uneven, 120)) == 120


def test_impossible_limits_are_named() -> None:
    with pytest.raises(ZeroDivisionError):
        eformer.chunk_tensor_by_memory(jnp.zeros(3), 0)
    assert eformer.chunk_tensor_by_memory(jnp.zeros(3), -5) == []  # nothing of the tensor is left
    for limit in (0, -5):
        with pytest.raises(TreatyError, match=f"expected a memory limit of 4 bytes or more, one float32, got {limit}"):
            sharding.chunk_tensor_by_memory(jnp.zeros(3), limit)
    with pytest.raises(ZeroDivisionError):
        eformer.broadcast_tensor(jnp.zeros(3), 0)
    with pytest.raises(TreatyError, match="expected a memory limit of 1 byte or more, got 0"):
        sharding.broadcast_tensor(jnp.zeros(3), 0)


def test_to_host_replicates_and_offloads_where_eformer_leaves_the_array() -> None:
    x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh(), P("data")))
    for cpu_offload in (False, True):
        assert not eformer.to_host(x, None, mesh(), cpu_offload).is_fully_replicated
        assert sharding.to_host(x, None, mesh(), cpu_offload).is_fully_replicated


def test_reshard_takes_explicit_meshes_and_empty_specs() -> None:
    explicit = NamedSharding(mesh(AxisType.Explicit), P("data"))
    assert outcome(eformer.reshard, jnp.zeros(8), explicit) is ValueError
    assert sharding.reshard(jnp.zeros(8), explicit).sharding == explicit
    everywhere = NamedSharding(mesh(), P())
    assert len(eformer.reshard(jnp.zeros(8), everywhere).sharding.device_set) == 1
    assert len(sharding.reshard(jnp.zeros(8), everywhere).sharding.device_set) == 8


def test_a_bare_spec_without_a_mesh_is_an_error_and_not_ignored() -> None:
    assert len(eformer.reshard(jnp.zeros(8), P("data")).sharding.device_set) == 1
    assert outcome(sharding.reshard, jnp.zeros(8), P("data")) is ValueError


def test_keys_have_a_size() -> None:
    keys = jax.random.split(jax.random.key(0), 8)
    assert outcome(eformer.estimate_array_nbytes, keys) is TypeError
    assert sharding.estimate_array_nbytes(keys) == 64


def test_a_broadcast_is_a_jax_array_of_the_same_dtype() -> None:
    assert type(eformer.broadcast_tensor(jnp.zeros(3), 1000)) is np.ndarray
    assert isinstance(sharding.broadcast_tensor(jnp.zeros(3), 1000), jax.Array)
    assert eformer.broadcast_tensor(np.zeros((4, 2)), 40).dtype == np.float32  # was float64
    assert outcome(sharding.broadcast_tensor, np.zeros((4, 2)), 40) is ValueError


def test_flattening_drops_nothing() -> None:
    assert eformer.flatten_for_broadcast({"a.b": 1, "a": {"b": 2}}) == {"a.b": 2}
    assert outcome(sharding.flatten_for_broadcast, {"a.b": 1, "a": {"b": 2}}) is ValueError


def test_gathering_with_false_leaves_the_state() -> None:
    with pytest.raises(AttributeError):
        eformer.apply_gather_functions({"a": 1}, False, True, False)
    assert sharding.apply_gather_functions({"a": 1}, False, True, False) == {"a": 1}


def test_an_error_in_a_shard_function_is_not_swallowed() -> None:
    class Reader:
        def get_tensor(self, name: str) -> Any:
            return np.zeros(3)

    def broken(_: Any) -> Any:
        raise KeyError("no such axis")

    assert eformer.read_process_array("x", {"x": broken}, True, Reader())[2] == 1
    with pytest.raises(KeyError, match="no such axis"):
        sharding.read_process_array("x", {"x": broken}, True, Reader())


def test_prefixes_of_many_shards_and_of_names_with_newlines_are_found() -> None:
    many = sharding.shard_filename("m", 100_000, 123_456)
    assert eformer.derive_base_prefix_from_path(many) == "m-100000-of-123456"
    assert sharding.derive_base_prefix_from_path(many) == "m"
    assert eformer.derive_base_prefix_from_path("a\nb-00001-of-00002.safetensors") == "a\nb-00001-of-00002"
    assert sharding.derive_base_prefix_from_path("a\nb-00001-of-00002.safetensors") == "a\nb"


def test_a_cloud_path_has_a_bucket() -> None:
    assert eformer.parse_gcs_path("gs:///x") == ("", "x")
    assert outcome(sharding.parse_gcs_path, "gs:///x") is ValueError
