"""The revisions of a class: each declaration that was locked, with all the classes it reached then.

A revision counts one class and what it reaches, but not what its type variables stand for: `Moments[Linear]` has the
revisions of `Moments`, in which a variable is a class `~0`, `~1`, … without fields.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema._settle import settle
from treaty.schema._ties import EVERY, rebuild, with_ties
from treaty.schema.evolution.migrations import Step

VARIABLE: Final = ir.VARIABLE


class OtherArgumentsError(SchemaError):
    """A generic class had another number of type variables: what one of them stood for then is not known."""


@frozen(slots=False)
class Revision:
    """One declaration of a class. `digest` is that of its schema, which is made when it is needed."""

    number: int
    digest: str
    load: Callable[[], ir.Schema] = attrs.field(repr=False, eq=False)
    uses: Mapping[str, int] = attrs.field(factory=dict)  # the revisions of the classes it reached, by symbol

    @cached_property
    def schema(self) -> ir.Schema:
        return self.load()


@frozen(slots=False)
class History:
    """The revisions of one class, from 1 on, and the migrations between them: `steps[n]` goes from n to n + 1."""

    symbol: str
    revisions: tuple[Revision, ...] = ()
    steps: Mapping[int, Step] = attrs.field(factory=dict)
    former: tuple[str, ...] = ()  # symbols that the class had before
    renamed: Mapping[str, str] = attrs.field(factory=dict)  # classes that it reaches, by symbols that they had before

    @property
    def last(self) -> int:
        return len(self.revisions)

    def __getitem__(self, number: int) -> Revision:
        return self.revisions[number - 1]

    @cached_property
    def is_generic(self) -> bool:
        return bool(self.revisions) and bool(self.revisions[-1].schema.root_class.args)

    def numbers(self, schema: ir.Schema) -> list[int]:
        """The revisions that a class, the root of a schema, may be of: several where only the meaning changed."""
        if not self.is_generic:
            return [one.number for one in self.revisions if one.digest == schema.digest]
        args = schema.root_class.args
        filled = ((one.number, instance(one.schema, args, schema)) for one in self.revisions)
        return [number for number, one in filled if one is not None and one.digest == schema.digest]

    def present(self, schema: ir.Schema, others: "Histories | None" = None) -> int:
        """The number of the present declaration: the last, or the next where it differs or a migration leads to it.

        `others` are the histories of the classes that it reaches: a migration of one of them leads on as well.
        """
        reached = [] if others is None else [others(cls.symbol) for cls in schema.classes]
        is_behind = any(one.last in one.steps for one in (self, *reached) if one is not None)
        return self.last + 1 if is_behind or not self.is_last(schema) else self.last

    def is_last(self, schema: ir.Schema) -> bool:
        """Whether a schema is the last revision as it is. The name alone tells the states of two optimizers apart."""
        return self.last in self.numbers(schema) and self.schema(self.last, schema).symbols == schema.symbols

    def schema(self, number: int, like: ir.Schema) -> ir.Schema:
        """The schema of a revision; of a generic class, with the arguments that `like`, another instance of it, has."""
        found = self[number].schema
        if not found.root_class.args:
            return found
        filled = instance(found, like.root_class.args, like)
        if filled is None:
            had, has = len(found.root_class.args), len(like.root_class.args)
            raise OtherArgumentsError(
                f"expected {had} type arguments, as in revision {number} of {self.symbol}, got {has}"
            )
        return filled

    def has(self, number: int, like: ir.Schema) -> bool:
        """Whether `like` could be of a revision: if a generic class, with as many arguments."""
        args = self[number].schema.root_class.args
        return not args or len(args) == len(like.root_class.args)


Histories: TypeAlias = Callable[[str], History | None]  # of a class by its symbol


def no_history(symbol: str) -> None:
    return None


def instance(generic: ir.Schema, args: tuple[ir.Type, ...], owner: ir.Schema) -> ir.Schema | None:
    """A generic revision with its variables filled in by types of another schema; None if it has not so many."""
    if len(generic.root_class.args) != len(args):
        return None
    # Both schemas may have a class of one name that differs: those of the revision go by names of their own.
    ids = {cls.id: f"{cls.id}@" for cls in generic.classes if not cls.id.startswith(VARIABLE)}

    def fill(type: ir.Type) -> ir.Type:
        if isinstance(type, ir.Node):
            if type.cls.startswith(VARIABLE):
                argument, ties = args[int(type.cls[len(VARIABLE) :])], dict(type.ties)
                return rebuild(argument, lambda node: with_ties(node, ties))
            return ir.Node(ids[type.cls], type.ties)
        return ir.with_children(type, fill)

    raw = {cls.id: cls for cls in owner.classes}
    for cls in generic.classes:
        if cls.id in ids:
            fields = tuple(attrs.evolve(field, type=fill(field.type)) for field in cls.fields)
            own_args = tuple(fill(one) for one in cls.args)
            raw[ids[cls.id]] = attrs.evolve(cls, id=ids[cls.id], fields=fields, args=own_args)
    root = ids[generic.root]
    reached = ir.Schema(root, tuple(raw.values())).at(root)
    return merged(ir.Schema(root, settle({cls.id: cls for cls in reached.classes}, EVERY)))


def merged(schema: ir.Schema) -> ir.Schema:
    """With one class for those that are the same under two ids: an argument may be a class that the revision names itself.

    The same are those with one symbol, arguments and fields, as far as they reach: at first all that look alike on their own
    count as one, and are parted where what they name is not.
    """
    if len({cls.symbol for cls in schema.classes}) == len(schema.classes):
        return schema
    groups: dict[str, int] = dict.fromkeys((cls.id for cls in schema.classes), 0)
    count = 0
    while count < len({*groups.values()}):
        count = len({*groups.values()})
        ids = {id: str(group) for id, group in groups.items()}
        keys = {cls.id: (groups[cls.id], _nameless(_renamed(cls, ids))) for cls in schema.classes}
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
        groups = {id: numbers[key] for id, key in keys.items()}
    first: dict[int, str] = {}
    ids = {cls.id: first.setdefault(groups[cls.id], cls.id) for cls in schema.classes}
    kept = tuple(_renamed(cls, ids) for cls in schema.classes if ids[cls.id] == cls.id)
    return ir.Schema(ids[schema.root], kept).at(ids[schema.root])


def _renamed(cls: ir.Class, ids: Mapping[str, str]) -> ir.Class:
    """A class with other ids for the classes that it names."""

    def rename(type: ir.Type) -> ir.Type:
        return rebuild(type, lambda node: ir.Node(ids.get(node.cls, node.cls), node.ties))

    fields = tuple(attrs.evolve(field, type=rename(field.type)) for field in cls.fields)
    return attrs.evolve(cls, fields=fields, args=tuple(map(rename, cls.args)))


def _nameless(cls: ir.Class) -> ir.Class:
    """Without its id, and without what Python calls its fields and readers do with them."""
    fields = (attrs.evolve(field, name="", alias="", aliases=(), cast_from=(), init=None) for field in cls.fields)
    return attrs.evolve(cls, id="", fields=tuple(fields), reserved=())
