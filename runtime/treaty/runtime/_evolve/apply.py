"""Plans carried out: from a state dict of one revision to that of another. Arrays are moved about unread."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, assert_never

import attrs
import numpy as np
from attrs import frozen

from treaty.runtime._errors import KeyMapError, MigrationError, show_keys
from treaty.runtime._evolve.defaults import filler
from treaty.runtime._evolve.pending import pending, settled
from treaty.runtime._keymaps.apply import by_rule
from treaty.runtime._lazy import LazyArray
from treaty.runtime._same import same_bytes
from treaty.runtime._state.explain import dims_of, explain
from treaty.runtime._trees import Path, abstract, flatten, insert, is_stored_array
from treaty.schema import Schema
from treaty.schema._key_patterns import SEPARATOR
from treaty.schema._key_texts import fused
from treaty.schema.dtypes import BY_NAME
from treaty.schema.evolution.migrations import Function
from treaty.schema.evolution.resolution import (
    EACH,
    ConvertLeaf,
    Drop,
    EachItem,
    Fill,
    Keep,
    Make,
    Move,
    Plan,
    Same,
    Shape,
    Through,
    Unless,
)
from treaty.schema.gathering import gather, gathered_path, spread


def carry_out(
    plan: Plan,
    tree: Any,
    writer: Schema,
    reader: Schema,
    sizes: Mapping[str, int] | None = None,
    *,
    present: Schema | None = None,
) -> Any:
    """The state dict of `reader` that a plan makes of one of `writer`, which stays as it is.

    `present` is the schema of the code that makes defaults, if that is not the reader's.
    """
    return spread(reader, apply(plan, gather(writer, tree), present or reader, sizes))


def apply(plan: Plan, tree: Any, present: Schema, sizes: Mapping[str, int] | None = None) -> Any:
    """The same between states that are gathered. `sizes` are of axes that no array shows."""
    return _Application(present, sizes or {}).run(plan, tree, (), last=True)


@frozen
class _Application:
    present: Schema
    sizes: Mapping[str, int]
    fillers: dict[int, Callable[[], Any]] = attrs.field(factory=dict, init=False)  # by the id of a Fill

    def run(self, plan: Plan, value: Any, path: Path, last: bool) -> Any:
        """`last` where the reader's own schema is reached: what is to be cast there is cast as it is read."""
        if isinstance(plan, Keep):
            return value
        if isinstance(plan, ConvertLeaf):
            return value if last else _converted(plan, value)
        if isinstance(plan, Make):
            return self._make(plan, value, path, last)
        if isinstance(plan, EachItem):
            if value.__class__ is not dict:
                return value
            return {key: self.run(plan.plan, one, (*path, key), last) for key, one in value.items()}
        if isinstance(plan, Unless):
            return None if value is None else self.run(plan.plan, value, path, last)
        if isinstance(plan, Same):
            assert plan.plan is not None
            return self.run(plan.plan, value, path, last)
        if isinstance(plan, Through):
            taken = self.run(plan.before, value, path, last=False)
            given = self._call(plan, taken, path) if isinstance(plan.step, Function) else self._move(plan, taken, path)
            return self.run(plan.after, given, path, last)
        assert_never(plan)

    def _make(self, plan: Make, value: Any, path: Path, last: bool) -> Any:
        if value.__class__ is not dict:
            return value
        made: dict[str, Any] = {}
        used = {drop.key for drop in plan.drops}
        for drop in plan.drops:
            self._check_drop(drop, value, path)
        for key, origin in plan.parts:
            if isinstance(origin, Fill):
                made[key] = self._filled(origin)
            elif origin.key in value:
                used.add(origin.key)
                made[key] = self.run(origin.plan, value[origin.key], (*path, key), last)
        # What the schema does not know of stays, for the check that follows.
        return made | {key: one for key, one in value.items() if key not in used and key not in made}

    def _filled(self, fill: Fill) -> Any:
        if id(fill) not in self.fillers:
            self.fillers[id(fill)] = filler(fill, self.present)
        return self.fillers[id(fill)]()

    def _check_drop(self, drop: Drop, value: Mapping[str, Any], path: Path) -> None:
        """On the way back a field may be left out only where it is what the reader would fill in."""
        if drop.equals is None or drop.key not in value:
            return
        states = (value[drop.key], self._filled(drop.equals))
        found, expected = (dict(flatten({drop.key: state})) for state in states)
        same = found.keys() == expected.keys() and all(same_bytes(found[key], expected[key]) for key in found)
        if not same:
            raise MigrationError(
                f"expected {drop.equals.default}, which the earlier revision has no field for and which is filled in again, "
                f"got another value at {show_keys((*path, drop.key))}"
            )

    def _call(self, plan: Through, value: Any, path: Path) -> Any:
        assert isinstance(plan.step, Function)
        name = f"{_named(plan)} at {show_keys(path)}"
        try:
            given = settled(plan.step.call(pending(value)))
        except Exception as error:  # a migration is user code: it can raise anything
            raise MigrationError(f"{name}: {plan.step.where} raised {type(error).__name__}: {error}") from error
        if found := explain(plan.given.gathered, abstract(given)):
            lines = "\n".join(f"{one}, in what {plan.step.where} returned" for one in found)
            raise MigrationError(f"{name}: a migration has to return the next revision\n{lines}")
        return given

    def _move(self, plan: Through, value: Any, path: Path) -> Any:
        if value.__class__ is not dict:
            return value
        given: list[tuple[Path, Any]] = []
        taken: set[Path] = set()
        for move in plan.moves:
            for at, one in list(_matching(value, move.source)):
                taken.add(at)
                given.append((_target(plan, move, at), self.run(move.plan, one, (*path, *at), last=False)))
        known = self._known_sizes(plan, value)
        for shape in plan.shaped:
            leaves = {at: one for source in shape.sources for at, one in _matching(value, source)}
            taken |= leaves.keys()
            given += self._shape(plan, shape, leaves, known, path)
        left = _without(value, taken, ())
        if not plan.back:
            left = _copied(left)
            _add_shells(left, [at for at, _ in given])
        made = _copied(self.run(plan.rest, left, path, last=False))
        if plan.back:
            _drop_shells(made, taken)
        for at, one in given:
            insert(made, at, one)
        return made

    def _known_sizes(self, plan: Through, value: Any) -> dict[str, int]:
        schema = plan.given if plan.back else plan.taken
        found = {} if schema is None or not plan.shaped else dims_of(schema.gathered, abstract(value))
        return {**found, **self.sizes}

    def _shape(
        self, plan: Through, shape: Shape, leaves: Mapping[Path, Any], sizes: Mapping[str, int], path: Path
    ) -> Iterator[tuple[Path, Any]]:
        separator, other = (SEPARATOR, ".") if plan.back else (".", SEPARATOR)
        named = {separator.join(fused(at)): one for at, one in leaves.items()}
        assert not isinstance(plan.step, Function)
        known = {**sizes, **plan.step.keymap.sizes}
        try:
            found = by_rule(shape.rule, named, known, inward=not plan.back)
        except KeyMapError as error:
            where = f"{_named(plan)} at {show_keys(path)}"
            raise MigrationError("\n".join(f"{line}, in {where}" for line in error.problems)) from None
        for name, one in found.items():
            yield gathered_path(_given(plan), tuple(name.split(other))), one


