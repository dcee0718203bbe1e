"""The list of a plan that people read: what each leaf of the reader is made of, and what of the writer is dropped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

from attrs import evolve, frozen

from treaty.schema import ir
from treaty.schema.evolution.migrations import Function
from treaty.schema.evolution.resolution import (
    EACH,
    Action,
    ConvertLeaf,
    EachItem,
    Fill,
    From,
    Keep,
    Make,
    Move,
    Path,
    Plan,
    Same,
    Through,
    Unless,
    Verb,
)

# Of several things that become of a leaf on its way, the one that is told.
_STRONGEST: Final[tuple[Verb, ...]] = (
    "missing",
    "migrated",
    "moved",
    "cast",
    "widened",
    "defaulted",
    "renamed",
    "as-is",
)
_Source: TypeAlias = Callable[[Path], Action]  # what is known of a node of the state that a plan begins with


def actions(schema: ir.Schema, plan: Plan) -> Iterator[Action]:
    """One for each leaf of the class that the plan makes."""
    for one in _LeafWalk(schema).type(ir.Node(schema.root), plan, (), (), _itself, ()):
        is_renamed = one.verb == "as-is" and one.was != (one.path,)
        yield evolve(one, verb="renamed") if is_renamed else one


def dropped(plan: Plan | Fill, path: Path) -> Iterator[Path]:
    """The keys that a plan leaves out on purpose."""
    if isinstance(plan, Make):
        yield from ((*path, drop.key) for drop in plan.drops)
        for _, origin in plan.parts:
            if isinstance(origin, From):
                yield from dropped(origin.plan, (*path, origin.key))
    elif isinstance(plan, EachItem):
        yield from dropped(plan.plan, (*path, EACH))
    elif isinstance(plan, Unless):
        yield from dropped(plan.plan, path)
    elif isinstance(plan, Through):
        for one in (plan.before, plan.rest, plan.after):
            yield from dropped(one, path)
    elif not isinstance(plan, (Keep, ConvertLeaf, Fill, Same)):
        assert_never(plan)


def _itself(path: Path) -> Action:
    return Action(path, "as-is", (path,))


@frozen
class _LeafWalk:
    """Walks a plan along the schema of what it makes."""

    schema: ir.Schema

    def type(
        self, type: ir.Type, plan: Plan | Fill | None, path: Path, was: Path, source: _Source, above: tuple[str, ...]
    ) -> Iterator[Action]:
        """`path` and `was` are where the node is, and where it was; `above` are the classes it is inside of."""
        if plan is None:
            yield Action(path, "missing", type=ir.describe(type))
            return
        if isinstance(plan, Same):  # a class in itself: its leaves are listed where it stands first
            return
        if isinstance(plan, Unless):
            yield from self.type(type, plan.plan, path, was, source, above)
            return
        if isinstance(plan, Through):
            source, was, plan = _through(plan, was, source), (), plan.after
            yield from self.type(type, plan, path, was, source, above)
            return
        parts, inside = self._parts(type, above)
        if not parts or (isinstance(plan, Fill) and plan.default == "None"):
            yield evolve(_leaf(plan, path, was, source), type=ir.describe(type))
            return
        for key, part in parts.items():
            below, at = _below(plan, key, was)
            yield from self.type(part, below, (*path, key), at, source, inside)

    def _parts(self, type: ir.Type, above: tuple[str, ...]) -> tuple[Mapping[str, ir.Type], tuple[str, ...]]:
        """What a type is made of, and the classes that this is inside of; nothing of leaves, and of a class inside itself."""
        inner = type.item if isinstance(type, ir.Optional) else type
        if isinstance(inner, ir.Leaf) or (isinstance(inner, ir.Node) and inner.cls in above):
            return {}, above
        inside = (*above, inner.cls) if isinstance(inner, ir.Node) else above
        return ir.parts(self.schema.gathered, inner, (EACH,)) or {}, inside


def _below(plan: Plan | Fill, key: str, was: Path) -> tuple[Plan | Fill | None, Path]:
    """The plan of an entry, and where the entry was; no plan where nothing is said of it."""
    if isinstance(plan, Make):
        origin = dict(plan.parts).get(key)
        return (origin.plan, (*was, origin.key)) if isinstance(origin, From) else (origin, was)
    if isinstance(plan, Fill):
        return plan, was
    return plan.plan if isinstance(plan, EachItem) else Keep(), (*was, key)


def _leaf(plan: Plan | Fill, path: Path, was: Path, source: _Source) -> Action:
    if isinstance(plan, Fill):
        return Action(path, "defaulted", (), plan.default)
    return _converted(source(was), plan, path)


def _converted(found: Action, plan: Plan | Fill | None, path: Path) -> Action:
    """With the conversion that a plan makes of a leaf, beside what became of it before."""
    if isinstance(plan, Unless):
        return _converted(found, plan.plan, path)
    if not isinstance(plan, ConvertLeaf):
        return evolve(found, path=path)
    return _after([found], Action(path, "widened" if plan.exact else "cast", note=f"{plan.was} to {plan.to}"))


def _after(before: Sequence[Action], then: Action) -> Action:
    """What becomes of a leaf after all that became of it, or of those that it is made of."""
    verb = min((then.verb, *(one.verb for one in before)), key=_STRONGEST.index)
    notes = dict.fromkeys(one.note for one in (*before, then) if one.note)
    return Action(then.path, verb, tuple(was for one in before for was in one.was), ", ".join(notes))


def _through(plan: Through, was: Path, source: _Source) -> _Source:
    """What is known of the state that a migration gives."""
    note = f"migration({plan.cls.rpartition(':')[2]}, {plan.number})"
    if isinstance(plan.step, Function):
        return lambda path: Action(path, "migrated", source(was).was, note)
    assert plan.taken is not None
    before = _known(plan.taken, plan.before, was, source)
    rest = _known(plan.given, plan.rest, (), before)

    def given(path: Path) -> Action:
        for shape in plan.shaped:
            if path in shape.targets:
                return _after([before(at) for at in shape.sources], Action(path, "moved", note=note))
        for move in plan.moves:
            if path[: len(move.target)] == move.target:
                return _moved(move, path, before, note)
        return rest(path)

    return given


def _moved(move: Move, path: Path, before: _Source, note: str) -> Action:
    """What is known of a leaf at or below the target of a rule."""
    rest = path[len(move.target) :]
    plan: Plan | Fill | None = move.plan
    for key in rest:
        plan = None if plan is None else _below(plan, key, ())[0]
    found = _after([before((*move.source, *rest))], Action(path, "moved", note=note))
    return _converted(found, plan, path)


def _known(schema: ir.Schema, plan: Plan, was: Path, source: _Source) -> _Source:
    """What is known of the state that a plan makes: leaf by leaf, where it changes anything."""
    if isinstance(plan, Keep):
        return lambda path: source((*was, *path))
    found = {one.path: one for one in _LeafWalk(schema).type(ir.Node(schema.root), plan, (), was, source, ())}
    return lambda path: found.get(path) or source((*was, *path))
