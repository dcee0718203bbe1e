"""The names that eformer adds to Flax's."""

import gzip
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from treaty.runtime import CorruptCheckpointError, serialization

TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": [jnp.ones(4, jnp.bfloat16), 3, "text"]}


def same(one: Any, other: Any) -> bool:
    return bool(jax.tree.all(jax.tree.map(np.array_equal, one, other)))


def test_compressed_bytes_are_gzip_and_always_the_same() -> None:
    data = serialization.to_compressed_bytes(TREE)
    assert gzip.decompress(data) == serialization.decompress_bytes(data) == serialization.to_bytes(TREE)
    assert data == serialization.compress_bytes(serialization.to_bytes(TREE))
    assert same(serialization.from_compressed_bytes(TREE, data), TREE)


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"text", mtime=0)[:-4], gzip.compress(b"text" * 9, mtime=0)[:20]],
    ids=["empty", "other", "cut off", "cut short"],
)
def test_damaged_compressed_bytes(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        serialization.from_compressed_bytes(TREE, data)


@pytest.mark.parametrize("name", ["tree.msgpack", "tree", "tree.msgpack.gz", "tree.msgpack.zst"])
def test_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / "deep" / "down" / name
    serialization.save_to_file(TREE, str(path))
    assert same(serialization.load_from_file(TREE, str(path)), TREE)
    assert [one.name for one in path.parent.iterdir()] == [name]
    with pytest.raises(FileNotFoundError):
        serialization.load_from_file(TREE, str(tmp_path / "nothing"))


def test_info() -> None:
    assert serialization.get_serialization_info(TREE) == {
        "num_leaves": 4,
        "tree_structure": str(jax.tree.structure(TREE)),
        "total_elements": 6 + 4 + 1 + 1,
        "memory_bytes": 6 * 4 + 4 * 2 + 8,
        "is_serializable": True,
        "dtypes": ["bfloat16", "float32"],
    }
    assert serialization.get_serialization_info(np.zeros(2))["is_serializable"] is False


def test_validation_names_all_that_to_bytes_would_refuse() -> None:
    assert serialization.validate_serializable(TREE) == (True, [])
    wrong = {"a": {1, 2}, "b": [2**70, np.array([object()])], "key": jax.random.key(0), "fine": np.int8(1)}
    valid, issues = serialization.validate_serializable(wrong)
    assert not valid
    assert [issue.rpartition(" at ")[2] for issue in issues] == ["$.a", "$.b[0]", "$.b[1]", "$.key"]
    assert issues[3] == "Typed PRNG key: store jax.random.key_data of it at $.key"
    with pytest.raises((TypeError, ValueError, OverflowError)):
        serialization.to_bytes(wrong)
    valid, issues = serialization.validate_serializable({1: 0, "1": 0})
    assert not valid
    assert "unique string representation" in issues[0]
