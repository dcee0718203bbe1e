"""Drop-in for `eformer.serialization.serialization`: the same names, signatures and files. See docs/eformer.md."""

from treaty.runtime._leaves.load import tree_deserialize_leaves as tree_deserialize_leaves
from treaty.runtime._leaves.paths import is_array_like as is_array_like
from treaty.runtime._leaves.paths import leaf_key_paths as leaf_key_paths
from treaty.runtime._leaves.save import tree_serialize_leaves as tree_serialize_leaves

__all__ = ["is_array_like", "leaf_key_paths", "tree_deserialize_leaves", "tree_serialize_leaves"]
