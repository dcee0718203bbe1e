"""Drop-in for flax.serialization and eformer.pytree._serialization: the same names and bytes, with assertions (docs/flax.md)."""

from treaty.runtime._flax.bytes import ask_there as _ask_there
from treaty.runtime._flax.bytes import compress_bytes as compress_bytes
from treaty.runtime._flax.bytes import decompress_bytes as decompress_bytes
from treaty.runtime._flax.bytes import from_bytes as from_bytes
from treaty.runtime._flax.bytes import from_compressed_bytes as from_compressed_bytes
from treaty.runtime._flax.bytes import load_from_file as load_from_file
from treaty.runtime._flax.bytes import msgpack_restore as msgpack_restore
from treaty.runtime._flax.bytes import msgpack_serialize as msgpack_serialize
from treaty.runtime._flax.bytes import save_to_file as save_to_file
from treaty.runtime._flax.bytes import to_bytes as to_bytes
from treaty.runtime._flax.bytes import to_compressed_bytes as to_compressed_bytes
from treaty.runtime._flax.checks import strict as strict
from treaty.runtime._flax.paths import current_path as current_path
from treaty.runtime._flax.read import from_state_dict as from_state_dict
from treaty.runtime._flax.registry import _registered as _STATE_DICT_REGISTRY  # noqa: F401
from treaty.runtime._flax.registry import is_serializable as is_serializable
from treaty.runtime._flax.registry import register_serialization_state as register_serialization_state
from treaty.runtime._flax.report import get_serialization_info as get_serialization_info
from treaty.runtime._flax.report import validate_serializable as validate_serializable
from treaty.runtime._flax.write import to_state_dict as to_state_dict

MAX_CHUNK_SIZE = 2**30  # bytes of an array above which it is stored in parts; assign another number to change it
_ask_there(globals())
