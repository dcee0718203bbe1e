"""`treaty.runtime.leaves`: trees in eformer's layout, on any mesh, with nothing lost."""

import json
import math
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from treaty.runtime import CorruptCheckpointError, LeafError
from treaty.runtime._eformer.manager import default_manager
from treaty.runtime._eformer.shard_reader import ShardReader
from treaty.runtime.formats.eformer.index import Entry, Index, parse, render
from treaty.runtime.formats.eformer.leaf_paths import directory
from treaty.runtime.leaves import is_array_like, leaf_key_paths, tree_deserialize_leaves, tree_serialize_leaves

SPEC: Any = P  # JAX does not type these constructors
ABSTRACT: Any = jax.ShapeDtypeStruct


def mesh(*shape: int, axes: str = "xy") -> Mesh:
    devices = np.array(jax.devices()[: math.prod(shape)]).reshape(shape)
    return Mesh(devices, tuple(axes[: len(shape)]))


def same(got: Any, expected: Any) -> bool:
    """Of one type, and equal bit for bit."""
    if isinstance(expected, jax.Array | np.ndarray):
        kinds = isinstance(got, jax.Array) == isinstance(expected, jax.Array)
        return kinds and got.dtype == expected.dtype and np.asarray(got).tobytes() == np.asarray(expected).tobytes()
    return type(got) is type(expected) and bool(got == expected)


def index_of(path: Path) -> Any:
    return json.loads((path / "tensorstore_index.json").read_text())


class Pair(NamedTuple):
    left: Any
    right: Any


class TestNames:
    def test_anything_with_shape_and_dtype_is_array_like(self) -> None:
        assert is_array_like(jnp.ones(2))
        assert is_array_like(np.float32(1))
        assert is_array_like(ABSTRACT((2,), jnp.float32))
        assert not is_array_like(1.0)
        assert not is_array_like([1.0])

    def test_every_node_gives_its_key(self) -> None:
        tree = {"a": [1, (2, 3)], "b": Pair(4, {5: 6})}
        assert leaf_key_paths(tree) == {"a": ["a.0", ("a.1.0", "a.1.1")], "b": Pair("b.left", {5: "b.right.5"})}

    def test_a_prefix_comes_first(self) -> None:
        assert leaf_key_paths({"a": 1}, "model") == {"a": "model.a"}
        assert leaf_key_paths(1, "model") == "model"
        assert leaf_key_paths(1) == leaf_key_paths(1, None) == ""

    def test_is_leaf_decides_what_a_leaf_is(self) -> None:
        assert leaf_key_paths({"a": None}) == {"a": None}
        assert leaf_key_paths({"a": None}, is_leaf=lambda x: x is None) == {"a": "a"}


LEAVES = {
    "jax": jnp.arange(6.0).reshape(2, 3),
    "zeros": jnp.zeros((4,), jnp.bfloat16),
    "no elements": jnp.zeros((0, 3), jnp.int8),
    "int4": jnp.array([1, -2], jnp.int4),
    "float8": jnp.array([1, 0.5], jnp.float8_e4m3fn),
    "numpy": np.arange(3.0),
    "numpy int64": np.array([2**40]),
    "not contiguous": np.arange(12, dtype=np.int16).reshape(3, 4).T,
    "numpy scalar": np.float16(1.5),
    "bool": True,
    "int": -(2**63),
    "large int": 2**64 - 1,
    "float": 0.1,
    "complex": 1.5 - 2j,
    "str": "κλειδί \udc80",
    "empty bytes": b"",
}


