"""From the writer's schema to the reader's: which revision a checkpoint is of, and its state dict as one of the present.

A directory has its schema inside. Of other formats, the locked revision whose structure fits is the writer's; where several
fit and mean different things, `revision=` has to say which.
"""

import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._evolve.apply import apply
from treaty.runtime._evolve.histories import has_history, history_of
from treaty.runtime._restore.fit import fit
from treaty.runtime._restore.options import Options
from treaty.runtime._restore.select import narrowed
from treaty.runtime._restore.source import Source
from treaty.runtime._state.explain import explain
from treaty.runtime._state.registry import Codec
from treaty.runtime._trees import abstract
from treaty.schema import Schema, TreatyError, ir
from treaty.schema import resolve as resolve_schemas
from treaty.schema.evolution.history import History
from treaty.schema.evolution.migrations import steps_of
from treaty.schema.evolution.resolution import Keep, Resolution

log: Final = logging.getLogger("treaty")


@frozen
class Resolved:
    """A state dict of the reader, as far as it can be one; `resolution` is None where nothing had to be done."""

    tree: Any
    is_exact: bool
    resolution: Resolution | None = None
    hints: tuple[str, ...] = ()  # of a checkpoint that is of no known revision


def resolve(source: Source, codec: Codec[Any], options: Options) -> Resolved:
    """The wanted part of a checkpoint as the reader has it. Nothing is read but what a migration asks for."""
    found = find_resolution(source, codec, options)
    if found.resolution is None or found.resolution.is_as_is:
        return found
    name = codec.schema.root_class.qualname
    tree = apply(found.resolution.plan, found.tree, options.dims)
    if found.resolution.ok:
        log.info("restore of %s as %s: %s", source.where, name, found.resolution.summary())
    return Resolved(tree, found.is_exact, found.resolution)


def find_resolution(source: Source, codec: Codec[Any], options: Options) -> Resolved:
    """The state dict of the writer, and what is to become of it."""
    history = history_of(codec.schema.root_class.symbol) if has_history(codec.schema.root_class.module) else None
    if options.revision is not None and (history is None or options.revision > history.last):
        known = "none are locked" if history is None else f"{history.last} are locked"
        raise InvalidArgumentError(
            f"expected a revision of {codec.schema.root_class.qualname}, got revision={options.revision}: {known}"
        )
    writer = None if source.schema is None else narrowed(source.schema, options.at)
    if writer is None or _says_nothing(writer):
        return _by_structure(source, codec, options, history)
    tree = source.tree(codec.schema if options.at is None else None, options.at)
    if options.revision is None and writer.digest == codec.schema.digest and not _has_steps(codec.schema):
        return Resolved(tree, source.is_exact)
    revisions = dict(source.revisions)
    if options.revision is not None:
        _check_revision(history, options.revision, writer, source.where)
        revisions[codec.schema.root_class.symbol] = options.revision
    found = resolve_schemas(writer, codec.schema, history_of, revisions=revisions, cast=options.cast or {})
    return Resolved(tree, source.is_exact, found)


def _says_nothing(schema: Schema) -> bool:
    """Whether a directory was written without a class, by a conversion: all that is known is its keys."""
    return schema.root == "tree" and all(isinstance(field.type, ir.Untyped) for field in schema.root_class.fields)


def _has_steps(schema: Schema) -> bool:
    return any(steps_of(cls.symbol) for cls in schema.classes)


def _check_revision(history: History | None, revision: int, writer: Schema, where: str) -> None:
    assert history is not None
    if not history.is_generic and history[revision].digest != writer.digest:
        others = history.numbers(writer)
        got = f"revision {' or '.join(map(str, others))}" if others else "a schema that is not locked"
        raise InvalidArgumentError(f"expected revision {revision} of {history.symbol}, got {got} in {where}")