def _converted(plan: ConvertLeaf, value: Any) -> Any:
    """A value as another type before a migration sees it; an array is read when it is asked for."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not is_stored_array(value):
        try:
            made = {"float": float, "complex": complex}[plan.to](value) if plan.to in ("float", "complex") else value
        except OverflowError:
            made = None
        if made != value and value == value:
            raise MigrationError(f"expected {plan.to}, got {plan.was} {_shortened(value)}, which is none exactly")
        return made
    dtype = BY_NAME[plan.to].numpy
    return LazyArray(tuple(value.shape), dtype, lambda: np.asarray(value).astype(dtype))


def _shortened(value: Any) -> str:
    """A number in a few letters: Python writes no int of thousands of digits."""
    return str(value) if not isinstance(value, int) or abs(value) < 10**40 else "of more than 40 digits"


def _matching(value: Any, pattern: Path, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The nodes of a state dict at a path in which EACH stands for every key."""
    if not pattern:
        yield at, value
    elif value.__class__ is dict:
        for key in list(value) if pattern[0] == EACH else [pattern[0]]:
            if key in value:
                yield from _matching(value[key], pattern[1:], (*at, key))


def _target(plan: Through, move: Move, at: Path) -> Path:
    """Where a rule takes the node at a path: what stands for every key there is the same on both sides."""
    leg = move.rule.legs[0]
    source, target = (leg.field, leg.stored) if plan.back else (leg.stored, leg.field)
    match = source.regex(leg.indices).fullmatch((SEPARATOR if plan.back else ".").join(fused(at)))
    if match is None:  # keys that the rule takes for numbers, and that are none
        raise MigrationError(
            f"expected keys that {move.rule} can name, got another at {show_keys(at)}, in {_named(plan)}"
        )
    return gathered_path(_given(plan), tuple(target.fill(match.groupdict()).split("." if plan.back else SEPARATOR)))


def _named(plan: Through) -> str:
    return f"migration({plan.cls.rpartition(':')[2]}, {plan.number})"


def _given(plan: Through) -> Schema:
    """The schema of what the rules of a migration give."""
    assert plan.taken is not None
    return plan.taken if plan.back else plan.given


def _without(value: Any, taken: set[Path], path: Path) -> Any:
    """The state dict without these nodes, nor what has nothing left."""
    if value.__class__ is not dict:
        return value
    left = {}
    for key, one in value.items():
        at = (*path, key)
        if at in taken:
            continue
        below = _without(one, taken, at)
        if below.__class__ is dict and not below and one:
            continue
        left[key] = below
    return left


def _add_shells(tree: dict[str, Any], given: Iterable[Path]) -> None:
    """Nodes that rules give a part each: what else these have is filled in, for which they have to be there."""
    for path in given:
        node: Any = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
            if node.__class__ is not dict:
                break


def _drop_shells(tree: Any, taken: Iterable[Path]) -> None:
    """On the way back, the nodes of which rules took a part, and that have nothing else."""
    for path in taken:
        for length in range(len(path) - 1, 0, -1):
            found = next(iter(_matching(tree, path[: length - 1])), None)
            if found is not None and found[1].__class__ is dict and found[1].get(path[length - 1]) == {}:
                del found[1][path[length - 1]]


def _copied(tree: Any) -> Any:
    return {key: _copied(one) for key, one in tree.items()} if tree.__class__ is dict else tree