class TestLeaves:
    @pytest.mark.parametrize("name", LEAVES)
    def test_a_leaf_comes_back_as_it_was(self, name: str, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"a": {name: LEAVES[name]}})
        got = tree_deserialize_leaves(tmp_path, None)
        assert list(got["a"]) == [name]
        assert same(got["a"][name], LEAVES[name])

    def test_other_byte_orders_become_the_machines(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, np.arange(3, dtype=">i4"))
        assert same(tree_deserialize_leaves(tmp_path, None), np.arange(3, dtype=np.int32))

    def test_a_typed_key_keeps_its_implementation(self, tmp_path: Path) -> None:
        key = jax.random.split(jax.random.key(3, impl="rbg"), 2)
        tree_serialize_leaves(tmp_path, {"key": key})
        got = tree_deserialize_leaves(tmp_path, mesh(2))["key"]
        assert got.dtype == key.dtype
        assert jnp.array_equal(jax.random.key_data(got), jax.random.key_data(key))

    def test_nodes_become_dicts_and_none_and_empty_nodes_vanish(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"a": [1, (2,), None, {}], "b": Pair(3, {7: 4}), "c": ()})
        assert tree_deserialize_leaves(tmp_path, None) == {
            "a": {"0": 1, "1": {"0": 2}},
            "b": {"left": 3, "right": {"7": 4}},
        }

    def test_a_tree_of_one_leaf_and_an_empty_tree_come_back(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path / "one", 3.5)
        tree_serialize_leaves(tmp_path / "prefixed", 3.5, prefix="p")
        tree_serialize_leaves(tmp_path / "none", {"a": None})
        assert tree_deserialize_leaves(tmp_path / "one", None) == 3.5
        assert tree_deserialize_leaves(tmp_path / "prefixed", None, prefix="p") == 3.5
        assert tree_deserialize_leaves(tmp_path / "none", None) == {}

    @pytest.mark.parametrize(
        ("leaf", "message"),
        [
            (len, r"expected an array, number, text or None, got builtin_function_or_method at \$\.a\['b\.c'\]"),
            (ABSTRACT((2,), jnp.float32), r"got ShapeDtypeStruct at \$\.a\['b\.c'\]"),
            (2**64, r"expected an integer of 64 bits, got 18446744073709551616 at \$\.a\['b\.c'\]"),
            (np.array([object()]), r"expected a dtype that TensorStore has, got object at \$\.a\['b\.c'\]"),
            (np.array(["text"]), r"expected a dtype that TensorStore has, got str128 at \$\.a\['b\.c'\]"),
            (jnp.array([1], jnp.uint4), r"expected a dtype that TensorStore has, got uint4 at \$\.a\['b\.c'\]"),
        ],
    )
    def test_what_cannot_be_stored_is_refused_before_anything_is_written(
        self, leaf: Any, message: str, tmp_path: Path
    ) -> None:
        with pytest.raises(LeafError, match=message):
            tree_serialize_leaves(tmp_path / "new", {"a": {"b.c": leaf}})
        assert not (tmp_path / "new").exists()


