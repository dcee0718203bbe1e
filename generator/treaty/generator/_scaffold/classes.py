"""The classes of a schema: one for all nodes of one structure, with dims for the sizes in which they differ."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from attrs import define, evolve, field, frozen

from treaty.generator._scaffold.align import UNSOLVED
from treaty.generator._scaffold.dim_names import AxisPlace, axis_places, dim_name
from treaty.generator._scaffold.sized import Shapes, Sized, SizedItems, SizedLeaf, SizedNode, SizedTwin, parts_of
from treaty.generator._scaffold.twins import is_like_params, parts_of_twin
from treaty.schema.dims import Expr, Int, Name, linear, names


@frozen
class NodePlace:
    """Where a node of a class stands: its keys from the root on, what it was, and whether it stands for params in an optimizer."""

    keys: tuple[str, ...]
    symbol: str = ""
    is_params: bool = False


@define(eq=False)
class ClassPlan:
    """One class to be written. `sizes` is what stands at each size of its tree, in its own dims."""

    node: SizedNode
    rows: list[tuple[Expr, ...]] = field(factory=list)  # of each node that it stands for, the sizes
    places: list[NodePlace] = field(factory=list)
    above: list[int] = field(factory=list)  # structures of the classes that have it
    notes: list[str] = field(factory=list)
    sizes: tuple[Expr, ...] = ()
    own: frozenset[str] = frozenset()  # names of dims that mean something in this class only
    name: str = ""

    @property
    def depth(self) -> int:
        return min(len(place.keys) for place in self.places)


@frozen
class Classes:
    """The classes of a tree by structure, each after those that it has."""

    root: int
    by_structure: Mapping[int, ClassPlan]
    shapes: Shapes

    def of(self, node: Sized) -> ClassPlan:
        return self.by_structure[self.shapes.structure(node)]


def classes_of(root: SizedNode, shapes: Shapes) -> Classes:
    found = _Collecting(shapes)
    found.walk(root, NodePlace(()), -1)
    for plan in found.plans.values():
        _settle(plan)
    return Classes(shapes.structure(root), {one: found.plans[one] for one in found.order}, shapes)


@frozen
class _Collecting:
    shapes: Shapes
    plans: dict[int, ClassPlan] = field(factory=dict)
    order: dict[int, None] = field(factory=dict)  # what a class has comes before it

    def walk(self, sized: Sized, place: NodePlace, above: int) -> None:
        if isinstance(sized, SizedNode) and (is_class(sized) or above == -1):
            above = self._add(sized, place, above)
        if isinstance(sized, SizedItems):
            key = sized.pattern or (place.keys[-1] if place.keys else "")
            keys = (*place.keys, key) if sized.pattern is None else place.keys
            for item in sized.each or (sized.item,):
                self.walk(item, NodePlace(keys), above)
            return
        for number, (key, part) in enumerate(_named_parts(sized)):
            is_params = isinstance(sized, SizedTwin) and is_like_params(sized.name, number)
            key = sized.names.get(key, key) if isinstance(sized, SizedNode) else key
            below = key if not isinstance(part, SizedItems) or part.pattern is None else part.pattern
            self.walk(part, NodePlace((*place.keys, below), is_params=is_params), above)
        if isinstance(sized, SizedNode) and is_class(sized):
            self.order.setdefault(self.shapes.structure(sized))

    def _add(self, node: SizedNode, place: NodePlace, above: int) -> int:
        structure = self.shapes.structure(node)
        plan = self.plans.setdefault(structure, ClassPlan(node))
        plan.rows.append(self.shapes.slots(node))
        plan.places.append(evolve(place, symbol=node.symbol))
        plan.above.append(above)
        if node.note:
            plan.notes.append(node.note)
        return structure


def is_class(sized: Sized) -> bool:
    return isinstance(sized, SizedNode) and sized.container != "tuple" and bool(sized.children)


def _named_parts(sized: Sized) -> Iterator[tuple[str, Sized]]:
    if not isinstance(sized, SizedTwin):
        yield from parts_of(sized)
        return
    parts, _ = parts_of_twin(sized.name)
    for number, arg in enumerate(sized.args):
        yield next((key for key, part in parts.items() if part == number), "mu"), arg


def _settle(plan: ClassPlan) -> None:
    """Give the class its dims: names of the state's sizes where all its nodes have the same, else names of its own."""
    columns = list(zip(*plan.rows, strict=True)) if plan.rows[0] else []
    same = [column[0] if len(set(column)) == 1 else None for column in columns]
    known = {found[0] for one in same if one is not None and (found := linear(one)) and found[0][0] != UNSOLVED}
    if all(isinstance(child, SizedLeaf) for child in plan.node.children.values()) and None in same:
        same = [one if isinstance(one, Int) else None for one in same]  # a layer that is used with several sizes
        known = set()
    taken = set(known)
    own: dict[tuple[Expr, ...], Name] = {}
    places = list(axis_places(plan.node))
    sizes: list[Expr] = []
    for column, one, place in zip(columns, same, places, strict=True):
        if one is not None and (isinstance(one, Int) or known.issuperset(names(one))):
            sizes.append(one)
            continue
        if column not in own:
            own[column] = Name(dim_name(place, taken, _siblings(plan.node, place)))
            taken.add(own[column].name)
        sizes.append(own[column])
    plan.sizes = tuple(sizes)
    plan.own = frozenset(name.name for name in own.values())


def _siblings(node: Sized, place: AxisPlace) -> Collection[str]:
    for key in place.keys[:-1]:
        while isinstance(node, SizedItems):
            node = node.item
        node = dict(_named_parts(node)).get(key, node)
    while isinstance(node, SizedItems):
        node = node.item
    return node.children if isinstance(node, SizedNode) else ()


def ties(plan: ClassPlan, owner: Iterable[Expr]) -> dict[str, Expr]:
    """What the dims of a class are in terms of its owner, whose sizes at the same places are given."""
    found: dict[str, Expr] = {}
    for size, outer in zip(plan.sizes, owner, strict=True):
        if isinstance(size, Name):
            found.setdefault(size.name, outer)
    for size in plan.sizes:
        for name in names(size):
            found.setdefault(name, Name(name))
    return found