def _by_structure(source: Source, codec: Codec[Any], options: Options, history: History | None) -> Resolved:
    """Of a format that keeps no schema: the present class if it fits, or else the revision that does."""
    if history is None:
        return _present(source, codec, options)
    number = options.revision if options.revision is not None else _said(source, codec, history, options)
    if number is not None:
        schema = history.schema(number, codec.schema)
        return Resolved(_tree(source, schema, options), True, _resolution(codec, history, number))
    fits = list(_fitting(source, codec, options, history))
    if not fits:
        name = codec.schema.root_class.qualname
        hint = f"the checkpoint is none of the revisions 1 to {history.last} of {name} either"
        whole = _present(source, codec, options)
        return Resolved(whole.tree, whole.is_exact, hints=(hint,))
    if len({_meaning(resolution) for _, _, resolution in fits}) > 1:
        numbers = [number for number, _, _ in fits]
        name = codec.schema.root_class.qualname
        raise InvalidArgumentError(
            f"expected to know the revision of {name}, got what may be of {' or '.join(map(str, numbers))}, "
            f"which differ in meaning, in {source.where}; pass revision={numbers[0]}, or another of them"
        )
    _, tree, resolution = fits[0]
    return Resolved(tree, True, resolution)


def _said(source: Source, codec: Codec[Any], history: History, options: Options) -> int | None:
    """The revision that a file says it is of, where that is one before the present, and its digest says the same."""
    symbols = (history.symbol, *history.former)
    said = next((source.revisions[one] for one in symbols if one in source.revisions), None)
    if said is None or options.at is not None:
        return None
    present = history.present(codec.schema)
    if said > max(present, history.last):
        name = codec.schema.root_class.qualname
        raise InvalidArgumentError(
            f"expected a revision of {name} that this code knows, up to {history.last}, got revision {said}, of newer code, "
            f"in {source.where}; update the code"
        )
    is_known = said < present and (history.is_generic or history[said].digest == source.digest)
    return said if is_known else None


def _present(source: Source, codec: Codec[Any], options: Options) -> Resolved:
    return Resolved(source.tree(codec.schema if options.at is None else None, options.at), source.is_exact)


def _fitting(
    source: Source, codec: Codec[Any], options: Options, history: History
) -> Iterator[tuple[int, Any, Resolution | None]]:
    """The revisions that a checkpoint may be of, the present first; older ones only where they can make a difference."""
    present = history.present(codec.schema)
    tree = _if_fitting(source, codec.schema, options)
    numbers = range(min(history.last, present - 1), 0, -1) if tree is None else confusable(codec)
    if tree is not None:
        yield present, tree, None
    for number in numbers:
        found = _if_fitting(source, history.schema(number, codec.schema), options)
        if found is not None:
            yield number, found, _resolution(codec, history, number)


def _if_fitting(source: Source, schema: Schema, options: Options) -> Any:
    try:
        tree = _tree(source, schema, options)
    except TreatyError:  # names that cannot be those of this schema
        return None
    return None if explain(schema, abstract(tree)) else tree


def _tree(source: Source, schema: Schema, options: Options) -> Any:
    tree = source.tree(schema if options.at is None else None, options.at)
    return tree if source.is_exact else fit(schema, tree, forgets_none=source.forgets_none)


def _resolution(codec: Codec[Any], history: History, number: int) -> Resolution:
    schema = history.schema(number, codec.schema)
    said = {codec.schema.root_class.symbol: number}
    return resolve_schemas(schema, codec.schema, history_of, revisions=said)


def _meaning(resolution: Resolution | None) -> str:
    return "as it is" if resolution is None or resolution.is_as_is else repr((resolution.plan, resolution.problems))


@lru_cache(maxsize=256)
def confusable(codec: Codec[Any]) -> tuple[int, ...]:
    """The revisions of a class whose checkpoints look like those of the present one, and mean something else."""
    symbol = codec.schema.root_class.symbol
    history = history_of(symbol) if has_history(codec.schema.root_class.module) else None
    if history is None:
        return ()
    found = []
    for number in range(min(history.last, history.present(codec.schema) - 1), 0, -1):
        alone = resolve_schemas(history.schema(number, codec.schema), codec.schema)
        looks_alike = isinstance(alone.plan, Keep) and all(one.rule == "SILENT" for one in alone.problems)
        if looks_alike and not _resolution(codec, history, number).is_as_is:
            found.append(number)
    return tuple(found)