class TestKeys:
    def test_dots_and_slashes_in_keys_do_not_collide(self, tmp_path: Path) -> None:
        tree = {"a.b": 1, "a": {"b": 2}, "a/b": 3, "a%2Fb": 4, "": 5, "..": 6, ".zarray": 7, "x": {"": 8, ".": 9}}
        tree |= {"tensorstore_index.json": 10, "0.0": 11, "q.__lock": 12, "back\\slash": 13, "nul\0": 14}
        tree_serialize_leaves(tmp_path, tree)
        tree_serialize_leaves(tmp_path, {"b": 15}, prefix="x.y")
        assert tree_deserialize_leaves(tmp_path, None) == tree
        assert tree_deserialize_leaves(tmp_path, None, prefix="x.y") == {"b": 15}

    def test_ordinary_trees_have_the_index_eformer_writes(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"a": [jnp.ones((2, 3), jnp.bfloat16)]}, prefix="model")
        entry = {"path": "model/a/0", "shape": [2, 3], "dtype": "bfloat16"}
        assert index_of(tmp_path) == {"format": "tensorstore", "version": "2.0", "prefixes": {"model": [entry]}}

    def test_keys_that_become_one_string_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LeafError, match=r"got 1 for \$\['1'\] .* and \$\['1'\] of the tree without a prefix"):
            tree_serialize_leaves(tmp_path, OrderedDict([(1, 1), ("1", 2)]))

    def test_keys_that_no_file_system_holds_are_refused(self, tmp_path: Path) -> None:
        for key in ("k" * 256, "\udc80"):
            with pytest.raises(LeafError, match="expected keys that fit file names"):
                tree_serialize_leaves(tmp_path, {key: 1})

    @given(st.lists(st.lists(st.text("a./%\\\0", max_size=3), min_size=1, max_size=3).map(tuple), unique=True))
    def test_no_two_leaves_share_a_directory(self, paths: list[tuple[str, ...]]) -> None:
        directories = [directory("p", keys) for keys in paths]
        assert len(set(directories)) == len(paths)
        assert all(part not in ("", ".", "..") for path in directories for part in path.split("/"))
        entries = tuple(Entry(directory("p", keys), (2,), "int8", keys, "numpy") for keys in paths)
        index = Index(None, {"p": entries})
        assert parse(render(index), "here") == index

    @settings(max_examples=15)
    @given(
        tree=st.recursive(
            st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.binary(max_size=9) | st.text(max_size=5),
            lambda below: st.dictionaries(st.text("ab.0/%", max_size=4), below, min_size=1, max_size=3),
            max_leaves=6,
        )
    )
    def test_any_tree_comes_back(self, tree: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.mktemp("tree")
        tree_serialize_leaves(path, tree, prefix="any")
        assert tree_deserialize_leaves(path, None, prefix="any") == tree


class TestPrefixes:
    def test_each_prefix_is_a_tree_of_its_own(self, tmp_path: Path) -> None:
        for prefix, value in [("model", 1), ("optimizer", 2), (None, 3)]:
            tree_serialize_leaves(tmp_path, {"w": value}, prefix=prefix)
        assert tree_deserialize_leaves(tmp_path, None, prefix="model") == {"w": 1}
        assert tree_deserialize_leaves(tmp_path, None, prefix="optimizer") == {"w": 2}
        assert tree_deserialize_leaves(tmp_path, None) == {"w": 3}

    def test_a_missing_prefix_lists_those_there_are(self, tmp_path: Path) -> None:
        for prefix in ("model", "optimizer"):
            tree_serialize_leaves(tmp_path, {"w": 1}, prefix=prefix)
        with pytest.raises(LeafError, match=r"^Prefix 'ema' not found\. Available: \['model', 'optimizer'\]$"):
            tree_deserialize_leaves(tmp_path, None, prefix="ema")
        with pytest.raises(LeafError, match=r"^No prefix specified\. Available prefixes: \['model', 'optimizer'\]$"):
            tree_deserialize_leaves(tmp_path, None)

    def test_two_trees_cannot_share_directories(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"model": {"w": 1}})
        with pytest.raises(LeafError, match=r"got model/w for \$\.w of prefix 'model' and \$\.model\.w of the tree"):
            tree_serialize_leaves(tmp_path, {"w": 2}, prefix="model")
        with pytest.raises(
            LeafError, match=r"got \$\.model\.w of the tree without a prefix inside \$ of prefix 'model'"
        ):
            tree_serialize_leaves(tmp_path, 2, prefix="model")
        assert tree_deserialize_leaves(tmp_path, None) == {"model": {"w": 1}}

    def test_saving_again_replaces_the_tree_whatever_its_shapes(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"w": jnp.ones((8, 8)), "gone": jnp.ones(3)}, prefix="model")
        tree_serialize_leaves(tmp_path, {"step": 1}, prefix="other")
        (tmp_path / "model" / "w" / "notes.txt").write_text("mine")
        tree_serialize_leaves(tmp_path, {"w": jnp.arange(3)}, prefix="model")
        assert same(tree_deserialize_leaves(tmp_path, None, prefix="model")["w"], jnp.arange(3))
        assert tree_deserialize_leaves(tmp_path, None, prefix="other") == {"step": 1}
        assert not (tmp_path / "model" / "gone" / ".zarray").exists()
        assert (tmp_path / "model" / "w" / "notes.txt").read_text() == "mine"

    def test_a_directory_is_a_path_or_a_url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        tree_serialize_leaves(f"file://{tmp_path}/a/b", {"w": jnp.ones(2), "n": 3})
        for where in ("a/b", f"{tmp_path}/a/b/", f"file://{tmp_path}/a/b/"):
            assert tree_deserialize_leaves(where, None)["n"] == 3

    def test_without_an_index_there_are_only_arrays(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"w": jnp.ones(2)}, write_index=False)
        assert [path.name for path in tmp_path.iterdir()] == ["w"]


