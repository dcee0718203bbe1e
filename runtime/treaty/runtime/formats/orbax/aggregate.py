"""The file `checkpoint` of Orbax before 0.5: the tree in Flax's MessagePack, its leaves inside, or where arrays lie."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from treaty.runtime._errors import CorruptCheckpointError, show_keys
from treaty.runtime._trees import MOST_LEVELS
from treaty.runtime.formats import msgpack
from treaty.runtime.formats.msgpack.recognise import is_at

AGGREGATE: Final = "checkpoint"
_PLACEHOLDER: Final = "PLACEHOLDER://"


def is_aggregate(path: Path) -> bool:
    """Whether a file begins as a map of MessagePack does: other libraries have files of this name too."""
    return is_at(str(path))


def read_aggregate(item: Path) -> dict[tuple[str, ...], Any]:
    """The leaves by path; sequences by "0", "1", …, and empty nodes as {}."""
    tree = msgpack.read_file(item / AGGREGATE)
    if type(tree) is not dict:
        raise CorruptCheckpointError(f"expected a tree, got {type(tree).__name__} in {item / AGGREGATE}")
    return dict(_leaves(tree, (), item))


def stored_elsewhere(leaf: Any) -> str | None:
    """The name of the array that a leaf stands for, if it is stored by itself."""
    is_name = type(leaf) is str and leaf.startswith(_PLACEHOLDER)
    return leaf.removeprefix(_PLACEHOLDER) if is_name else None


def _leaves(node: Any, path: tuple[str, ...], item: Path) -> Iterator[tuple[tuple[str, ...], Any]]:
    if type(node) is list:
        node = {str(index): one for index, one in enumerate(node)}
    if type(node) is not dict or not node:
        yield path, node
        return
    for key, one in node.items():
        if type(key) is not str or len(path) > MOST_LEVELS:
            raise CorruptCheckpointError(f"expected keys of text, got {key!r} at {show_keys(path)} in {item}")
        yield from _leaves(one, (*path, key), item)
