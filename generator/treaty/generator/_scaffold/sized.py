"""A tree whose sizes are expressions: what all sightings of a state have in common."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from attrs import evolve, field, frozen

from treaty.schema import ir
from treaty.schema.dims import Dim, Expr
from treaty.schema.outline import Container, LeafType

Holder = Literal["tuple", "dict"]  # what holds alike items; a dict where they are not counted from 0


@frozen(eq=False)
class SizedLeaf:
    type: LeafType
    note: str = ""

    @property
    def axes(self) -> tuple[Expr, ...]:
        return tuple(dim.size for dim in self.type.dims) if isinstance(self.type, (ir.Array, ir.Key)) else ()

    def with_axes(self, axes: tuple[Expr, ...]) -> LeafType:
        return evolve(self.type, dims=tuple(map(Dim, axes))) if isinstance(self.type, (ir.Array, ir.Key)) else self.type


@frozen(eq=False)
class SizedItems:
    """Items that are alike. With a `pattern` they lie beside the other keys of their owner.

    Where their sizes differ from item to item in no way that follows from a name, `each` is every item with its sizes.
    """

    holder: Holder
    item: "Sized"
    length: Expr
    pattern: str | None = None
    each: "tuple[Sized, ...]" = ()


@frozen(eq=False)
class SizedNode:
    """A node. A "tuple" has its children by number, each of a type of its own. `names` are for keys that say nothing."""

    container: Container
    symbol: str
    children: "Mapping[str, Sized]"
    note: str = ""
    names: Mapping[str, str] = field(factory=dict)


@frozen(eq=False)
class SizedTwin:
    """A class of the library of optax, and its arguments; `node` is what it stands for."""

    name: str
    args: "tuple[Sized, ...]"
    node: SizedNode


Sized: TypeAlias = SizedLeaf | SizedItems | SizedNode | SizedTwin


def parts_of(sized: Sized) -> "Iterator[tuple[str, Sized]]":
    """What a tree is directly made of, by key."""
    if isinstance(sized, SizedNode):
        yield from sized.children.items()
    elif isinstance(sized, SizedItems):
        yield "", sized.item
    elif isinstance(sized, SizedTwin):
        yield from (("", arg) for arg in sized.args)


def twins_in(sized: Sized) -> Iterator[SizedTwin]:
    """Every class of the library in a tree."""
    if isinstance(sized, SizedTwin):
        yield sized
    for _, part in parts_of(sized):
        yield from twins_in(part)


def enums_in(sized: Sized) -> Iterator[ir.Enum]:
    if isinstance(sized, SizedLeaf) and isinstance(sized.type, ir.Enum):
        yield sized.type
    for _, part in parts_of(sized):
        yield from enums_in(part)


@frozen(slots=False)
class Shapes:
    """The structure of trees without sizes, and their sizes without structure. Each is worked out once."""

    _structures: dict[int, int] = field(factory=dict, init=False)
    _numbers: dict[Any, int] = field(factory=dict, init=False)  # of structures, so that those around them stay small
    _slots: dict[int, tuple[Expr, ...]] = field(factory=dict, init=False)
    _kept: list[Sized] = field(factory=list, init=False)  # so that no id is used again

    def structure(self, sized: Sized) -> int:
        """Equal for trees that one class can stand for."""
        if id(sized) not in self._structures:
            self._kept.append(sized)
            self._structures[id(sized)] = self._numbers.setdefault(self._structure(sized), len(self._numbers))
        return self._structures[id(sized)]

    def slots(self, sized: Sized) -> tuple[Expr, ...]:
        """All sizes in a tree, in an order that depends on its structure alone."""
        if id(sized) not in self._slots:
            self._kept.append(sized)
            self._slots[id(sized)] = tuple(self._sizes(sized))
        return self._slots[id(sized)]

    def _structure(self, sized: Sized) -> Any:
        if isinstance(sized, SizedLeaf):
            type_ = sized.type
            if isinstance(type_, ir.Array):
                return "array", type_.dtype, type_.host, len(type_.dims)
            return ("key", len(type_.dims)) if isinstance(type_, ir.Key) else type_
        if isinstance(sized, SizedItems):
            return sized.holder, sized.pattern, bool(sized.each), self.structure(sized.item)
        if isinstance(sized, SizedTwin):
            return sized.name, *map(self.structure, sized.args)
        kind = "tuple" if sized.container == "tuple" else "class"
        return kind, *((key, self.structure(child)) for key, child in sized.children.items())

    def _sizes(self, sized: Sized) -> Iterator[Expr]:
        if isinstance(sized, SizedLeaf):
            yield from sized.axes
        elif isinstance(sized, SizedItems):
            yield sized.length
            if not sized.each:
                yield from self.slots(sized.item)
        else:
            for _, part in parts_of(sized):
                yield from self.slots(part)
