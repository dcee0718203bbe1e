"""safetensors: round trips, files that the real library reads and writes, shards, and what is left after a failure."""

import json
import os
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from jax.tree_util import Partial
from jaxtyping import Float32

from tests.generator.cases.every_leaf import schema as leaves
from tests.generator.cases.train_state import schema
from treaty.generator import load as compile
from treaty.runtime import CorruptCheckpointError, StateMismatchError, to_state_dict
from treaty.runtime._lazy import LazyArray
from treaty.runtime.formats import safetensors as format
from treaty.schema import TreatyError, field, state
from treaty.schema.dtypes import TABLE

Call: Any = Partial
deserialize: Any = safetensors.deserialize
spec: Any = safetensors.TensorSpec


@state
class Foreign:
    """As a file of another project has it: names with dots are single keys."""

    embed: Float32[np.ndarray, "vocab d"] = field(key="model.embed.weight")
    head: Float32[np.ndarray, "vocab d"] = field(key="lm_head.weight")
    extra: dict[str, Float32[np.ndarray, "k"]] = field(key="model")


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    compile(Foreign)


def linear(d_in: int, d_out: int) -> schema.Linear:
    return schema.Linear(kernel=jnp.arange(d_in * d_out, dtype=jnp.float32).reshape(d_in, d_out), bias=jnp.ones(d_out))


def train_state(layers: int = 2) -> schema.TrainState:
    return schema.TrainState(
        step=jnp.int32(7),
        embed=jnp.arange(32).reshape(8, 4).astype(jnp.bfloat16),
        blocks=tuple(schema.Block(up=linear(4, 16), down=linear(16, 4)) for _ in range(layers)),
        rng=jax.random.key(3),
        note="first",
    )


def every_leaf() -> leaves.Leaves:
    two = np.arange(2)
    return leaves.Leaves(
        boolean=jnp.array([True, False]),
        tiny=jnp.array([-8, 7], jnp.int4),
        byte=two.astype(np.uint8),
        small=jnp.array([0.5, -448], jnp.float8_e4m3fn),
        brain=two.astype(ml_dtypes.bfloat16),
        double=two + 0.1,
        imaginary=jnp.array([1j, -0.0]),
        spec=jnp.array([1, 2], jnp.float8_e3m4),
        deep=jnp.ones((1, 1, 1, 1, 1, 2)),
        key=jax.random.split(jax.random.key(0), 2),
        rbg=jax.random.key(1, impl="rbg"),
        an_int=2**70,
        a_float=float("nan"),
        a_bool=True,
        a_str="\ud800 \u00e4 \0",
        a_bytes=bytes(range(256)),
        a_complex=complex("inf-0j"),
        nothing=None,
        numpy_half=np.float16(1.5),
        numpy_brain=ml_dtypes.bfloat16(2.5),
    )


def containers() -> leaves.Containers:
    x = jnp.ones(3)
    moments = leaves.Moments(x, 2 * x)
    return leaves.Containers(
        moments=moments,
        scales={"low": x, "high": 1.0},
        foreign=leaves.Foreign(jnp.int32(1), moments),
        call=Call(leaves.scaled, x, by=jnp.float32(2)),
        pair=(x, (3, moments)),
        empty=(),
        names=["a", "b"],
        nested={"k.q": [jnp.ones(2), None], "k": [], "": [jnp.ones(2)]},
        numbered={3: moments},
        maybe_list=[moments],
        maybe_mode=leaves.Mode.EVAL,
        anything={"a": (1, x), "e": {}},
        shape=(1, 2),
    )


def same(one: Any, other: Any) -> bool:
    """Whether two state dicts are equal to the bit, types included."""
    if isinstance(one, dict):
        return isinstance(other, dict) and set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (np.ndarray, jax.Array)):
        a, b = np.asarray(one), np.asarray(other)
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize("max_shard_bytes", [None, 40])
@pytest.mark.parametrize("make", [train_state, every_leaf, containers])
def test_what_is_saved_is_restored(make: Any, max_shard_bytes: int | None, tmp_path: Path) -> None:
    value = make()
    format.save(tmp_path / "m.safetensors", value, max_shard_bytes=max_shard_bytes)
    assert (tmp_path / "m.safetensors").exists() == (max_shard_bytes is None)
    restored = format.restore(tmp_path / "m.safetensors", type(value))
    assert type(restored) is type(value)
    assert same(to_state_dict(restored), to_state_dict(value))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)], ids=str)
