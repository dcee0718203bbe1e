"""The way back: the plan that undoes another, so that today's state can be written as an earlier revision."""

from collections.abc import Sequence
from typing import assert_never

import attrs
from attrs import define, field

from treaty.schema._errors import SchemaError
from treaty.schema.evolution.migrations import Function
from treaty.schema.evolution.resolution import (
    EACH,
    ConvertLeaf,
    Drop,
    EachItem,
    Fill,
    From,
    Keep,
    Make,
    Move,
    Path,
    Plan,
    Same,
    Shape,
    Through,
    Unless,
    show,
)


class NoInverseError(SchemaError):
    """A state cannot be written as an earlier revision; `problems` say what has no way back."""


def inverse(plan: Plan) -> Plan:
    """The plan that leads back. Raises NoInverseError with everything that has no way back."""
    inverting = _Inverse()
    found = inverting.plan(plan, ())
    if inverting.problems:
        raise NoInverseError(*inverting.problems)
    return found


@define
class _Inverse:
    problems: list[str] = field(factory=list)
    _inside: dict[int, Same] = field(factory=dict)

    def plan(self, plan: Plan, path: Path) -> Plan:
        if isinstance(plan, Keep):
            return plan
        if isinstance(plan, ConvertLeaf):
            verb = "widened" if plan.exact else "cast"
            return self._none(f"{plan.was} was {verb} to {plan.to}", path)
        if isinstance(plan, EachItem):
            return EachItem(self.plan(plan.plan, (*path, EACH)))
        if isinstance(plan, Unless):
            return Unless(self.plan(plan.plan, path))
        if isinstance(plan, Make):
            return self._make(plan, path)
        if isinstance(plan, Through):
            return self._through(plan, path)
        if isinstance(plan, Same):
            return self._same(plan, path)
        assert_never(plan)

    def _make(self, plan: Make, path: Path) -> Make:
        parts: list[tuple[str, From | Fill]] = []
        drops: list[Drop] = []
        for key, origin in plan.parts:
            if isinstance(origin, From):
                parts.append((origin.key, From(key, self.plan(origin.plan, (*path, key)))))
            else:
                drops.append(Drop(key, equals=origin))
        for drop in plan.drops:
            if drop.equals is not None:
                parts.append((drop.key, drop.equals))
            elif drop.fill is not None:
                parts.append((drop.key, drop.fill))
            else:
                self._none(f"{drop.key!r} was dropped, and had no default", path)
        return Make(tuple(parts), tuple(drops))

    def _through(self, plan: Through, path: Path) -> Plan:
        if isinstance(plan.step, Function):
            name = plan.cls.rpartition(":")[2]
            return self._none(f"migration({name}, {plan.number}) is a function; rules have an inverse", path)
        return attrs.evolve(
            plan,
            before=self.plan(plan.after, path),
            after=self.plan(plan.before, path),
            moves=tuple(self._move(one, path) for one in plan.moves),
            shaped=self._shaped(plan.shaped),
            rest=self.plan(plan.rest, path),
            back=not plan.back,
        )

    def _move(self, move: Move, path: Path) -> Move:
        return Move(move.rule, move.target, move.source, self.plan(move.plan, (*path, *move.target)))

    def _shaped(self, shaped: Sequence[Shape]) -> tuple[Shape, ...]:
        return tuple(Shape(one.rule, one.targets, one.sources) for one in shaped)

    def _same(self, plan: Same, path: Path) -> Plan:
        """A class inside itself leads back through the same plan."""
        known = self._inside.get(id(plan))
        if known is None:
            known = self._inside[id(plan)] = Same()
            assert plan.plan is not None
            known.plan = self.plan(plan.plan, path)
        return known

    def _none(self, what: str, path: Path) -> Keep:
        self.problems.append(f"expected a way back, got none: {what} at {show(path)}")
        return Keep()
