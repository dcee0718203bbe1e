"""From the writer's schema to the reader's: which revision a checkpoint is of, and its state dict as one of the present.

A directory has its schema inside. Of other formats, the locked revision whose structure fits is the writer's; where several
fit and mean different things, `revision=` has to say which.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import attrs
from attrs import frozen

from treaty.runtime._errors import InvalidArgumentError, Mismatch, StateMismatchError, StorageError
from treaty.runtime._evolve.apply import carry_out
from treaty.runtime._evolve.histories import has_history, history_of
from treaty.runtime._restore.casts import with_conversions
from treaty.runtime._restore.options import Options
from treaty.runtime._restore.select import narrowed
from treaty.runtime._restore.source import Source, says_nothing
from treaty.runtime._state.explain import explain, fits
from treaty.runtime._state.registry import Codec, revisions_of
from treaty.runtime._trees import abstract, flatten
from treaty.schema import Schema, TreatyError, ir
from treaty.schema import resolve as resolve_schemas
from treaty.schema.evolution.history import History
from treaty.schema.evolution.migrations import registrations, steps_of
from treaty.schema.evolution.resolution import Keep, Path, Resolution, functions, show, summary


@frozen
class Resolved:
    """A state dict of the reader, as far as it can be one; `resolution` is None where nothing had to be done."""

    tree: Any
    needs_fit: bool  # whether its leaves are still in the forms of a format that forgets some
    resolution: Resolution | None = None
    hints: tuple[str, ...] = ()  # of a checkpoint that is of no known revision


def resolve(source: Source, codec: Codec[Any], options: Options) -> Resolved:
    """The wanted part of a checkpoint as the reader has it. Nothing is read but what a migration asks for."""
    found = find_resolution(source, codec, options)
    if found.resolution is None or found.resolution.is_as_is:
        return found
    problems = found.resolution.problems
    if problems and any(functions(found.resolution.plan)):  # a migration may raise, and would hide them
        mismatches = [Mismatch(one.expected, one.got, one.path) for one in problems]
        raise StateMismatchError(mismatches, [*found.hints, *hints_of(found.resolution, options)])
    tree = carried_out(found.resolution, found.tree, options)
    if found.resolution.ok:
        note_resolution(source, codec, found.resolution)
    return Resolved(tree, found.needs_fit, found.resolution)


def note_resolution(source: Source, codec: Codec[Any], resolution: Resolution) -> None:
    source.note = f"as {codec.schema.root_class.qualname}: {resolution.summary()}"


def note_conversions(
    source: Source, codec: Codec[Any], resolution: Resolution | None, converted: Mapping[Path, tuple[str, str]]
) -> None:
    """The same, with the dtypes that are converted as they are read."""
    found = resolution or resolve_schemas(codec.schema, codec.schema)
    told = summary(with_conversions(codec.schema, found.leaves, converted), found.dropped)
    source.note = f"as {codec.schema.root_class.qualname}: {told}"


def hints_of(resolution: Resolution | None, options: Options) -> Iterator[str]:
    """How a class is told what became of its earlier self. Of another class it is no question."""
    # Where parts are listed, a field may be missing because it was not wanted.
    if resolution is None or not (options.at is None or isinstance(options.at, str)):
        return
    writer, reader = resolution.writer.root_class, resolution.reader.root_class
    if resolution.revision is None and writer.symbol != reader.symbol:
        return
    for one in resolution.problems:
        if one.kind == "migration":
            yield str(one)
        elif one.hint and one.kind != "dtype":  # of which there is a hint by `cast=`
            yield f"{show(one.path)}: {one.hint}"


def earlier_revisions(source: Source, codec: Codec[Any]) -> tuple[int, ...]:
    """Those that a checkpoint which keeps no schema may be of: the one that it says, if it says one, or else all, the last first."""
    if not source.revisions:
        return _all_earlier(codec, registrations())
    history = _history(codec)
    said = None if history is None else _said(source, codec, history)
    return () if said is None else (said,)


def carried_out(resolution: Resolution, tree: Any, options: Options | None = None) -> Any:
    sizes = None if options is None else options.dims
    return carry_out(resolution.plan, tree, resolution.writer, resolution.reader, sizes)


def find_resolution(source: Source, codec: Codec[Any], options: Options) -> Resolved:
    """The state dict of the writer, and what is to become of it."""
    if options.revision is not None:
        _check_revision(codec, _history(codec), options.revision)
    writer = None if source.schema is None else narrowed(source.schema, options.at)
    if writer is None or says_nothing(writer):
        return _by_structure(source, codec, options, _history(codec))
    tree = source.tree(codec.schema if options.at is None else None, options.at)
    if options.revision is None and writer.is_like(codec.schema) and _says_present(source, codec):
        return Resolved(tree, not source.is_exact)
    revisions = dict(source.revisions)
    if options.revision is not None:
        history = _history(codec)
        assert history is not None
        _check_written(history, options.revision, writer, codec, source.where)
        revisions[codec.schema.root_class.symbol] = options.revision
    reader = codec.schema
    if options.at is not None and not isinstance(options.at, str):
        assert source.schema is not None
        reader = _without_defaults(reader, source.schema)
    found = resolve_schemas(writer, reader, history_of, revisions=revisions, cast=options.cast or {})
    return Resolved(tree, not source.is_exact, found)


def _without_defaults(reader: Schema, writer: Schema) -> Schema:
    """The reader, without defaults of fields that the checkpoint has: what the caller left out is not to be made up."""
    stored = {cls.symbol: {field.key for field in cls.fields} for cls in writer.classes}
    own = stored[writer.root_class.symbol]  # which the reader's may have another name for
    stored[reader.root_class.symbol] = stored.get(reader.root_class.symbol, own) | own

    def asked_for(field: ir.Field, keys: Set[str]) -> ir.Field:
        return field if keys.isdisjoint((field.key, *field.aliases)) else attrs.evolve(field, default=None)

    classes = (
        attrs.evolve(cls, fields=tuple(asked_for(one, stored.get(cls.symbol, set())) for one in cls.fields))
        for cls in reader.classes
    )
    return Schema(reader.root, tuple(classes))


def is_surely_present(source: Source, codec: Codec[Any]) -> bool:
    """Whether what fits the class, if it does, needs no look at earlier revisions."""
    if source.revisions:
        return source.digest == codec.schema.digest and _says_present(source, codec)
    return not confusable(codec, registrations())


def _history(codec: Codec[Any]) -> History | None:
    """Of the class, if its module has a lock that holds it."""
    cls = codec.schema.root_class
    found = history_of(cls.symbol) if has_history(cls.module) else None
    return found if found is not None and found.revisions else None


def _says_present(source: Source, codec: Codec[Any]) -> bool:
    """Whether a checkpoint of an equal schema was written by the same revisions: a migration may change only the meaning."""
    if dict(source.revisions) != revisions_of(codec.schema):
        return not source.revisions and not _has_steps(codec.schema)
    return all(cls.symbol in source.revisions for cls in codec.schema.classes if steps_of(cls.symbol))


def _has_steps(schema: Schema) -> bool:
    return any(steps_of(cls.symbol) for cls in schema.classes)


def _check_revision(codec: Codec[Any], history: History | None, revision: int) -> None:
    if history is None or revision > max(history.last, history.present(codec.schema, history_of)):
        name = codec.schema.root_class.qualname
        known = "none are locked" if history is None else f"{history.last} are locked"
        raise InvalidArgumentError(f"expected a revision of {name}, got revision={revision}: {known}")
    if revision <= history.last and not history.has(revision, codec.schema):
        history.schema(revision, codec.schema)  # which says why


def _check_written(history: History, revision: int, writer: Schema, codec: Codec[Any], where: str) -> None:
    """A directory knows its schema: what the caller says cannot be another one."""
    if revision <= history.last and not history.is_generic and history[revision].digest != writer.digest:
        others = history.numbers(writer)
        got = f"revision {' or '.join(map(str, others))}" if others else "a schema that is not locked"
        name = codec.schema.root_class.qualname
        raise InvalidArgumentError(f"expected revision {revision} of {name}, got {got} in {where}")


def _by_structure(source: Source, codec: Codec[Any], options: Options, history: History | None) -> Resolved:
    """Of a format that keeps no schema: the revision that it says, or else the present class if it fits, or one that does."""
    if history is None:
        return _present(source, codec, options)
    number = options.revision
    if number is None and options.at is None:
        number = _said(source, codec, history)
    if number is not None:
        schema = _schema(codec, history, number)
        tree = _tree(source, schema, options)
        if options.revision is not None and (mismatches := explain(schema, abstract(tree))):
            # Else a default would take the place of what is stored.
            raise StateMismatchError(mismatches, [f"revision={number} was asked for, and {source.where} is not of it"])
        return Resolved(tree, False, resolution_from(number, codec, source.revisions, options.cast))
    candidates = list(_fitting(source, codec, options, history))
    name = codec.schema.root_class.qualname
    if not candidates:
        hint = f"the checkpoint is none of the revisions 1 to {history.last} of {name} either"
        whole = _present(source, codec, options)
        return Resolved(whole.tree, whole.needs_fit, hints=(hint,))
    if len({_meaning(resolution) for _, _, resolution in candidates}) > 1 and not _lead_to_the_same_state(candidates):
        numbers = [number for number, _, _ in candidates]
        raise InvalidArgumentError(
            f"expected to know the revision of {name}, got what may be of {' or '.join(map(str, numbers))}, "
            f"which differ in meaning, in {source.where}; pass revision={numbers[0]}, or another of them"
        )
    _, tree, resolution = candidates[0]
    return Resolved(tree, False, resolution)


def _said(source: Source, codec: Codec[Any], history: History) -> int | None:
    """The revision that a file says it is of, where its digest says the same."""
    symbols = (history.symbol, *history.former)
    said = next((source.revisions[one] for one in symbols if one in source.revisions), None)
    if said is None:
        return None
    if said > max(history.present(codec.schema, history_of), history.last):
        name = codec.schema.root_class.qualname
        raise InvalidArgumentError(
            f"expected a revision of {name} that this code knows, up to {history.last}, got revision {said}, of newer code, "
            f"in {source.where}; update the code"
        )
    if said > history.last or not history.has(said, codec.schema):
        return None
    return said if history.is_generic or history[said].digest == source.digest else None


def _present(source: Source, codec: Codec[Any], options: Options) -> Resolved:
    return Resolved(source.tree(codec.schema if options.at is None else None, options.at), not source.is_exact)


def _fitting(
    source: Source, codec: Codec[Any], options: Options, history: History
) -> Iterator[tuple[int, Any, Resolution | None]]:
    """The revisions that a checkpoint may be of, the present first; older ones only where they can make a difference."""
    tree = _if_fitting(source, codec.schema, options)
    # What a format without None does not hold may be one, or a field that was not there yet.
    is_sure = tree is not None and not source.forgets_none
    if tree is not None:
        yield history.present(codec.schema, history_of), tree, None
    for number in confusable(codec, registrations()) if is_sure else _all_earlier(codec, registrations()):
        found = _if_fitting(source, history.schema(number, codec.schema), options)
        if found is not None:
            yield number, found, resolution_from(number, codec, source.revisions, options.cast)


@lru_cache(maxsize=256)
def _all_earlier(codec: Codec[Any], registered: int) -> tuple[int, ...]:
    """The revisions before the present one, the last first. What is `registered` may lead to another present one."""
    history = _history(codec)
    if history is None:
        return ()
    last = min(history.last, history.present(codec.schema, history_of) - 1)
    return tuple(number for number in range(last, 0, -1) if history.has(number, codec.schema))


def _if_fitting(source: Source, schema: Schema, options: Options) -> Any:
    try:
        tree = _tree(source, schema, options)
    except StorageError:
        raise
    except TreatyError:  # names that cannot be those of this schema
        return None
    return tree if fits(schema, abstract(tree)) else None


def _tree(source: Source, schema: Schema, options: Options) -> Any:
    tree = source.tree(schema if options.at is None else None, options.at)
    return tree if source.is_exact else source.fitted(schema, tree)


def _schema(codec: Codec[Any], history: History, number: int) -> Schema:
    return codec.schema if number > history.last else history.schema(number, codec.schema)


def resolution_from(
    number: int, codec: Codec[Any], revisions: Mapping[str, int], cast: Mapping[str, str] | None = None
) -> Resolution:
    """From one revision of a class to the present; `revisions` are what a checkpoint says of the others."""
    history = _history(codec)
    assert history is not None  # it has that revision
    said = {**revisions, codec.schema.root_class.symbol: number}
    return resolve_schemas(_schema(codec, history, number), codec.schema, history_of, revisions=said, cast=cast or {})


def _meaning(resolution: Resolution | None) -> str:
    return "as it is" if resolution is None or resolution.is_as_is else repr((resolution.plan, resolution.problems))


def _lead_to_the_same_state(candidates: Sequence[tuple[int, Any, Resolution | None]]) -> bool:
    """Whether a checkpoint becomes the same, whichever revision it is of, as where None is filled in for what is not there.

    No migration of the user's is run to find out: it is one of the chosen revision, or of none.
    """
    if not all(one is None or (one.ok and not any(functions(one.plan))) for _, _, one in candidates):
        return False
    trees = [tree if resolution is None else carried_out(resolution, tree) for _, tree, resolution in candidates]
    first, *others = (dict(flatten(tree)) for tree in trees)
    return all(one.keys() == first.keys() and all(first[key] is one[key] for key in one) for one in others)


@lru_cache(maxsize=256)
def confusable(codec: Codec[Any], registered: int) -> tuple[int, ...]:
    """The revisions of a class whose checkpoints look like those of the present one, and mean something else.

    `registered` tells apart what was found before a migration was.
    """
    history = _history(codec)
    if history is None:
        return ()
    found = []
    for number in _all_earlier(codec, registered):
        alone = resolve_schemas(history.schema(number, codec.schema), codec.schema)
        looks_alike = isinstance(alone.plan, Keep) and all(one.rule == "SILENT" for one in alone.problems)
        if looks_alike and not resolution_from(number, codec, {}).is_as_is:
            found.append(number)
    return tuple(found)
