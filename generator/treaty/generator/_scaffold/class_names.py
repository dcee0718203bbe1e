"""What classes are called: as the module is, or the key."""

from collections.abc import Iterator, Mapping
from typing import Final

from treaty.generator._scaffold.classes import Classes, ClassPlan, NodePlace
from treaty.generator._scaffold.dim_names import unused
from treaty.generator._scaffold.reading import class_name, singular
from treaty.generator._scaffold.sized import SizedLeaf, twins_in

_BY_LEAVES: Final[Mapping[frozenset[str], tuple[str, ...]]] = {  # what has just such leaves, by the rank of the first
    frozenset(("kernel", "bias")): ("", "", "Dense", "Projection", "Conv", "Conv"),
    frozenset(("weight", "bias")): ("", "Norm", "Linear", "Conv", "Conv", "Conv"),
    frozenset(("w", "b")): ("", "", "Linear", "Linear", "Conv", "Conv"),
    frozenset(("scale", "bias")): ("", "Norm"),
    frozenset(("scale", "offset")): ("", "Norm"),
    frozenset(("mean", "var")): ("", "BatchNormStats"),
    frozenset(("embedding",)): ("", "", "Embed"),
}
_PARAMS: Final = "Params"
_CONTAINERS: Final = (
    "dict",
    "list",
    "tuple",
    "FrozenDict",
    "State",
    "OrderedDict",
    "defaultdict",
    "FlatMapping",
    "List",
    "Dict",
)


def name_classes(classes: Classes, root: str, reserved: frozenset[str]) -> None:
    """Give every class a name; `reserved` are those that the module has otherwise."""
    taken = {*reserved, root}
    plans = classes.by_structure
    plans[classes.root].name = root
    for structure, plan in sorted(plans.items(), key=lambda one: one[1].depth):
        if structure != classes.root:
            wanted = next((name for name in _wishes(plan, classes) if name not in taken), "")
            plan.name = wanted or unused(_wish(plan), taken, "")
            taken.add(plan.name)


def _wishes(plan: ClassPlan, classes: Classes) -> Iterator[str]:
    wish = _wish(plan)
    yield wish
    if wish == _PARAMS:
        if any(one.name == "MaskedNode" for one in twins_in(plan.node)):
            yield f"Masked{_PARAMS}"
        wish = _suggested(plan.places[0])
        yield wish
    others = [one for one in classes.by_structure.values() if one.name == wish]
    yield from (f"{wish}{more}" for one in others if (more := _difference(plan, one)))
    if by_leaves := _by_leaves(plan):
        yield by_leaves
    above = classes.by_structure.get(plan.above[0])
    if above is not None:
        yield f"{above.name}{wish}"


def _wish(plan: ClassPlan) -> str:
    """What all its nodes suggest, else those that were of a class, else what its leaves say, else the nearest to the root."""
    places = [place for place in plan.places if not place.is_params]
    if not places:
        return _PARAMS
    names = [_suggested(place) for place in places]
    by_class = {_cls(place) for place in places} - {""}
    for agreed in (set(names), by_class):
        if len(agreed) == 1:
            return next(iter(agreed))
    return _by_leaves(plan) or min(zip(places, names, strict=True), key=lambda one: len(one[0].keys))[1]


def _by_leaves(plan: ClassPlan) -> str:
    """What people call a layer with such leaves; empty where there is no name for it."""
    keys = plan.node.children.keys()
    leaves = [child for child in plan.node.children.values() if isinstance(child, SizedLeaf)]
    if len(leaves) < len(keys):
        return ""
    rank = max(len(leaf.axes) for leaf in leaves)
    found = next((names for known, names in _BY_LEAVES.items() if keys == known or keys == known - {"bias", "b"}), ())
    return found[rank] if rank < len(found) else ""


def _difference(plan: ClassPlan, other: ClassPlan) -> str:
    """What a class has more or less than another, if that is one leaf."""
    ours, theirs = set(plan.node.children), set(other.node.children)
    if len(ours ^ theirs) != 1 or not _has_only_leaves(plan) or not _has_only_leaves(other):
        return ""
    (key,) = ours ^ theirs
    return f"{'With' if key in ours else 'Without'}{class_name(key)}"


def _has_only_leaves(plan: ClassPlan) -> bool:
    return all(isinstance(child, SizedLeaf) for child in plan.node.children.values())


def _cls(place: NodePlace) -> str:
    """The class that a node was of, if that says more than that it was a container."""
    cls = place.symbol.rpartition(":")[2].rpartition(".")[2].lstrip("_")
    return cls[0].upper() + cls[1:] if cls.isidentifier() and cls not in _CONTAINERS else ""


def _suggested(place: NodePlace) -> str:
    if cls := _cls(place):
        return cls
    key = next((key for key in reversed(place.keys) if class_name(key)), "")
    is_item = len(place.keys) > 1 and place.keys[-1] == place.keys[-2]
    name = class_name(key) or "Node"
    return singular(name) if is_item else name
