"""States as an earlier revision of their class has them, and the revisions that go with a checkpoint."""

from typing import Any

from treaty.runtime._errors import InvalidArgumentError, MigrationError, StateMismatchError
from treaty.runtime._evolve.apply import carry_out
from treaty.runtime._evolve.histories import has_history, history_of
from treaty.runtime._state.explain import explain
from treaty.runtime._state.registry import Codec, revisions_of
from treaty.runtime._trees import abstract
from treaty.schema import Schema
from treaty.schema import resolve as resolve_schemas
from treaty.schema.evolution.inverse import NoInverseError, inverse


def as_revision(codec: Codec[Any], tree: dict[str, Any], revision: int) -> tuple[dict[str, Any], Schema]:
    """A state dict that older code reads, and its schema. Raises where a change since then has no way back."""
    cls = codec.schema.root_class
    history = history_of(cls.symbol) if has_history(cls.module) else None
    if type(revision) is not int or history is None or not 1 <= revision <= history.last:
        known = "none are locked; run: treaty lock" if history is None else f"1 to {history.last} are locked"
        raise InvalidArgumentError(f"expected a revision of {cls.qualname}, got revision={revision!r}: {known}")
    schema = history.schema(revision, codec.schema)
    found = resolve_schemas(schema, codec.schema, history_of, revisions={cls.symbol: revision})
    if not found.ok:
        problems = "\n".join(map(str, found.problems))
        raise MigrationError(
            f"expected revision {revision} of {cls.qualname} to lead to the present one, got:\n{problems}"
        )
    try:
        back = carry_out(inverse(found.plan), tree, codec.schema, schema, present=codec.schema)
    except NoInverseError as error:
        lines = "\n".join(error.problems)
        raise MigrationError(f"expected a way back to revision {revision} of {cls.qualname}, got:\n{lines}") from None
    if mismatches := explain(schema, abstract(back)):
        raise StateMismatchError(mismatches, [f"a state like this was not possible in revision {revision}"])
    return back, schema


def revisions_written(codec: Codec[Any], revision: int | None) -> dict[str, int]:
    """The revisions of the classes of a checkpoint, by symbol, as far as they are locked."""
    if revision is None:
        return revisions_of(codec.schema)
    symbol = codec.schema.root_class.symbol
    history = history_of(symbol)
    assert history is not None  # the state was written as one of its revisions
    return {**history[revision].uses, symbol: revision}