def test_every_dtype_and_shape_survives(row: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.arange(6)[: int(np.prod(shape))].reshape(shape).astype(bool).astype(row.numpy)
    format.dump(tmp_path / "m.safetensors", {"a": {"b": array, "f": array.reshape(shape[::-1])}, "odd": np.True_})
    tree, metadata = format.load(tmp_path / "m.safetensors")
    assert same(tree["a"]["b"], array)
    assert metadata == {"format": "pt"}
    deserialize((tmp_path / "m.safetensors").read_bytes())


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.sampled_from([".", "a.b", "a", "\\", "__m"])
values: Any = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
trees = st.dictionaries(
    names,
    st.recursive(values | st.just(np.ones(2)), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=6),
    max_size=4,
)


def array_paths(node: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(node, dict):
        return [found for key, one in node.items() for found in array_paths(one, (*path, key))]
    return [path] if isinstance(node, np.ndarray) else []


@given(trees)
def test_any_tree_survives_or_is_refused_for_its_names(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "m.safetensors"
    named = [".".join(keys) for keys in array_paths(tree)]
    if len(set(named)) < len(named):
        with pytest.raises(TreatyError, match="expected keys that differ when joined with dots"):
            format.dump(path, tree)
        return
    format.dump(path, tree)
    assert same(format.load(path)[0], tree)


# The real library


def test_the_library_reads_what_we_write(tmp_path: Path) -> None:
    value = train_state()
    format.save(tmp_path / "m.safetensors", value, metadata={"author": "me"})
    with safetensors.safe_open(tmp_path / "m.safetensors", framework="numpy") as file:
        assert file.metadata()["author"] == "me"
        assert file.metadata()["format"] == "pt"
        assert json.loads(file.metadata()["treaty"])["values"] == [
            [["rng", "impl"], "threefry2x32"],
            [["lr"], 0.001],
            [["note"], "first"],
        ]
        assert "blocks.1.up.kernel" in file.keys()  # noqa: SIM118 -- not a dict
        np.testing.assert_array_equal(file.get_tensor("blocks.1.up.kernel"), value.blocks[1].up.kernel)


def test_plain_arrays_make_a_plain_file(tmp_path: Path) -> None:
    format.save(tmp_path / "m.safetensors", linear(2, 3))
    loaded = safetensors.numpy.load_file(tmp_path / "m.safetensors")
    assert {name: array.tolist() for name, array in loaded.items()} == {
        "kernel": [[0, 1, 2], [3, 4, 5]],
        "bias": [1, 1, 1],
    }
    with safetensors.safe_open(tmp_path / "m.safetensors", framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    arrays = {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "m.safetensors", metadata={"who": "library"})
    assert same(to_state_dict(format.restore(tmp_path / "m.safetensors", schema.Linear)), arrays)
    assert format.load(tmp_path / "m.safetensors")[1] == {"who": "library"}


def test_we_read_bfloat16_and_float8_that_the_librarys_numpy_does_not(tmp_path: Path) -> None:
    arrays = {"b": np.arange(3).astype(ml_dtypes.bfloat16), "f": np.arange(3).astype(ml_dtypes.float8_e4m3fn)}
    specs = {
        name: spec(dtype=one.dtype.name, shape=one.shape, data_ptr=one.ctypes.data, data_len=one.nbytes)
        for name, one in arrays.items()
    }
    safetensors.serialize_file(specs, tmp_path / "m.safetensors")
    with pytest.raises((KeyError, AttributeError), match=r"BF16|F8_E4M3|bfloat16|float8"):
        safetensors.numpy.load_file(tmp_path / "m.safetensors")
    assert same(format.load(tmp_path / "m.safetensors")[0], arrays)


def test_a_foreign_file_is_split_by_the_schema_and_tied_tensors_are_found(tmp_path: Path) -> None:
    arrays = {"model.embed.weight": np.ones((2, 3), np.float32), "model.norm.scale": np.ones(3, np.float32)}
    ties = {"lm_head.weight": "model.embed.weight", "format": "pt"}  # as safetensors.torch.save_model notes them
    safetensors.numpy.save_file(arrays, tmp_path / "m.safetensors", metadata=ties)
    restored = format.restore(tmp_path / "m.safetensors", Foreign)
    assert restored.head.tolist() == restored.embed.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert list(restored.extra) == ["norm.scale"]
    format.save(tmp_path / "again.safetensors", restored)
    assert same(to_state_dict(format.restore(tmp_path / "again.safetensors", Foreign)), to_state_dict(restored))
    assert set(safetensors.numpy.load_file(tmp_path / "again.safetensors")) == {*arrays, "lm_head.weight"}


def test_another_class_is_a_mismatch(tmp_path: Path) -> None:
    format.save(tmp_path / "m.safetensors", linear(2, 3))
    with pytest.raises(StateMismatchError, match=r"got float32\[2, 3\] at \$\.kernel"):
        format.restore(tmp_path / "m.safetensors", schema.Linear, dims={"d_in": 4})
    template = linear(2, 4)
    with pytest.raises(StateMismatchError, match=r"at \$\.bias"):
        format.restore(tmp_path / "m.safetensors", template)


def test_host_arrays_are_aligned_read_only_views_of_the_file(tmp_path: Path) -> None:
    tree = {"byte": np.ones(3, np.int8), "wide": np.ones(5), "half": np.ones(3, np.float16), "last": np.ones(1)}
    format.dump(tmp_path / "m.safetensors", tree)
    loaded, _ = format.load(tmp_path / "m.safetensors")
    assert list(loaded) == list(tree)
    assert all(array.flags.aligned and not array.flags.writeable for array in loaded.values())
    assert all(array.base is not None for array in loaded.values())


def test_arrays_in_any_order_of_memory_and_byte_are_stored_in_the_formats(tmp_path: Path) -> None:
    tree = {
        "t": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "big": np.arange(3, dtype=">i4"),
        "s": np.arange(9)[::2],
    }
    format.dump(tmp_path / "m.safetensors", tree)
    loaded = safetensors.numpy.load_file(tmp_path / "m.safetensors")
    for name, array in tree.items():
        np.testing.assert_array_equal(loaded[name], array)


# Shards


def test_shards_and_index_are_as_hugging_face_has_them(tmp_path: Path) -> None:
    value = train_state()
    format.save(tmp_path / "model.safetensors", value, max_shard_bytes=600, metadata={"author": "me"})
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in tmp_path.iterdir())
    count, save = len(files) - 1, index["metadata"]["treaty.save"]
    assert files == [
        *(f"model-{save}-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)),
        "model.safetensors.index.json",
    ]
    found: dict[str, str] = {}
    total = 0
    for name in files[:-1]:
        parts = dict(deserialize((tmp_path / name).read_bytes()))
        sizes = [len(part["data"]) for part in parts.values()]
        assert len(sizes) == 1 or sum(sizes) <= 600
        total += sum(sizes)
        found |= dict.fromkeys(parts, name)
        with safetensors.safe_open(tmp_path / name, framework="numpy") as file:
            assert file.metadata() == {"format": "pt", "author": "me", "treaty.save": save}
    assert index["weight_map"] == found
    assert index["metadata"]["total_size"] == total
    by_index = format.restore(tmp_path / "model.safetensors.index.json", schema.TrainState)
    assert same(to_state_dict(by_index), to_state_dict(value))
    assert format.load(tmp_path / "model.safetensors")[1] == {"format": "pt", "author": "me"}


def test_a_sharded_checkpoint_of_the_library_is_read(tmp_path: Path) -> None:
    kernel, bias = np.ones((2, 3), np.float32), np.zeros(3, np.float32)
    safetensors.numpy.save_file(
        {"kernel": kernel}, tmp_path / "m-00001-of-00002.safetensors", metadata={"format": "pt"}
    )
    safetensors.numpy.save_file({"bias": bias}, tmp_path / "m-00002-of-00002.safetensors")
    weight_map = {"bias": "m-00002-of-00002.safetensors", "kernel": "m-00001-of-00002.safetensors"}
    index = {"metadata": {"total_size": 36}, "weight_map": weight_map}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps(index))
    restored = format.restore(tmp_path / "m.safetensors", schema.Linear, into="numpy")
    assert same(to_state_dict(restored), {"kernel": kernel, "bias": bias})


def test_a_save_replaces_whatever_was_there_under_its_name(tmp_path: Path) -> None:
    other = tmp_path / "model-2.safetensors"
    other.write_bytes(b"somebody else's")
    path = tmp_path / "model.safetensors"
    for limit in (None, 300, 100, None, 10**6):
        format.save(path, train_state(), max_shard_bytes=limit)
        shards = list(tmp_path.glob("model-*-of-*"))
        assert {shard.name.split("-of-")[1][:5] for shard in shards} <= {f"{len(shards):05d}"}
        assert path.exists() != (tmp_path / "model.safetensors.index.json").exists()
        assert same(to_state_dict(format.restore(path, schema.TrainState)), to_state_dict(train_state()))
    assert other.read_bytes() == b"somebody else's"


@pytest.mark.parametrize("limit", [None, 100])
def test_a_failed_save_leaves_what_was_there(
    limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    format.save(path, train_state(1), max_shard_bytes=limit)
    before = {found.name: found.read_bytes() for found in tmp_path.iterdir()}
    writev, left = os.writev, iter(range(0 if limit is None else 2))

    def full(descriptor: int, buffers: Any) -> int:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return writev(descriptor, buffers)

    monkeypatch.setattr("treaty.runtime._storage.files.os.writev", full)
    with pytest.raises(OSError, match="No space left"):
        format.save(path, train_state(3), max_shard_bytes=limit)
    assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == before


def test_a_save_onto_the_file_it_was_restored_from(tmp_path: Path) -> None:
    format.save(tmp_path / "m.safetensors", linear(2, 3))
    restored = format.restore(tmp_path / "m.safetensors", schema.Linear, into="numpy")
    format.save(tmp_path / "m.safetensors", restored)
    assert same(to_state_dict(restored), to_state_dict(format.restore(tmp_path / "m.safetensors", schema.Linear)))


def test_neither_writing_nor_reading_makes_a_second_copy(tmp_path: Path) -> None:
    tree = {"host": np.ones(2**21), "device": jnp.ones(2**22), "half": jnp.ones(2**22, jnp.bfloat16)}
    for limit in (None, 2**20):
        tracemalloc.start()
        format.dump(tmp_path / "m.safetensors", tree, max_shard_bytes=limit)
        loaded, _ = format.load(tmp_path / "m.safetensors")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**20
        assert same(loaded, tree)


def test_lazy_arrays_are_read_one_at_a_time(tmp_path: Path) -> None:
    size, count = 2**24, 12
    tree = {str(n): LazyArray((size,), np.dtype(np.uint8), partial(np.full, size, n, np.uint8)) for n in range(count)}
    tracemalloc.start()
    format.dump(tmp_path / "m.safetensors", tree, max_shard_bytes=3 * size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * size  # what is gathered for a write, of 12
    loaded, _ = format.load(tmp_path / "m.safetensors")
    assert [(int(array[0]), int(array[-1])) for array in loaded.values()] == [(n, n) for n in range(count)]


# What cannot be saved


def refused(path: Path, tree: Any, message: str, **options: Any) -> None:
    with pytest.raises(TreatyError, match=message):
        format.dump(path, tree, **options)
    assert not list(path.parent.iterdir())


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    path, one = tmp_path / "m.safetensors", np.ones(1)
    refused(path, {"a.b": one, "a": {"b": one}}, "expected keys that differ when joined with dots, got 'a.b' twice")
    refused(path, {"a": {"s": {1, 2}}}, r"expected an array or a Python value, got set at \$\.a\.s")
    refused(path, {"a": np.array(["x"])}, r"expected a dtype of numbers, got <U1 at \$\.a")
    refused(path, {"k": jax.random.key(0)}, r"expected a dtype of numbers, got key<fry> at \$\.k")
    refused(path, {"__metadata__": one}, "expected other names than __metadata__")
    refused(path, {"\ud800": one}, "expected names and metadata that UTF-8 can hold")
    refused(path, {"n": 10**5000}, "expected values that JSON can hold")
    refused(path, {"a": one}, "expected max_shard_bytes of 1 or more, got 0", max_shard_bytes=0)
    refused(path, {"a": one}, "expected metadata of text by name, and none at 'treaty'", metadata={"treaty": "x"})
    refused(path, {"a": one}, "expected metadata of text by name", metadata={"x": 1})
    refused(path, {"a": one}, "expected other metadata than 'total_size'", metadata={"total_size": "1"})
    for name in ("m.msgpack", "m-00001-of-00002.safetensors", ".safetensors", "m.safetensors.index.json"):
        refused(tmp_path / name, {"a": one}, "expected a path that ends in .safetensors and names no shard")


def test_a_state_that_could_not_be_restored_is_not_saved(tmp_path: Path) -> None:
    wrong = schema.Linear(kernel=jnp.ones((2, 3)), bias=jnp.ones(4))
    with pytest.raises(StateMismatchError, match=r"expected float32\[d_out=3\], got float32\[4\] at \$\.bias"):
        format.save(tmp_path / "m.safetensors", wrong)
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"m\.safetensors"):
        format.restore(tmp_path / "m.safetensors", schema.Linear)
    (tmp_path / "m.safetensors").write_bytes(b"")
    with pytest.raises(CorruptCheckpointError, match="expected 8 bytes with the length of the header, got 0 in"):
        format.restore(tmp_path / "m.safetensors", schema.Linear)


def test_a_file_of_many_gigabytes_is_read(tmp_path: Path) -> None:
    """Without writing them: the file has holes."""
    size = 3 * 2**30
    places = {name: [i * size, (i + 1) * size] for i, name in enumerate("abc")}
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": at} for name, at in places.items()})
    path = tmp_path / "large.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    os.truncate(path, 8 + len(header) + 3 * size)
    tree, _ = format.load(path)
    assert {name: one.shape for name, one in tree.items()} == dict.fromkeys("abc", (size,))
