"""What each process does; see test_leaves.py. Arguments: the directory, and how many rows the array has."""

import sys
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from treaty.runtime import StorageError
from treaty.runtime._eformer.manager import default_manager
from treaty.runtime.leaves import tree_deserialize_leaves, tree_serialize_leaves

P: Any = PartitionSpec
where, rows = sys.argv[5], int(sys.argv[6])
mesh = Mesh(np.array(jax.devices()), ("all",))
whole = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)


def spread(values: "np.ndarray[Any, Any]", spec: Any) -> jax.Array:
    return jax.make_array_from_callback(values.shape, NamedSharding(mesh, spec), lambda index: values[index])


if jax.process_index() == 0:
    with open(f"{where}/a file", "w"):
        pass
tree: dict[str, Any] = {"w": spread(whole, P("all")), "everywhere": spread(whole, P()), "host": whole, "step": rows}
committed: list[int] = []
tree_serialize_leaves(where, tree, prefix="model", commit_callback=lambda: committed.append(1))
assert len(committed) == (jax.process_index() == 0)

manager = default_manager()
tree_serialize_leaves(where, {"count": spread(np.array(5, np.int32), P()), "lr": 0.1}, manager, prefix="optimizer")

for reader in (None, manager):
    got = tree_deserialize_leaves(where, mesh, reader, prefix="model", partition_rules=[("w", P("all")), ("", P())])
    assert got["w"].sharding == tree["w"].sharding
    for name in ("w", "everywhere"):
        for shard in got[name].addressable_shards:
            np.testing.assert_array_equal(shard.data, whole[shard.index])
    np.testing.assert_array_equal(got["host"], whole)
    assert got["step"] == rows

said = "cannot " if jax.process_index() == 0 else "process 0 could not begin the save: StorageError: cannot "
with pytest.raises(StorageError, match=f"^{said}"):
    tree_serialize_leaves(f"{where}/a file/below", tree, prefix="model")
