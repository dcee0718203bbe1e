"""Many sightings of one state to one tree: what stays, what follows a size, and what are alike items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from treaty.generator._scaffold.families import Family, families
from treaty.generator._scaffold.sized import Holder, Shapes, Sized, SizedItems, SizedLeaf, SizedNode
from treaty.schema import ir
from treaty.schema.dims import Dim, Expr, Int, Name
from treaty.schema.outline import Container, LeafType, OpaqueLeaf, Outline, OutlineLeaf, OutlineNode, SharedLeaf

UNSOLVED: Final = "~"  # how the name of a size begins that no expression gives
_PYTHON: Final = {
    "int": "a Python int, which a jitted step makes an array of",
    "float": 'a Python float; where a jitted step makes an array of it, write Float32[Array, ""]',
}
_NO_EXPRESSION: Final = "an axis that no expression of the sizes gives has a name of its own"
_Sizes = Mapping[str, int]
Solver = Callable[[Sequence[_Sizes], Sequence[int]], Expr | None]


class StructureChange(Exception):
    """Two sightings have no tree in common, other than for their sizes."""

    def __init__(self, shown: str, what: str) -> None:
        self.shown = shown
        self.what = what
        super().__init__(f"{what} at state{shown}")


@frozen
class Sighting:
    """What a state looks like under an assignment of sizes."""

    sizes: _Sizes
    outline: Outline


def align(sightings: Sequence[Sighting], solver: Solver) -> Sized | None:
    """The tree that all sightings have in common; None where there is nothing to store. Raises StructureChange."""
    return _Aligning(solver).tree([(one.sizes, one.outline) for one in sightings], "")


@frozen
class _Aligning:
    solver: Solver
    _solved: dict[Any, Expr] = field(factory=dict, init=False)
    _unsolved: dict[tuple[int, ...], Name] = field(factory=dict, init=False)
    shapes: Shapes = field(factory=Shapes, init=False)

    def tree(self, seen: Sequence[tuple[_Sizes, Outline]], shown: str) -> Sized | None:
        outlines = [outline for _, outline in seen]
        first = outlines[0]
        for other in outlines:
            if type(other) is not type(first):
                raise StructureChange(shown, f"{_told(first)} or {_told(other)}")
        if isinstance(first, OutlineLeaf):
            return self._leaf(seen, shown)
        if isinstance(first, OutlineNode):
            return self._node([(sizes, one) for sizes, one in seen if isinstance(one, OutlineNode)], shown)
        return SizedLeaf(ir.Scalar("none")) if first is None else None

    def _leaf(self, seen: Sequence[tuple[_Sizes, Outline]], shown: str) -> SizedLeaf:
        outlines = [one for _, one in seen if isinstance(one, OutlineLeaf)]
        types = [one.type for one in outlines]
        first = types[0]
        for other in types:
            if _kind(other) != _kind(first):
                raise StructureChange(shown, f"{ir.describe(first)} or {ir.describe(other)}")
        note = _PYTHON.get(outlines[0].python, "")
        if not isinstance(first, (ir.Array, ir.Key)):
            return SizedLeaf(first, note)
        assignments = [sizes for sizes, _ in seen]
        columns = zip(*(_numbers(one) for one in types), strict=True)
        dims = tuple(Dim(self._size(assignments, column)) for column in columns)
        if any(isinstance(dim.size, Name) and dim.size.name.startswith(UNSOLVED) for dim in dims):
            note = _NO_EXPRESSION
        return SizedLeaf(evolve(first, dims=dims), note)

    def _size(self, assignments: Sequence[_Sizes], sizes: Sequence[int]) -> Expr:
        key = (tuple(map(id, assignments)), tuple(sizes))
        if key not in self._solved:
            found = self.solver(assignments, sizes)
            if found is None:
                found = self._unsolved.setdefault(tuple(sizes), Name(f"{UNSOLVED}{len(self._unsolved)}"))
            self._solved[key] = found
        return self._solved[key]

    def _node(self, seen: Sequence[tuple[_Sizes, OutlineNode]], shown: str) -> SizedNode | SizedItems | None:
        first = seen[0][1]
        if first.container in ("list", "tuple") and all(map(_is_whole, seen)):
            family = Family.of_numbers([one.children for _, one in seen])
            if family is not None and (items := self._items(family, seen, shown, pattern=None)) is not None:
                return items
        found = families([one.children for _, one in seen], is_sorted=first.container in ("dict", "record"))
        children: dict[str, Sized] = {}
        folded: dict[str, bool] = {}
        for key in found.order:
            family = found.families.get(key)
            pattern = family.pattern if family is not None else None
            if family is not None and pattern is not None and pattern not in folded:
                items = self._items(family, seen, shown, pattern=pattern)
                folded[pattern] = items is not None
                if items is not None:
                    children[pattern] = items
            if pattern is not None and folded[pattern]:
                continue
            child = self._child(seen, key, shown)
            if child is not None and not _is_setting(child, first.container):
                children[key] = child
        if first.container in ("module", "record") and not children:
            return None
        container = first.container
        if container in ("list", "tuple"):  # one of which something is left out is known by its keys
            container = "tuple" if list(children) == [str(number) for number in range(len(children))] else "dict"
        return SizedNode(container, first.symbol, children, _shared_note(first))

    def _child(self, seen: Sequence[tuple[_Sizes, OutlineNode]], key: str, shown: str) -> Sized | None:
        below = [(sizes, one.children[key]) for sizes, one in seen if key in one.children]
        if len(below) < len(seen):
            raise StructureChange(shown, f"the key {key!r} only with some sizes")
        return self.tree(below, _shown(below, f"{shown}.{key}"))

    def _items(
        self, family: Family, seen: Sequence[tuple[_Sizes, OutlineNode]], shown: str, pattern: str | None
    ) -> SizedItems | None:
        """Items as one, or None where they are better declared one by one."""
        rows = [(sizes, [one.children[key] for key in family.keys(one.children)]) for sizes, one in seen]
        counts = [len(items) for _, items in rows]
        if not min(counts):
            return None
        varies = len(set(counts)) > 1
        is_uniform = all(_same(one, items[0]) for _, items in rows for one in items)
        is_plain = not isinstance(rows[0][1][0], OutlineNode) or rows[0][1][0].container != "namedtuple"
        if not varies and not (is_uniform and is_plain and family.is_worth_it(rows[0][1])):
            return None
        holder: Holder = "dict" if family.start else "tuple"
        length = self._size([sizes for sizes, _ in rows], counts)
        if is_uniform:
            item = self.tree([(sizes, items[0]) for sizes, items in rows], f"{shown}[...]")
            return None if item is None else SizedItems(holder, item, length, pattern)
        each = [self.tree([(rows[0][0], one)], f"{shown}[{index}]") for index, one in enumerate(rows[0][1])]
        whole = [one for one in each if one is not None]
        if len(whole) < len(each) or len({self.shapes.structure(one) for one in whole}) > 1:
            raise StructureChange(
                shown, f"{counts[0]} or {next(n for n in counts if n != counts[0])} items of several kinds"
            )
        return SizedItems(holder, whole[0], length, pattern, tuple(whole))


def _kind(type_: LeafType) -> tuple[LeafType, int]:
    """A type without its sizes, and its rank."""
    if not isinstance(type_, (ir.Array, ir.Key)):
        return type_, 0
    return evolve(type_, dims=()), len(type_.dims)


def _numbers(type_: LeafType) -> list[int]:
    dims = type_.dims if isinstance(type_, (ir.Array, ir.Key)) else ()
    return [dim.size.value for dim in dims if isinstance(dim.size, Int)]


def _is_whole(one: tuple[_Sizes, OutlineNode]) -> bool:
    keys = one[1].children
    return bool(keys) and list(keys) == [str(number) for number in range(len(keys))]


def _same(one: Outline, other: Outline) -> bool:
    """Whether two items are alike, sizes and all."""
    if isinstance(one, OutlineNode) and isinstance(other, OutlineNode):
        return one.children.keys() == other.children.keys() and all(
            _same(child, other.children[key]) for key, child in one.children.items()
        )
    if isinstance(one, OutlineLeaf) and isinstance(other, OutlineLeaf):
        return one.type == other.type
    if isinstance(one, OpaqueLeaf) and isinstance(other, OpaqueLeaf):
        return one.is_function and other.is_function
    return type(one) is type(other) and not isinstance(one, SharedLeaf)


def _is_setting(child: Sized, owner: Container) -> bool:
    """What a module has beside its arrays: plain values, None, and nodes without any."""
    if isinstance(child, SizedNode):
        return owner == "module" and not child.children
    if not isinstance(child, SizedLeaf) or owner not in ("module", "record"):
        return False
    return child.type == ir.Scalar("none") or (owner == "module" and not isinstance(child.type, (ir.Array, ir.Key)))


def _shared_note(node: OutlineNode) -> str:
    shared = [(key, child) for key, child in node.children.items() if _all_shared(child)]
    return "; ".join(f"{key} is {_where(child)}, and declared there" for key, child in shared)


def _all_shared(outline: Outline) -> bool:
    if isinstance(outline, OutlineNode):
        return bool(outline.children) and all(map(_all_shared, outline.children.values()))
    return isinstance(outline, SharedLeaf)


def _where(outline: Outline) -> str:
    """Where else a shared variable, or a module of them, stands."""
    if isinstance(outline, OutlineNode):
        key, child = next(iter(outline.children.items()))
        return _where(child).removesuffix(f".{key}").removesuffix(f"[{key}]").removesuffix(f"[{key!r}]")
    return f"state{outline.shown}" if isinstance(outline, SharedLeaf) else ""


def _shown(below: Sequence[tuple[_Sizes, Outline]], otherwise: str) -> str:
    first = below[0][1]
    return first.shown or otherwise if isinstance(first, OutlineNode) else otherwise


def _told(outline: Outline) -> str:
    if isinstance(outline, OutlineLeaf):
        return ir.describe(outline.type)
    if isinstance(outline, OutlineNode):
        return outline.symbol.rpartition(":")[2]
    return "nothing" if outline is None else "something else"
