"""Drop-in for eformer.serialization.utils: the same names, arguments and results."""

from treaty.runtime._eformer.broadcast import broadcast_tensor as broadcast_tensor
from treaty.runtime._eformer.broadcast import flatten_for_broadcast as flatten_for_broadcast
from treaty.runtime._eformer.gcs import is_gcs_path as is_gcs_path
from treaty.runtime._eformer.gcs import parse_gcs_path as parse_gcs_path
from treaty.runtime._eformer.memory import chunk_tensor_by_memory as chunk_tensor_by_memory
from treaty.runtime._eformer.memory import estimate_available_memory as estimate_available_memory
from treaty.runtime._eformer.per_tensor import apply_gather_functions as apply_gather_functions
from treaty.runtime._eformer.per_tensor import read_process_array as read_process_array
from treaty.runtime._eformer.resharding import reshard as reshard
from treaty.runtime._eformer.resharding import to_host as to_host
from treaty.runtime._state.sizes import estimate_array_nbytes as estimate_array_nbytes
from treaty.runtime.formats.safetensors.shard_names import derive_base_prefix_from_path as derive_base_prefix_from_path
from treaty.runtime.formats.safetensors.shard_names import group_keys_by_shard_size as group_keys_by_shard_size
from treaty.runtime.formats.safetensors.shard_names import index_filename as index_filename
from treaty.runtime.formats.safetensors.shard_names import optimize_shard_layout as optimize_shard_layout
from treaty.runtime.formats.safetensors.shard_names import shard_filename as shard_filename