class TestMeshes:
    WEIGHTS = jnp.arange(64.0).reshape(8, 8)

    @pytest.fixture
    def saved(self, tmp_path: Path) -> Path:
        sharded = jax.device_put(self.WEIGHTS, NamedSharding(mesh(4, 2), SPEC("x", "y")))
        tree_serialize_leaves(tmp_path, {"layer": {"w": sharded, "b": jnp.ones(8), "n": np.arange(8)}, "step": 3})
        assert len(list((tmp_path / "layer" / "w").glob("*.*"))) == 8 + 1  # a chunk a shard, and .zarray
        return tmp_path

    @pytest.mark.parametrize("shape", [(1,), (2,), (8,), (2, 4), (8, 1)])
    def test_rules_place_leaves_on_any_mesh(self, saved: Path, shape: tuple[int, ...]) -> None:
        rules = [("layer/w$", SPEC(*"xy"[: len(shape)])), ("b", SPEC("x")), (".*", SPEC())]
        got = tree_deserialize_leaves(saved, mesh(*shape), partition_rules=rules)
        assert jnp.array_equal(got["layer"]["w"], self.WEIGHTS)
        assert got["layer"]["w"].sharding == NamedSharding(mesh(*shape), SPEC(*"xy"[: len(shape)]))
        assert got["layer"]["b"].sharding.spec == SPEC("x")
        assert isinstance(got["layer"]["n"], np.ndarray)
        assert got["step"] == 3

    def test_one_axis_replicates_and_no_mesh_is_one_device(self, saved: Path) -> None:
        assert tree_deserialize_leaves(saved, mesh(4))["layer"]["w"].sharding == NamedSharding(mesh(4), SPEC())
        assert tree_deserialize_leaves(saved, None)["layer"]["w"].devices() == {jax.devices()[0]}

    @pytest.mark.parametrize("nested", [True, False])
    def test_shardings_are_a_tree_or_a_dict_of_names(self, saved: Path, nested: bool) -> None:
        sharding = NamedSharding(mesh(8), SPEC(None, "x"))
        moved: list[Any] = []

        def move(array: Any) -> Any:
            moved.append(array)
            return jax.device_put(array, jax.devices()[5])

        names = {"w": sharding, "b": move, "n": SPEC("x")}
        shardings = {"layer": names} if nested else {f"layer.{name}": asked for name, asked in names.items()}
        with jax.enable_x64(True):
            got = tree_deserialize_leaves(saved, mesh(4, 2), shardings=shardings)["layer"]
        assert got["w"].sharding == sharding
        assert got["b"].devices() == {jax.devices()[5]}
        assert len(moved) == 1
        assert got["n"].sharding == NamedSharding(mesh(4, 2), SPEC("x"))
        assert got["n"].dtype == np.int64

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({}, r"No sharding specified for 'layer\.b' on multi-axis mesh"),
            ({"partition_rules": [("w", SPEC())]}, "Partition rule not found for param: layer/b"),
            ({"partition_rules": [("", SPEC("x", "y"))]}, r"expected a sharding for \[8\], got .* at \$\.layer\.b"),
            ({"shardings": {"layer.b": "x"}}, r"expected a sharding, .* got 'x' at \$\.layer\.b"),
            (
                {"shardings": dict.fromkeys(("layer.w", "layer.b", "layer.n"), SPEC("x"))},
                r"expected int64, but JAX would make it int32 at \$\.layer\.n .*x64",
            ),
        ],
    )
    def test_a_placement_that_cannot_be_is_refused(self, saved: Path, asked: Any, message: str) -> None:
        with pytest.raises(LeafError, match=message):
            tree_deserialize_leaves(saved, mesh(4, 2), **asked)

    def test_rules_need_a_mesh_and_shapes_must_divide(self, saved: Path) -> None:
        with pytest.raises(LeafError, match="expected a mesh for partition_rules, got None"):
            tree_deserialize_leaves(saved, None, partition_rules=[("", SPEC())])
        with pytest.raises(LeafError, match=r"expected a sharding for \[8\], got .* at \$\.layer\.b"):
            tree_deserialize_leaves(saved, mesh(3), partition_rules=[("", SPEC("x"))])


@define
class Recorder:
    """A manager that notes what it is asked, and lets JAX's do it."""

    inner: Any = field(factory=default_manager)
    reads: list[int] = field(factory=list)

    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Any) -> None:
        self.inner.serialize(arrays, tensorstore_specs, on_commit_callback=on_commit_callback)

    def deserialize(self, shardings: Any, tensorstore_specs: Any) -> Any:
        self.reads.append(len(tensorstore_specs))
        return self.inner.deserialize(shardings, tensorstore_specs)

    def wait_until_finished(self) -> None:
        self.inner.wait_until_finished()


@define
class Late(Recorder):
    """A manager that commits only when it is waited for."""

    pending: list[Any] = field(factory=list)

    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Any) -> None:
        self.inner.serialize(arrays, tensorstore_specs, on_commit_callback=lambda: None)
        self.pending.append(on_commit_callback)

    def wait_until_finished(self) -> None:
        self.inner.wait_until_finished()
        while self.pending:
            self.pending.pop()()


