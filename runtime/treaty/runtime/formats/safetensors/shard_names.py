"""Sharded safetensors checkpoints: which tensors share a file, and what the files are called."""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from treaty.runtime._state.sizes import estimate_array_nbytes

SUFFIX: Final = ".safetensors"
INDEX: Final = ".safetensors.index.json"
_NUMBERED: Final = re.compile(r"(.*)-[0-9]{5,}-of-[0-9]{5,}", re.DOTALL)
_Group: TypeAlias = tuple[list[str], bool]  # keys that share a shard, and whether a new one starts with them


def shard_filename(base_prefix: str, idx: int, total: int) -> str:
    """`("/x/model", 1, 4)` -> `"/x/model-00001-of-00004.safetensors"`; numbers start at 1."""
    return f"{base_prefix}-{idx:05d}-of-{total:05d}{SUFFIX}"


def index_filename(base_prefix: str) -> str:
    """`"/x/model"` -> `"/x/model.safetensors.index.json"`."""
    return base_prefix + INDEX


def derive_base_prefix_from_path(path_str: str) -> str:
    """The prefix behind a single file, a shard or an index: `"/x/model"` for each of them, and for itself."""
    if path_str.endswith(INDEX):
        return path_str.removesuffix(INDEX)
    prefix = path_str.removesuffix(SUFFIX)
    numbered = _NUMBERED.fullmatch(prefix)
    return numbered[1] if numbered else prefix


def group_keys_by_shard_size(flat_state: Mapping[str, Any], max_shard_size_bytes: int) -> list[list[str]]:
    """Keys in their order, cut into shards of at most so many bytes; a tensor above the limit is a shard by itself."""
    return _filled([([key], False) for key in flat_state], flat_state, max_shard_size_bytes)


def optimize_shard_layout(state: Mapping[str, Any], max_shard_size_bytes: int) -> list[list[str]]:
    """As `group_keys_by_shard_size`, by sorted prefix, and one module's tensors share a shard if one can hold them."""
    modules: dict[str, list[str]] = {}
    for key in state:
        prefix, dot, _ = key.rpartition(".")
        modules.setdefault(prefix if dot else "root", []).append(key)
    groups: list[_Group] = []
    for _, keys in sorted(modules.items()):
        fits = sum(estimate_array_nbytes(state[key]) for key in keys) <= max_shard_size_bytes
        groups += [(keys, False)] if fits else [([key], key == keys[0]) for key in keys]
    return _filled(groups, state, max_shard_size_bytes)


def _filled(groups: list[_Group], state: Mapping[str, Any], limit: int) -> list[list[str]]:
    shards: list[list[str]] = []
    room = 0
    for keys, fresh in groups:
        nbytes = sum(estimate_array_nbytes(state[key]) for key in keys)
        if shards and nbytes <= room and not fresh:
            shards[-1] += keys
        else:
            shards.append(list(keys))
            room = limit
        room -= nbytes
    return shards
