"""What a state holds, in a line of text for each leaf, that will be the same for ever."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from treaty.runtime._errors import show_keys
from treaty.runtime._trees import flatten, is_stored_array

_NARROW: Final = ("int1", "int2", "int4", "uint1", "uint2", "uint4")


def checksums(state: Mapping[str, Any]) -> dict[str, str]:
    """Of a state dict, by path: the type and value of a leaf, or of an array dtype, shape and the SHA-256 of its bytes, cut."""
    return {show_keys(path): _line(leaf) for path, leaf in flatten(state)}


def _line(leaf: Any) -> str:
    if is_stored_array(leaf):
        host = np.asarray(leaf)
        stored = host.astype(np.int8) if str(host.dtype) in _NARROW else host  # whose upper bits may be anything
        return f"{host.dtype}{list(host.shape)} {hashlib.sha256(stored.tobytes()).hexdigest()[:16]}"
    if leaf is None or isinstance(leaf, dict):
        return "None" if leaf is None else "empty"
    value = leaf.item() if isinstance(leaf, np.generic) else leaf
    return f"{type(leaf).__name__} {value!r}"
