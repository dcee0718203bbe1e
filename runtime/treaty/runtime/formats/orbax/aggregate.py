"""The file `checkpoint` of Orbax before 0.5: the tree in Flax's MessagePack, its leaves inside, or where arrays lie."""

from pathlib import Path
from typing import Any, Final

from treaty.runtime._trees import flatten
from treaty.runtime.formats import msgpack
from treaty.runtime.formats.msgpack.recognise import is_at
from treaty.runtime.formats.msgpack.source import as_tree

AGGREGATE: Final = "checkpoint"
_PLACEHOLDER: Final = "PLACEHOLDER://"


def is_aggregate(path: Path) -> bool:
    """Whether a file begins as a map of MessagePack does: other libraries have files of this name too."""
    return is_at(str(path))


def read_aggregate(item: Path) -> dict[tuple[str, ...], Any]:
    """The leaves by path; sequences by "0", "1", …, and empty nodes as {}."""
    return dict(flatten(as_tree(msgpack.read_file(item / AGGREGATE), item / AGGREGATE)))


def stored_elsewhere(leaf: Any) -> str | None:
    """The name of the array that a leaf stands for, if it is stored by itself."""
    is_name = type(leaf) is str and leaf.startswith(_PLACEHOLDER)
    return leaf.removeprefix(_PLACEHOLDER) if is_name else None
