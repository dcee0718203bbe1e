"""eformer's checkpoints load here and ours load in eformer; damaged ones never load here."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from treaty.runtime import CorruptCheckpointError, LeafError, MissingCheckpointError, StorageError
from treaty.runtime.leaves import leaf_key_paths, tree_deserialize_leaves, tree_serialize_leaves

FIXTURES = Path(__file__).parent / "fixtures" / "eformer"
MESH = Mesh(np.array(jax.devices()[:2]), ("x",))

# What make_leaves.py saved, with dicts for nodes. eformer drops None and, but for its old versions, Python scalars.
TREES: dict[str | None, Any] = {
    "model": {
        "blocks": {
            "0": {"kernel": jnp.arange(32, dtype=jnp.float32).reshape(4, 8) / 8, "bias": jnp.zeros((8,), jnp.float32)}
        },
        "embed": (jnp.arange(6, dtype=jnp.float32) / 4).reshape(2, 3).astype(jnp.bfloat16),
        "mask": jnp.array([True, False, True]),
        "empty": jnp.zeros((0, 3), jnp.float16),
    },
    "optimizer": {"count": jnp.int32(7), "mu": {"0": jnp.full((2, 2), -0.5), "1": jnp.arange(3, dtype=jnp.int8)}},
    None: {"step": jnp.uint32(2**32 - 1), "a": {"b": {"c": jnp.array([1 + 2j], jnp.complex64)}}},
}


def assert_same(got: Any, expected: Any) -> None:
    assert leaf_key_paths(got) == leaf_key_paths(expected)
    for left, right in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()


class TestWhatEformerWrote:
    @pytest.mark.parametrize("prefix", TREES)
    @pytest.mark.parametrize(("name", "version"), [("current", "0.0.101"), ("version-2.0", "2.0")])
    def test_every_prefix_loads_value_for_value(self, name: str, version: str, prefix: str | None) -> None:
        assert json.loads((FIXTURES / name / "tensorstore_index.json").read_text())["version"] == version
        old = {"lr": jnp.float32(0.1)} if (name, prefix) == ("version-2.0", "optimizer") else {}
        assert_same(tree_deserialize_leaves(FIXTURES / name, MESH, prefix=prefix), TREES[prefix] | old)

    def test_version_1_has_one_tree_and_its_prefix_is_in_the_paths(self) -> None:
        assert_same(tree_deserialize_leaves(FIXTURES / "version-1.0", MESH), TREES[None])
        with pytest.raises(LeafError, match=r"Prefix 'model' not found\. This index is of version 1\.0"):
            tree_deserialize_leaves(FIXTURES / "version-1.0", MESH, prefix="model")

    def test_a_prefix_of_version_1_is_taken_off_the_names(self, tmp_path: Path) -> None:
        shutil.copytree(FIXTURES / "current", tmp_path, dirs_exist_ok=True)
        index = json.loads((tmp_path / "tensorstore_index.json").read_text())
        index = {"format": "tensorstore", "version": "1.0", "arrays": index["prefixes"]["model"]}
        (tmp_path / "tensorstore_index.json").write_text(json.dumps(index))
        assert_same(tree_deserialize_leaves(tmp_path, MESH, prefix="model"), TREES["model"])
        assert_same(tree_deserialize_leaves(tmp_path, MESH), {"model": TREES["model"]})

    def test_we_add_a_prefix_and_keep_what_eformer_saved(self, tmp_path: Path) -> None:
        for name in ("current", "version-1.0"):
            shutil.copytree(FIXTURES / name, tmp_path / name)
            tree_serialize_leaves(tmp_path / name, {"w": jnp.ones(2)}, prefix="ema")
            assert_same(tree_deserialize_leaves(tmp_path / name, MESH, prefix="ema"), {"w": jnp.ones(2)})
            assert_same(tree_deserialize_leaves(tmp_path / name, MESH), TREES[None])
        assert_same(tree_deserialize_leaves(tmp_path / "current", MESH, prefix="model"), TREES["model"])


def without(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).unlink()


def cut(path: str, size: int) -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes((root / path).read_bytes()[:size])


def index(change: Callable[[Any], Any]) -> Callable[[Path], object]:
    """Change the entry of the bias, or put what `change` returns in place of the whole index."""

    def damage(root: Path) -> None:
        file = root / "tensorstore_index.json"
        value = json.loads(file.read_text())
        other = change(value["prefixes"]["model"][0])
        file.write_text(json.dumps(value if other is None else other))

    return damage


BIAS, KERNEL = "model/blocks/0/bias", "model/blocks/0/kernel"
INDEX = "tensorstore_index.json"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no index": (without(INDEX), f"expected {INDEX}, got none in"),
    "empty index": (cut(INDEX, 0), "expected JSON, got damaged text in .*tensorstore_index.json"),
    "cut index": (cut(INDEX, 300), "expected JSON, got damaged text"),
    "deep index": (lambda root: root.joinpath(INDEX).write_text("[" * 10**6), "expected JSON, got damaged"),
    "binary index": (lambda root: root.joinpath(INDEX).write_bytes(b"\xff\xfe{}"), "expected JSON, got dam"),
    "list for an index": (index(lambda _: []), "expected an object, got list"),
    "other format": (index(lambda _: {"format": "zarr"}), "Unsupported index format: 'zarr'"),
    "no sections": (index(lambda _: {"format": "tensorstore"}), "expected arrays or prefixes, got neither"),
    "prefixes no object": (
        index(lambda _: {"format": "tensorstore", "prefixes": []}),
        "expected an object as prefixes",
    ),
    "prefix no list": (
        index(lambda _: {"format": "tensorstore", "prefixes": {"model": 3}}),
        "expected a list of arrays",
    ),
    "entry no object": (
        index(lambda _: {"format": "tensorstore", "prefixes": {"model": ["a"]}}),
        "expected an object with a path, got a in",
    ),
    "climbing path": (index(lambda e: e.update(path="model/../../x")), "expected a path inside .* got 'model/../../x'"),
    "absolute path": (index(lambda e: e.update(path="/etc")), "expected a path inside the checkpoint, got '/etc'"),
    "url": (index(lambda e: e.update(path="gs://bucket/x")), "expected a path inside the checkpoint, got 'gs:"),
    "backslashes": (index(lambda e: e.update(path="..\\x")), "expected a path inside the checkpoint"),
    "path missing": (index(lambda e: e.pop("path") and None), "expected an object with a path"),
    "path twice": (index(lambda e: e.update(path=KERNEL)), r"expected each path once, got .*kernel.* twice"),
    "leaf above a leaf": (index(lambda e: e.update(path="model/blocks")), r"expected .* got .*\$\.blocks"),
    "shape not sizes": (index(lambda e: e.update(shape=[True])), rf"expected a list of sizes .* for {BIAS}"),
    "dtype no name": (index(lambda e: e.update(dtype=3)), rf"expected the name of a dtype, got 3 for {BIAS}"),
    "keys no strings": (index(lambda e: e.update(keys=[1])), rf"expected a list of strings as keys, .* for {BIAS}"),
    "keys of another path": (index(lambda e: e.update(keys=["x"])), rf"expected keys that fit the path, .* {BIAS}"),
    "leaf no kind": (index(lambda e: e.update(leaf=1)), rf"expected the kind of a leaf, got 1 for {BIAS}"),
    "unknown kind": (index(lambda e: e.update(leaf="pickle")), r"expected a pickle, got float32\[8\] at \$\.blocks"),
    "other kind": (index(lambda e: e.update(leaf="int")), r"expected a int, got float32\[8\] at \$\.blocks"),
    "no key data": (index(lambda e: e.update(leaf="key:rbg")), r"expected the data of a key:rbg, got other at \$\.bl"),
    "other shape": (
        index(lambda e: e.update(shape=[4])),
        r"expected float32\[4\] as in the index, got float32\[8\] at \$\.blocks\['0'\]\.bias",
    ),
    "other dtype": (
        index(lambda e: e.update(dtype="int32")),
        r"expected int32\[8\] as in the index, got float32\[8\] at \$\.blocks\['0'\]\.bias",
    ),
    "array gone": (lambda root: shutil.rmtree(root / BIAS), rf"NOT_FOUND.* at \$\.blocks\['0'\]\.bias \({BIAS}\)"),
    "metadata cut": (cut(f"{BIAS}/.zarray", 40), rf"expected an intact array, got .* at \$.* \({BIAS}\)"),
    "chunk gone": (without(f"{BIAS}/0"), rf"expected an intact array, got NOT_FOUND.* \({BIAS}\)"),
    "one shard gone": (without(f"{KERNEL}/1.0"), rf"expected an intact array, got NOT_FOUND.* \({KERNEL}\)"),
    "chunk emptied": (cut(f"{KERNEL}/0.0", 0), rf"expected an intact array, got .* \({KERNEL}\)"),
    "chunk cut": (cut(f"{KERNEL}/0.1", 12), rf"expected an intact array, got .* \({KERNEL}\)"),
}


class TestDamage:
    @pytest.mark.parametrize("name", DAMAGE)
    def test_a_damaged_checkpoint_is_named_and_not_loaded(self, name: str, tmp_path: Path) -> None:
        shutil.copytree(FIXTURES / "current", tmp_path, dirs_exist_ok=True)
        damage, message = DAMAGE[name]
        damage(tmp_path)
        kind = MissingCheckpointError if name == "no index" else CorruptCheckpointError
        with pytest.raises(kind, match=message) as caught:
            tree_deserialize_leaves(tmp_path, MESH, prefix="model")
        assert "\n" not in str(caught.value)

    def test_a_lost_chunk_of_a_host_leaf_is_named_too(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"n": np.zeros(3), "lr": 0.1})
        (tmp_path / "n" / "0").unlink()
        with pytest.raises(CorruptCheckpointError, match=r"NOT_FOUND.* at \$\.n \(n\)"):
            tree_deserialize_leaves(tmp_path, MESH)

    @pytest.mark.parametrize("leaf", [np.ones(8, np.float32), jnp.ones(8)])
    @pytest.mark.parametrize(("size", "chunk"), [(10**15, 8), (10**15, 10**15), (2**60, 8)])
    def test_a_forged_size_cannot_end_the_process(self, leaf: Any, size: int, chunk: int, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"w": leaf})
        index = json.loads((tmp_path / INDEX).read_text())
        index["arrays"][0]["shape"] = [size]
        (tmp_path / INDEX).write_text(json.dumps(index))
        metadata = json.loads((tmp_path / "w" / ".zarray").read_text())
        (tmp_path / "w" / ".zarray").write_text(json.dumps(metadata | {"shape": [size], "chunks": [chunk]}))
        with pytest.raises((CorruptCheckpointError, LeafError), match=r"\$\.w \(w\)"):
            tree_deserialize_leaves(tmp_path, None)

    def test_an_index_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        (tmp_path / INDEX).symlink_to(INDEX)
        with pytest.raises(StorageError, match=f"cannot read .*{INDEX}: "):
            tree_deserialize_leaves(tmp_path, None)

    def test_a_save_does_not_write_over_a_damaged_index(self, tmp_path: Path) -> None:
        (tmp_path / INDEX).write_text("{")
        with pytest.raises(CorruptCheckpointError, match="expected JSON, got damaged text"):
            tree_serialize_leaves(tmp_path, {"a": 1})
        assert [path.name for path in tmp_path.iterdir()] == [INDEX]

    def test_a_save_that_dies_leaves_no_mixture(self, tmp_path: Path) -> None:
        tree_serialize_leaves(tmp_path, {"a": jnp.ones(3), "b": jnp.ones(3)}, prefix="model")

        class Dies:
            def wait_until_finished(self) -> None: ...

            def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Any) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tree_serialize_leaves(tmp_path, {"a": jnp.zeros(3), "b": jnp.zeros(3)}, Dies(), prefix="model")
        with pytest.raises(LeafError, match=r"Prefix 'model' not found\. Available: \[\]"):
            tree_deserialize_leaves(tmp_path, None, prefix="model")


# An interpreter that has eformer, where this one has not: EFORMER_PYTHON=/path/to/venv/bin/python
EFORMER = os.environ.get("EFORMER_PYTHON") or (sys.executable if find_spec("eformer") else None)
IN_EFORMER = """
import collections, json, sys
import jax, numpy as np
from eformer.serialization.serialization import leaf_key_paths, tree_deserialize_leaves
Pair = collections.namedtuple("Pair", "left right")
mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
found = {}
for prefix in ("model", None):
    tree = tree_deserialize_leaves(sys.argv[1], mesh, prefix=prefix)
    for name, leaf in zip(jax.tree.leaves(leaf_key_paths(tree, prefix)), jax.tree.leaves(tree)):
        found[name] = [str(leaf.dtype), np.asarray(leaf).astype(np.float32).tolist()]
