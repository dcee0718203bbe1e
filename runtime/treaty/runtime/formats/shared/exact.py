"""What files of named arrays lose of a state dict, noted beside them: the order of dicts, and the bits of NaNs.

Arrays come back in the order of the file and other values after them, and JSON has one NaN. The note is JSON again, with
`order`, the keys of dicts that would be in another order, and `nans`, the bits of floats; a reader may ignore all of it.
"""

import json
import math
import struct
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from treaty.runtime._errors import CorruptCheckpointError, show_keys

_Path: TypeAlias = tuple[str, ...]
_NAN: Final = struct.pack(">d", math.nan)


def note(tree: Mapping[str, Any], is_array: Callable[[Any], bool], ordered: Collection[_Path] | None) -> str | None:
    """The note of a state dict, None where nothing would be lost; `ordered` are the dicts whose order counts, or all."""
    walk = _Walk(is_array, ordered)
    walk.rank(tree, ())
    said = {"order": walk.order, "nans": walk.nans}
    found = {part: value for part, value in said.items() if value}
    return json.dumps(found, separators=(",", ":")) if found else None


def apply(tree: dict[str, Any], text: Any, where: str) -> None:
    """Put back what the note says was lost."""
    try:
        said = json.loads(text)
        for path, keys in said.get("order", ()):
            node = _node(tree, path)
            if len(keys) != len(node) or set(keys) != set(node):
                raise KeyError
            node.update([(key, node.pop(key)) for key in keys])
        for path, *parts in said.get("nans", ()):
            node = _node(tree, path[:-1])
            node[path[-1]] = _with_bits(node[path[-1]], [bytes.fromhex(part) for part in parts])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, struct.error):
        raise CorruptCheckpointError(
            f"expected the order of dicts and bits of NaNs, got something else at {where}"
        ) from None


class _Walk:
    def __init__(self, is_array: Callable[[Any], bool], ordered: Collection[_Path] | None) -> None:
        self.is_array = is_array
        self.ordered = ordered
        self.count = 0
        self.order: list[Any] = []
        self.nans: list[Any] = []

    def rank(self, value: Any, path: _Path) -> tuple[bool, int]:
        """When a reader meets the first leaf of a subtree: arrays before the rest, each in their order."""
        self.count += 1
        if type(value) is not dict or not value:
            if type(value) in (float, complex):
                self.add_nans(value, path)
            return not self.is_array(value), self.count
        ranks = [self.rank(one, (*path, key)) for key, one in value.items()]
        if (self.ordered is None or path in self.ordered) and ranks != sorted(ranks):
            self.order.append([path, list(value)])
        return min(ranks)

    def add_nans(self, value: float | complex, path: _Path) -> None:
        parts = [struct.pack(">d", part) for part in _parts(value)]
        if any(math.isnan(part) for part in _parts(value)) and any(_is_odd(part) for part in parts):
            self.nans.append([path, *(part.hex() for part in parts)])


def _parts(value: float | complex) -> list[float]:
    return [value.real, value.imag] if isinstance(value, complex) else [value]


def _is_odd(bits: bytes) -> bool:
    return math.isnan(struct.unpack(">d", bits)[0]) and bits != _NAN


def _node(tree: dict[str, Any], path: Any) -> dict[str, Any]:
    node = tree
    for key in path:
        node = node[key]
    if type(node) is not dict:
        raise TypeError(show_keys(path))
    return node


def _with_bits(value: Any, parts: list[bytes]) -> Any:
    """A float or complex with these bits, which may change nothing but its NaNs."""
    found = [struct.unpack(">d", bits)[0] for bits in parts]
    if type(value) not in (float, complex) or len(found) != len(_parts(value)):
        raise TypeError
    for one, other in zip(found, _parts(value), strict=True):
        if struct.pack(">d", one) != struct.pack(">d", other) and not (math.isnan(one) and math.isnan(other)):
            raise ValueError
    return complex(*found) if type(value) is complex else found[0]
