"""What is saved comes back, bit for bit, and lies on disk as the format says."""

import json
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorstore as ts
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float32

from tests.runtime.directory.states import Linear, Train, bits, files_of, linear, train
from tests.schema.declared import Everything, everything
from treaty.generator import load
from treaty.runtime import StateMismatchError, from_state_dict, to_state_dict
from treaty.runtime.directory import inspect, restore, save, verify
from treaty.runtime.formats.directory import plan
from treaty.schema import ArraySpec, TreatyError, state
from treaty.schema.dtypes import TABLE

load(Everything)


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    save(tmp_path / "a", train(3))
    restored = restore(tmp_path / "a", Train)
    assert bits(restored) == bits(train(3))
    assert isinstance(restored.params.embed, jax.Array)
    assert type(restored.seen) is np.ndarray
    assert restored.note == "run 3"


@pytest.mark.usefixtures("fine_layout")
def test_every_kind_of_leaf_comes_back_as_from_a_state_dict(tmp_path: Path) -> None:
    value = everything()
    save(tmp_path / "a", value)
    assert bits(restore(tmp_path / "a", Everything)) == bits(from_state_dict(Everything, to_state_dict(value)))
    on_host = restore(tmp_path / "a", Everything, into="numpy")
    assert bits(on_host) == bits(from_state_dict(Everything, to_state_dict(value), into="numpy"))


@pytest.mark.parametrize("dtype", TABLE, ids=lambda row: row.name)
@pytest.mark.usefixtures("fine_layout")
def test_every_dtype_keeps_its_bits_in_chunks(dtype: Any, tmp_path: Path) -> None:
    @state
    class One:
        x: Annotated[np.ndarray[Any, Any], ArraySpec(dtype.name, "n m")]

    load(One)
    raw = np.random.default_rng(0).integers(0, 2 if dtype.name == "bool" else 256, 64 * 4 * dtype.itemsize, np.uint8)
    if dtype.name in ("int1", "uint1", "int2", "uint2", "int4", "uint4", "float4_e2m1fn") or "float6" in dtype.name:
        raw = np.arange(256).astype(dtype.numpy).view(np.uint8)
    array = raw.view(dtype.numpy).reshape(64, 4)
    save(tmp_path / "a", One(x=array))
    assert bits(restore(tmp_path / "a", One)) == bits(One(x=array))
    assert verify(tmp_path / "a").nbytes == array.nbytes
    assert dtype.itemsize == dtype.numpy.itemsize


def test_ten_thousand_small_leaves_are_a_handful_of_files(tmp_path: Path) -> None:
    @state
    class Many:
        w: dict[str, Float32[np.ndarray, "n"]]

    load(Many)
    many = Many(w={f"layer.{i}/x": np.full(4, i, np.float32) for i in range(10_000)})
    save(tmp_path / "many", many)
    assert len(files_of(tmp_path / "many")) == 2
    assert bits(restore(tmp_path / "many", Many)) == bits(many)


@pytest.mark.usefixtures("fine_layout")
def test_other_readers_of_zarr_open_the_arrays(tmp_path: Path) -> None:
    value = linear(16, 32)
    save(tmp_path / "a", value)
    (data,) = (tmp_path / "a").glob("data-*")
    spec = {"driver": "zarr3", "kvstore": f"file://{data}/0/", "fill_missing_data_reads": False}
    store = ts.open(spec).result()
    assert np.array_equal(store.read().result(), np.asarray(value.kernel))
    assert json.loads((data / "0" / "zarr.json").read_text())["attributes"]["treaty"]["path"] == "$.kernel"
    assert json.loads((data / "zarr.json").read_text())["node_type"] == "group"


@pytest.mark.usefixtures("fine_layout")
def test_arrays_in_other_orders_are_stored_by_value(tmp_path: Path) -> None:
    @state
    class One:
        x: Float32[np.ndarray, "a b"]

    load(One)
    array = np.arange(48 * 16, dtype=np.float32).reshape(48, 16)
    others = [np.asfortranarray(array), np.repeat(array, 2, axis=0)[::2]]
    for number, other in enumerate(others):
        save(tmp_path / str(number), One(x=other))
        assert bits(restore(tmp_path / str(number), One)) == bits(One(x=array))


@pytest.mark.usefixtures("fine_layout")
def test_the_byte_order_of_untyped_arrays_does_not_matter(tmp_path: Path) -> None:
    @state
    class Loose:
        anything: Any

    load(Loose)
    array = np.arange(48, dtype=np.float32)
    save(tmp_path / "a", Loose(anything=array.astype(array.dtype.newbyteorder())))
    assert bits(restore(tmp_path / "a", Loose)) == bits(Loose(anything=array))


