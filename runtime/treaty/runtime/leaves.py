"""Drop-in for `eformer.serialization.serialization`: the same names, signatures and files. See docs/eformer.md."""

from treaty.runtime._eformer.load import tree_deserialize_leaves as tree_deserialize_leaves
from treaty.runtime._eformer.save import tree_serialize_leaves as tree_serialize_leaves
from treaty.runtime.formats.eformer.leaf_paths import is_array_like as is_array_like
from treaty.runtime.formats.eformer.leaf_paths import leaf_key_paths as leaf_key_paths

__all__ = ["is_array_like", "leaf_key_paths", "tree_deserialize_leaves", "tree_serialize_leaves"]
