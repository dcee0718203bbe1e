"""Dims that nothing ties: where one comes twice, the declaration has to say whether it is one size or two.

A dim is loose where the owner's `Dims(...)` says nothing about it.

Two rules. In one class a name may come from one child only, and from none where it is a dim of the class itself. And below
two children of one class, the dims of one same class may not both be loose: `params` and `opt`, which has the like of it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from attrs import evolve, frozen

from treaty.schema import ir
from treaty.schema._ties import EVERY, OWN
from treaty.schema.dims import Name

_Dim = tuple[str, str]  # a class and one of its dims
_Place = tuple[str, int]  # a class and one of its children, by number


@frozen
class _Child:
    """A class that a field has, its dims that are loose there, and those that are loose somewhere in it."""

    field: str
    path: str  # the field, and what is in it: an item of a tuple, a field of a class described in place
    type: ir.Type  # what is written at the path
    node: ir.Node
    names: tuple[str, ...]
    below: Mapping[_Dim, _Place]

    @property
    def loose(self) -> dict[_Dim, _Place | None]:
        """By class; with the place where that is not here."""
        return {**self.below, **{(self.node.cls, name): None for name in self.names}}


class Loose:
    """What is loose in classes as they are declared; `dims`: the names that each class has."""

    def __init__(self, raw: Mapping[str, ir.Class], dims: Mapping[str, tuple[str, ...]]) -> None:
        self._raw = raw
        self._dims = dims
        self._children: dict[str, list[_Child]] = {}
        self._below: dict[str, dict[_Dim, _Place]] = {id: {} for id in raw}
        grown = True
        while grown:  # until recursion adds nothing more
            self._children = {id: list(self._of(cls)) for id, cls in raw.items() if not _in_place(cls)}
            below = {id: self._all_of(id) for id in self._children}
            grown = any(below[id].keys() != self._below[id].keys() for id in below)
            self._below |= below

    def problems(self, place_of: Callable[[str], str]) -> list[str]:
        """Each at the field to change. What is wrong with a class is said there, and not of all that have it."""
        found = [one for id in self._children for one in self._twice_here(id)]
        found += [one for id in self._children for one in self._twice_below(id)]
        told: dict[str, str] = {}
        for (id, at), text in found:
            told.setdefault(f"{place_of(id)}.{self._children[id][at].field}", text)
        return [f"{place}: {text}" for place, text in told.items()]

    def _twice_here(self, id: str) -> Iterator[tuple[_Place, str]]:
        for at, child in enumerate(self._children[id]):
            rest = list(child.names)
            if names := [name for name in rest if name in self._dims[id]]:
                yield (id, at), self._told(names, self._raw[id].qualname, [child])
            rest = [name for name in rest if name not in names]
            for other in self._children[id][:at]:
                if names := [name for name in rest if name in other.names]:
                    yield (id, at), self._told(names, other.path, [other, child])
                rest = [name for name in rest if name not in names]

    def _told(self, names: list[str], owner: str, ties: list[_Child]) -> str:
        them = "them" if len(names) > 1 else "it"
        shared = " and ".join(self._shared(child, names) for child in ties)
        return f"{_dims(names)}: {owner} has {them} too, untied; to share {them}, write {shared}; {self._own(ties[-1])}"

    def _twice_below(self, id: str) -> Iterator[tuple[_Place, str]]:
        for at, child in enumerate(self._children[id]):
            for other in self._children[id][:at]:
                places: dict[_Place, list[str]] = {}
                for dim in (dim for dim in child.loose if dim in other.loose):
                    place = child.loose[dim] or other.loose[dim]
                    if place is not None:
                        places.setdefault(place, []).append(dim[1])
                for place, names in places.items():
                    yield place, self._told_below(place, names, id, other, child)

    def _told_below(self, place: _Place, found: list[str], id: str, *children: _Child) -> str:
        there = self._children[place[0]][place[1]]
        names = [name for name in there.names if name in found]
        them, where = "them" if len(names) > 1 else "it", " and in ".join(one.path for one in children)
        return (
            f"{_dims(names)}: {self._raw[id].qualname} has {them} in {where}, untied; "
            f"to tie {them} there, write {self._shared(there, names)}; {self._own(there)}"
        )

    def _of(self, cls: ir.Class, above: str = "") -> Iterator[_Child]:
        for field in cls.fields:
            for path, type, node in self._places(f"{above}{field.name}", field.type, field.type):
                ties = dict(node.ties)
                if _in_place(self._raw[node.cls]):  # its names are those of this class
                    inner = self._of(self._raw[node.cls], f"{path}.")
                    yield from (evolve(child, field=field.name) for child in inner)
                else:
                    silent = OWN in ties or EVERY in ties
                    names = () if silent else tuple(name for name in self._undefined(node.cls) if name not in ties)
                    below = {} if OWN in ties else self._below[node.cls]
                    yield _Child(field.name, path, type, node, names, below)

    def _all_of(self, id: str) -> dict[_Dim, _Place]:
        found: dict[_Dim, _Place] = {}
        for at, child in enumerate(self._children[id]):
            for dim, place in child.loose.items():
                found.setdefault(dim, place or (id, at))
        return found

    def _undefined(self, id: str) -> list[str]:
        """Without those that follow from others, as in `d_ff=4*d_model` and `rgb=3`."""
        types = (type for field in self._raw[id].fields for type in ir.every_type(field.type))
        own = (dim for type in types for dim in ir.own_dims(type))
        defined = {dim.label for dim in own if dim.label is not None and dim.size != Name(dim.label)}
        return [name for name in self._dims[id] if name != EVERY and name not in defined]

    def _places(self, path: str, written: ir.Type, type: ir.Type) -> Iterator[tuple[str, ir.Type, ir.Node]]:
        """Each class in a type, with the path and the type to write `Dims` at."""
        if isinstance(type, ir.Node):
            yield path, written, type
        elif isinstance(type, ir.Tuple):
            for index, item in enumerate(type.items):
                yield from self._places(f"{path}[{index}]", item, item)
        elif isinstance(type, ir.Partial):
            yield from self._places(f"{path}.args", type.args, type.args)
            yield from self._places(f"{path}.keywords", type.keywords, type.keywords)
        elif isinstance(type, (ir.Sequence, ir.Dict, ir.Optional)):
            for part in ir.children(type):
                yield from self._places(path, written, part)
        elif not isinstance(type, ir.Leaf):
            assert_never(type)

    def _shared(self, child: _Child, names: list[str]) -> str:
        """What to write where these names are one size."""
        ties = _written(child.node)
        every = not ties and set(names) == set(self._dims[child.node.cls])
        given = "..." if every else ", ".join([*(f'"{name}"' for name in names), *ties])
        return f"{child.path}: Annotated[{self._spelled(child.type)}, Dims({given})]"

    def _own(self, child: _Child) -> str:
        ties = ["None", *_written(child.node)]
        return f"to keep its own, {child.path}: Annotated[{self._spelled(child.type)}, Dims({', '.join(ties)})]"

    def _spelled(self, type: ir.Type) -> str:
        """A type about as it is written."""
        if isinstance(type, ir.Node):
            cls = self._raw[type.cls]
            return f"{cls.qualname}[{', '.join(map(self._spelled, cls.args))}]" if cls.args else cls.qualname
        if isinstance(type, ir.Sequence):
            return f"tuple[{self._spelled(type.item)}, ...]" if type.immutable else f"list[{self._spelled(type.item)}]"
        if isinstance(type, ir.Dict):
            return f"dict[{type.key}, {self._spelled(type.value)}]"
        if isinstance(type, ir.Optional):
            return f"{self._spelled(type.item)} | None"
        if isinstance(type, (ir.Tuple, ir.Partial, ir.Leaf)):
            return "..."
        assert_never(type)


def _in_place(cls: ir.Class) -> bool:
    return cls.kind in ("foreign", "keywords")


def _written(node: ir.Node) -> list[str]:
    return [f'{name}="{size}"' for name, size in node.ties]


def _dims(names: list[str]) -> str:
    return f"dim{'s' * (len(names) > 1)} {', '.join(names)}"
