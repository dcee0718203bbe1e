"""What a state holds, in a line of text for each leaf, that will be the same for ever."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from treaty.runtime._errors import show_keys
from treaty.runtime._trees import flatten, is_stored_array


def checksums(state: Mapping[str, Any]) -> dict[str, str]:
    """Of a state dict, by path: the type and value of a leaf, or of an array dtype, shape and the SHA-256 of its bytes, cut."""
    return {show_keys(path): _line(leaf) for path, leaf in flatten(state)}


def _line(leaf: Any) -> str:
    if is_stored_array(leaf):
        host = np.ascontiguousarray(leaf)
        return f"{host.dtype}{list(leaf.shape)} {hashlib.sha256(host.tobytes()).hexdigest()[:16]}"
    if leaf is None or isinstance(leaf, dict):
        return "None" if leaf is None else "empty"
    value = leaf.item() if isinstance(leaf, np.generic) else leaf
    return f"{type(leaf).__name__} {value!r}"