names = jax.tree.leaves(leaf_key_paths({"a": [1, (2,)], "b.c": Pair(1, {"x/y": 2})}, "p"))
print("RESULT" + json.dumps([found, names]))
"""


class Pair(NamedTuple):
    left: Any
    right: Any


@pytest.mark.skipif(EFORMER is None, reason="eformer is not installed; EFORMER_PYTHON names an interpreter that has it")
def test_eformer_loads_what_we_write(tmp_path: Path) -> None:
    tree = {
        "w": jnp.ones((2, 2), jnp.bfloat16),
        "l": [jnp.zeros(2, jnp.int32), np.array([1, 2], np.float32)],
        "lr": 0.5,
    }
    tree_serialize_leaves(tmp_path, tree, prefix="model")
    tree_serialize_leaves(tmp_path, {"a.b": jnp.int8(3)})
    env = {**os.environ, "PYTHONPATH": ""}
    assert EFORMER is not None
    done = subprocess.run([EFORMER, "-c", IN_EFORMER, tmp_path], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, names = json.loads(done.stdout.split("RESULT")[1])
    assert found == {
        "model.w": ["bfloat16", [[1.0, 1.0], [1.0, 1.0]]],
        "model.l.0": ["int32", [0.0, 0.0]],
        "model.l.1": ["float32", [1.0, 2.0]],
        "model.lr": ["float32", 0.5],
        "a.b": ["int8", 3.0],
    }
    assert names == jax.tree.leaves(leaf_key_paths({"a": [1, (2,)], "b.c": Pair(1, {"x/y": 2})}, "p"))