class TestManagers:
    def test_the_index_is_written_when_the_arrays_are(self, tmp_path: Path) -> None:
        manager, seen = default_manager(), []
        tree_serialize_leaves(
            tmp_path, {"w": jnp.ones(3)}, manager, commit_callback=lambda: seen.append(index_of(tmp_path)["arrays"])
        )
        manager.wait_until_finished()
        assert seen == [[{"path": "w", "shape": [3], "dtype": "float32"}]]

    @pytest.mark.parametrize("make", [default_manager, Late])
    def test_a_load_waits_for_its_managers_save(self, make: Callable[[], Any], tmp_path: Path) -> None:
        manager = make()
        tree_serialize_leaves(tmp_path, {"w": jnp.ones(3)}, manager, prefix="a")
        tree_serialize_leaves(tmp_path, {"w": jnp.zeros(3)}, manager, prefix="b")
        assert same(tree_deserialize_leaves(tmp_path, None, manager, prefix="b")["w"], jnp.zeros(3))
        assert same(tree_deserialize_leaves(tmp_path, None, manager, prefix="a")["w"], jnp.ones(3))

    def test_a_save_waits_for_its_managers_last_save(self, tmp_path: Path) -> None:
        manager = Late()
        tree_serialize_leaves(tmp_path, {"model": {"w": 1}}, manager)
        with pytest.raises(LeafError, match=r"got model/w for \$\.w of prefix 'model' and \$\.model\.w of the tree"):
            tree_serialize_leaves(tmp_path, {"w": 2}, manager, prefix="model")

    def test_a_failing_commit_callback_is_heard(self, tmp_path: Path) -> None:
        def refuse() -> None:
            raise RuntimeError("no")

        with pytest.raises(RuntimeError, match="no"):
            tree_serialize_leaves(tmp_path, {"w": jnp.ones(3)}, commit_callback=refuse)

    @pytest.mark.parametrize(("chunk_size", "reads"), [(None, [5]), (0, [5]), (2, [2, 2, 1]), (9, [5])])
    def test_chunk_size_bounds_what_is_read_at_a_time(
        self, chunk_size: int | None, reads: list[int], tmp_path: Path
    ) -> None:
        tree_serialize_leaves(tmp_path, [jnp.full(2, i) for i in range(5)])
        manager = Recorder()
        got = tree_deserialize_leaves(tmp_path, mesh(2), manager, chunk_size=chunk_size)
        assert manager.reads == reads
        assert [int(got[str(i)][0]) for i in range(5)] == [0, 1, 2, 3, 4]

    def test_a_damaged_leaf_among_many_is_named_whoever_reads(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, [jnp.full(2, i) for i in range(5)])
        (tmp_path / "3" / "0").unlink()
        manager = Recorder(ShardReader())
        with pytest.raises(CorruptCheckpointError, match=r"got NOT_FOUND.* at \$\['3'\] \(3\)"):
            tree_deserialize_leaves(tmp_path, None, manager)
        assert manager.reads == [5, 1, 1, 1, 1]

    def test_a_lost_chunk_is_an_error_in_jaxs_manager_too(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"w": jnp.zeros(3)})
        (tmp_path / "w" / "0").unlink()
        with pytest.raises(CorruptCheckpointError, match=r"got NOT_FOUND.* at \$\.w \(w\)"):
            tree_deserialize_leaves(tmp_path, None, default_manager())

    def test_prefixes_saved_at_the_same_time_are_all_kept(self, tmp_path: Path) -> None:
        def save(number: int) -> None:
            tree_serialize_leaves(tmp_path, {"number": number}, prefix=f"p{number}")

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(save, range(16)))
        for number in range(16):
            assert tree_deserialize_leaves(tmp_path, None, prefix=f"p{number}") == {"number": number}

    def test_jax_reads_the_same_as_we_do(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {name: leaf for name, leaf in LEAVES.items() if isinstance(leaf, jax.Array)})
        ours, theirs = (tree_deserialize_leaves(tmp_path, mesh(2), by) for by in (None, default_manager()))
        assert all(same(ours[name], theirs[name]) for name in theirs)

    def test_the_callback_sees_arrays_and_their_names(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"a": {"w": jnp.ones(2), "n": np.ones(2)}, "step": 3}, prefix="model")
        names = []

        def halve(array: Any, name: str) -> Any:
            names.append(name)
            return array / 2

        got = tree_deserialize_leaves(tmp_path, None, prefix="model", callback=halve)
        assert names == ["a.n", "a.w"]
        assert float(got["a"]["w"][0]) == float(got["a"]["n"][0]) == 0.5
        assert got["step"] == 3