def test_restored_numpy_arrays_are_the_callers_own(tmp_path: Path) -> None:
    save(tmp_path / "a", train())
    restored = restore(tmp_path / "a", Train, into="numpy")
    restored.seen[0] = 7
    assert restore(tmp_path / "a", Train).seen[0] == 0


@pytest.mark.usefixtures("fine_layout")
def test_a_sharded_state_is_saved_from_its_shards(tmp_path: Path) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    value = linear(16, 32)
    spec: Any = PartitionSpec
    kernel = jax.device_put(value.kernel, NamedSharding(mesh, spec("y", "x")))
    bias = jax.device_put(value.bias, NamedSharding(mesh, spec(None)))
    save(tmp_path / "a", Linear(kernel=kernel, bias=bias))
    assert bits(restore(tmp_path / "a", Linear)) == bits(value)
    leaf: Any
    (leaf,) = (leaf for leaf in inspect(tmp_path / "a").leaves if leaf.path == ("kernel",))
    assert all(shard % chunk == 0 for shard, chunk in zip((8, 8), leaf.chunks, strict=True))


def test_metadata_and_dims_are_kept(tmp_path: Path) -> None:
    save(tmp_path / "a", train(), metadata={"epoch": 3, "tags": ["a", None]})
    found = inspect(tmp_path / "a")
    assert found.metadata == {"epoch": 3, "tags": ["a", None]}
    assert found.dims == {"streams": 4, "n": 16}
    assert str(found.class_id).endswith(":Train")
    assert found.nbytes == sum(leaf.nbytes for leaf in found.leaves) > 0


_deep: list[Any] = []
for _ in range(100_000):
    _deep = [_deep]


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": (1, 2)},
        {1: 2},
        {"a": object()},
        {"a": float("nan")},
        {"a": np.float32(1)},
        {"a": b"bytes"},
        {"a": 10**5000},
        {"a": _deep},
        [("a", 1)],
        7,
        "text",
    ],
    ids=lambda metadata: str(metadata)[:20] if type(metadata) is not dict else "",
)
def test_metadata_that_json_would_change_is_refused(metadata: Any, tmp_path: Path) -> None:
    with pytest.raises(TreatyError, match="metadata: expected what JSON"):
        save(tmp_path / "a", train(), metadata=metadata)
    assert not (tmp_path / "a").exists()


def test_a_state_that_does_not_fit_its_class_is_not_saved(tmp_path: Path) -> None:
    value = train()
    wrong = Train(step=jnp.float32(1), params=value.params, rng=value.rng, seen=value.seen)
    with pytest.raises(StateMismatchError, match=r"expected int32\[\], got float32\[\] at \$\.step"):
        save(tmp_path / "a", wrong)
    assert not (tmp_path / "a").exists()


def test_a_class_without_fields_is_a_checkpoint_too(tmp_path: Path) -> None:
    @state
    class Nothing:
        pass

    load(Nothing)
    save(tmp_path / "a", Nothing())
    assert isinstance(restore(tmp_path / "a", Nothing), Nothing)


@pytest.mark.parametrize("name", ["with space", "ünï", "per%20cent", "a.b", "x" * 200])
def test_any_name_of_a_directory_will_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / name / "deep"
    save(str(path), linear(2, 3))
    assert bits(restore(path, Linear)) == bits(linear(2, 3))
    assert bits(restore(path.as_uri(), Linear)) == bits(linear(2, 3))


def test_values_that_messagepack_cannot_hold_are_named(tmp_path: Path) -> None:
    @state
    class Loose:
        anything: Any

    load(Loose)
    with pytest.raises(TreatyError, match=r"expected a value that MessagePack holds, got .* at \$\.anything\.x"):
        save(tmp_path / "a", Loose(anything={"x": object()}))
    save(tmp_path / "a", Loose(anything={"x": [jnp.arange(3), None, 2**200, -(2**70)]}))
    restored = restore(tmp_path / "a", Loose).anything["x"]
    assert restored["2"] == 2**200
    assert restored["3"] == -(2**70)


def test_an_array_without_axes_may_have_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one has that only another process than the first holds."""
    monkeypatch.setattr(plan, "SMALL_BYTES", 1)
    save(tmp_path / "step", train())
    assert bits(restore(tmp_path / "step", Train)) == bits(train())
