"""What a tree looks like, as plain data: its nodes by key, and the type of each leaf, whose sizes are numbers.

The runtime draws it, of trees that a program has and of checkpoints; `treaty scaffold` writes a schema from it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, TypeVar

from attrs import frozen

from treaty.schema import ir

_T = TypeVar("_T")
Container = Literal["dict", "list", "tuple", "namedtuple", "record", "module"]
LeafType: TypeAlias = "ir.Array | ir.Key | ir.Scalar | ir.NumpyScalar | ir.Enum"


@frozen
class OutlineLeaf:
    """A leaf. `nbytes` is what it takes where it is a real array, and not one that is only traced; `python` is the type
    of a Python number."""

    type: LeafType
    nbytes: int = 0
    python: str = ""


@frozen
class SharedLeaf:
    """A variable that stands elsewhere, too: there it is a leaf."""

    shown: str


@frozen
class OpaqueLeaf:
    """What no field can hold. Functions belong to the program, and are no loss."""

    text: str
    is_function: bool
    hint: str = ""


@frozen
class OutlineNode:
    """A node, and `shown`, how Python reaches it. A "module" is of a framework whose plain values are no state."""

    container: Container
    symbol: str
    children: "Mapping[str, Outline]"
    shown: str = ""


Outline: TypeAlias = "OutlineNode | OutlineLeaf | SharedLeaf | OpaqueLeaf | None"


def outline_leaves(outline: Outline, path: tuple[str, ...] = ()) -> "Iterator[tuple[tuple[str, ...], Outline]]":
    """The leaves by their keys."""
    if isinstance(outline, OutlineNode):
        for key, child in outline.children.items():
            yield from outline_leaves(child, (*path, key))
    else:
        yield path, outline


def is_counted(keys: Iterable[str]) -> bool:
    """Whether keys are those of a list: 0, 1, …"""
    keys = list(keys)
    return bool(keys) and keys == [str(number) for number in range(len(keys))]


def counted(children: Mapping[str, _T]) -> Mapping[str, _T]:
    """The children of a node, in the order of their numbers if their keys are those of a list."""
    in_order = [str(number) for number in range(len(children))]
    return {key: children[key] for key in in_order} if children.keys() == set(in_order) else children
