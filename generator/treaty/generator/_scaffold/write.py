"""From sightings to the text of a schema module: the pure middle of `treaty scaffold`."""

from collections.abc import Sequence
from typing import Final

from treaty.generator._scaffold.align import Sighting, Solver, align
from treaty.generator._scaffold.classes import classes_of
from treaty.generator._scaffold.dim_names import unused
from treaty.generator._scaffold.emit import TwinConflict, module_text
from treaty.generator._scaffold.guess import guess
from treaty.generator._scaffold.leaves import opaque_leaves
from treaty.generator._scaffold.sized import Shapes, Sized, SizedItems, SizedLeaf, SizedNode, SizedTwin, twins_in
from treaty.generator._scaffold.twins import with_twins
from treaty.schema import TreatyError, ir
from treaty.schema.dims import Dim, Int
from treaty.schema.outline import Outline
from treaty.schema.solving import solve

_GUESSED: Final = (
    "# A guess: sizes that are equal are one dim, which is named after the size. Give each its name.",
    "",
)

_NOTHING: Final = "nothing that is stored; return what has arrays: of a linen module, what its init gives"
_WORDS: Final = ir.Array("uint32", (Dim(Int(0)),))  # of a PRNG key of the old kind


def factory_text(target: str, root: str, sightings: Sequence[Sighting]) -> str:
    """The module for the state that a factory returns."""
    header = [f'"""The state that `{target}` makes, as `treaty scaffold` saw it: yours to edit."""', ""]
    return schema_text(sightings, root, [*header, *(_GUESSED if len(sightings) == 1 else ())])


def checkpoint_text(path: str, root: str, outline: Outline) -> str:
    """The module for what a checkpoint holds."""
    if wrong := list(opaque_leaves(outline, f"{path}: ")):
        raise TreatyError("\n".join(wrong))
    header = ['"""The state of a checkpoint, as `treaty scaffold` saw it: yours to edit."""', "", *_GUESSED]
    return schema_text([Sighting({}, outline)], root, header, by_keys=True)


def schema_text(sightings: Sequence[Sighting], root: str, header: Sequence[str], *, by_keys: bool = False) -> str:
    """The module whose class `root` is the state of the sightings. With one sighting, sizes that are equal are one dim."""
    solver: Solver = solve if len(sightings) > 1 else guess
    tree = align(sightings, solver)
    shapes = Shapes()
    without: frozenset[str] = frozenset()
    while True:
        try:
            whole = _as_class(tree, with_twins(tree, shapes, by_keys=by_keys, without=without) if tree else None)
            return module_text(classes_of(whole, shapes), root, header)
        except TwinConflict as conflict:
            without |= {conflict.name}


def _as_class(tree: Sized | None, twinned: Sized | None) -> SizedNode:
    """The root as a class, whatever container it is."""
    if isinstance(twinned, SizedTwin):
        twinned = twinned.node
    if isinstance(twinned, SizedItems):
        items = SizedItems(twinned.holder, twinned.item, twinned.length, "{i}", twinned.each)
        return SizedNode("record", "", {"{i}": items})
    if not isinstance(twinned, SizedNode) or not twinned.children:
        what = "one leaf; put it into a dict" if tree is not None else _NOTHING
        raise TreatyError(f"expected a state with keys, such as a module or a dict, got {what}")
    names = _member_names(twinned) if twinned.container == "tuple" else {}
    return SizedNode("record", twinned.symbol, twinned.children, twinned.note, names)


def _member_names(node: SizedNode) -> dict[str, str]:
    """What people call the members of a tuple that a factory returns, by their keys."""
    found: dict[str, str] = {}
    for key, child in node.children.items():
        name = _member_name(child)
        if name == "params" and name in found.values():
            name = "model_state"
        found[key] = unused(name, found.values()) if name else f"item_{key}"
    return found


def _member_name(child: Sized) -> str:
    if isinstance(child, SizedLeaf):
        if isinstance(child.type, ir.Key) or child.with_axes((Int(0),) * len(child.axes)) == _WORDS:
            return "rng"
        is_count = isinstance(child.type, ir.Array) and child.type.dtype.startswith("int") and not child.axes
        return "step" if is_count else ""
    if next(twins_in(child), None) is not None:
        return "opt_state"
    if not isinstance(child, SizedNode):
        return ""
    return "params" if child.container == "dict" else "model"
