"""Drop-in for eformer.serialization.utils: the same names, arguments and results."""

from treaty.runtime._sharding.broadcast import broadcast_tensor as broadcast_tensor
from treaty.runtime._sharding.broadcast import flatten_for_broadcast as flatten_for_broadcast
from treaty.runtime._sharding.gcs import is_gcs_path as is_gcs_path
from treaty.runtime._sharding.gcs import parse_gcs_path as parse_gcs_path
from treaty.runtime._sharding.memory import chunk_tensor_by_memory as chunk_tensor_by_memory
from treaty.runtime._sharding.memory import estimate_array_nbytes as estimate_array_nbytes
from treaty.runtime._sharding.memory import estimate_available_memory as estimate_available_memory
from treaty.runtime._sharding.per_tensor import apply_gather_functions as apply_gather_functions
from treaty.runtime._sharding.per_tensor import read_process_array as read_process_array
from treaty.runtime._sharding.placement import reshard as reshard
from treaty.runtime._sharding.placement import to_host as to_host
from treaty.runtime._sharding.shard_files import derive_base_prefix_from_path as derive_base_prefix_from_path
from treaty.runtime._sharding.shard_files import group_keys_by_shard_size as group_keys_by_shard_size
from treaty.runtime._sharding.shard_files import index_filename as index_filename
from treaty.runtime._sharding.shard_files import optimize_shard_layout as optimize_shard_layout
from treaty.runtime._sharding.shard_files import shard_filename as shard_filename
