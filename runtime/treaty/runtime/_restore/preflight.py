"""`plan`: what a restore would do with every leaf, and what stands in its way, before an array is read."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from treaty.runtime._errors import InvalidArgumentError, MigrationError, StateMismatchError
from treaty.runtime._restore.casts import fit_dtypes, with_conversions
from treaty.runtime._restore.options import Options
from treaty.runtime._restore.resolve import Resolved, carried_out, find_resolution
from treaty.runtime._restore.source import Source
from treaty.runtime._state.registry import Codec, codec_of
from treaty.schema import resolve as resolve_schemas
from treaty.schema.evolution.migrations import Function
from treaty.schema.evolution.resolution import Action, Path, Resolution, Through, functions, show


@frozen
class Plan:
    """What becomes of a checkpoint when it is restored as a class. Print it for a table."""

    where: str
    cls: str
    revision: int | None  # of the checkpoint's class, where its history knows it
    present: int | None  # of the class that it is restored as
    leaves: tuple[Action, ...]
    dropped: tuple[Path, ...]
    problems: tuple[str, ...]
    unknown: tuple[str, ...] = ()  # what only running a migration can tell

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> str:
        """The same as JSON, for programs."""
        leaves = [
            {"path": show(one.path), "action": one.verb, "from": [show(was) for was in one.was], "type": one.type}
            | ({"note": one.note} if one.note else {})
            for one in self.leaves
        ]
        said = {"checkpoint": self.where, "class": self.cls, "ok": self.ok}
        numbers = {"revision": self.revision, "present": self.present}
        rest = {"dropped": [show(one) for one in self.dropped], "problems": list(self.problems)}
        return json.dumps(
            {**said, **numbers, "leaves": leaves, **rest, "unknown": list(self.unknown)}, indent=2, ensure_ascii=False
        )

    def __str__(self) -> str:
        rows = [(show(one.path), one.verb, source_shown(one), one.type) for one in self.leaves]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        table = (
            "  " + "  ".join(text.ljust(width) for text, width in zip(row, (*widths, 0), strict=True)).rstrip()
            for row in rows
        )
        return "\n".join(plan_lines(self, table))


def plan_lines(plan: Plan, table: Iterable[str]) -> Iterator[str]:
    """A plan in text, around the table of its leaves."""
    revision = f", revision {plan.revision} of {plan.present}" if plan.revision is not None else ""
    yield f"{plan.where} as {plan.cls}{revision}"
    yield from table
    yield from (f"  {show(one)}  dropped" for one in plan.dropped)
    yield from (f"  not known before it is run: {one}" for one in plan.unknown)
    yield from (f"  problem: {one}" for one in plan.problems)
    yield (
        "  this checkpoint can be restored"
        if plan.ok
        else f"  this checkpoint cannot be restored: {len(plan.problems)} problem{'s' * (len(plan.problems) > 1)}"
    )


def plan(source: Source, target: Any, options: Options) -> Plan:
    """The preflight of a restore. A migration that is a function is not run, and what it gives is not checked."""
    codec = codec_of(target)
    options.check(codec)
    found = find_resolution(source, codec, options)
    resolution = found.resolution or resolve_schemas(codec.schema, codec.schema)
    leaves: Sequence[Action] = resolution.leaves
    unknown = tuple(dict.fromkeys(map(_named, functions(resolution.plan))))
    problems = [str(one) for one in resolution.problems]
    if not problems and not unknown:
        try:
            leaves = with_conversions(
                codec.schema, leaves, _converted(source, codec, target, options, found, resolution)
            )
        except StateMismatchError as error:
            problems = [*map(str, error.mismatches), *error.hints, *found.hints]
        except (MigrationError, InvalidArgumentError) as error:  # of rules that do not fit, and of a default
            problems = str(error).splitlines()
    return Plan(
        source.where,
        codec.schema.root_class.qualname,
        resolution.revision,
        resolution.present,
        tuple(leaves),
        resolution.dropped,
        tuple(problems),
        unknown,
    )


def _converted(
    source: Source, codec: Codec[Any], target: Any, options: Options, found: Resolved, resolution: Resolution
) -> Mapping[Path, tuple[str, str]]:
    """What the stored shapes show; raises what does not fit."""
    tree = found.tree if found.resolution is None else carried_out(resolution, found.tree, options)
    if found.needs_fit:
        tree = source.fitted(codec.schema, tree)
    return fit_dtypes(codec, target, tree, options.dims, options.cast).converted


def _named(migration: Through) -> str:
    assert isinstance(migration.step, Function)
    return f"migration({migration.cls.rpartition(':')[2]}, {migration.number}), {migration.step.where}"


def source_shown(one: Action) -> str:
    """Where a leaf comes from, if not from its own place, and what is told of that."""
    source = ", ".join(show(was) for was in one.was) if one.was not in ((), (one.path,)) else ""
    note = f"({one.note})" if one.note else ""
    return " ".join(text for text in (source, note) if text)
