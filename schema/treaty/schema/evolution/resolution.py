"""What becomes of a checkpoint: one plan for its whole tree, and the list of it that people read.

A plan is a function as data, from a state dict of the writer's schema to one of the reader's. It is relative to the value
that it is applied to, so that one plan serves a class wherever it stands. `runtime/_evolve/apply.py` carries it out.
"""

from functools import cached_property
from typing import Literal, TypeAlias

import attrs
from attrs import define, frozen

from treaty.schema import ir
from treaty.schema._default_texts import can_be_made
from treaty.schema._key_texts import fused
from treaty.schema.evolution.migrations import Step
from treaty.schema.keymap import Rule

Path: TypeAlias = tuple[str, ...]
EACH = "*"  # in a path: every item of a list, tuple or dict
Verb = Literal[
    "as-is", "renamed", "defaulted", "widened", "cast", "moved", "migrated", "missing"
]  # the last: a problem

# Sorts of change. What is SILENT would be restored as something else; what is LOAD is not restored, or not surely.
SilentKind = Literal["dims-permuted", "class", "function", "prng", "default", "reused"]
LoadKind = Literal[
    "removed",
    "renamed",
    "added",
    "default",
    "dtype",
    "rank",
    "size",
    "tie",
    "type",
    "container",
    "tuple",
    "required",
    "untyped",
    "enum",
    "keys",
    "prng",
    "arguments",
    "migration",
    "revision",
    "newer",
]


@frozen
class Keep:
    """The value as it is, whatever is below it."""


@frozen
class ConvertLeaf:
    """An array, or a Python number, of one dtype or type as another."""

    was: str
    to: str
    exact: bool  # whether no value is lost


@frozen
class Fill:
    """The default of a field. In a revision that is past, only its text is left."""

    symbol: str
    field: str  # its attribute
    type: ir.Type
    default: str
    present: bool

    @property
    def can_be_made(self) -> bool:
        """Whether there is more than a text: a function without a name, and an object, are gone with their declaration."""
        return self.present or can_be_made(self.default)


@frozen
class From:
    key: str
    plan: "Plan"


@frozen
class Drop:
    """A key that is left out: on purpose, or on the way back, where it must be `equals`, what the reader fills in.

    `fill` is what stands for it on the way back, where something does.
    """

    key: str
    fill: Fill | None = None
    equals: Fill | None = None


@frozen
class Make:
    """A dict: where each of its entries comes from, and what is dropped."""

    parts: tuple[tuple[str, "From | Fill"], ...]
    drops: tuple[Drop, ...] = ()


@frozen
class EachItem:
    """Every item of a list, tuple or dict."""

    plan: "Plan"


@frozen
class Unless:
    """The plan, unless the value is None."""

    plan: "Plan"


@define
class Same:
    """The plan of a class inside itself: what it leads to is known when that is made."""

    plan: "Plan | None" = attrs.field(default=None, repr=False, eq=False)


@frozen
class Move:
    """A subtree or a leaf that a rule takes elsewhere as it is."""

    rule: Rule
    source: Path
    target: Path
    plan: "Plan"


@frozen
class Shape:
    """A rule that changes arrays, and the leaves that it takes and gives."""

    rule: Rule
    sources: tuple[Path, ...]
    targets: tuple[Path, ...]


@frozen
class Through:
    """A migration: `before` leads to the revision that it begins at, `after` on from the one that it gives.

    Rules take what `moves` and `shaped` name; the rest goes by `rest`. A function takes and gives everything. `back` is the
    way from the later revision to the earlier one, which rules have.
    """

    before: "Plan"
    step: Step
    number: int
    cls: str  # for messages: the class that the migration belongs to
    given: ir.Schema  # of what the function or the rules give
    after: "Plan"
    taken: ir.Schema | None = None  # of what they take
    moves: tuple[Move, ...] = ()
    shaped: tuple[Shape, ...] = ()
    rest: "Plan" = attrs.field(factory=Keep)
    back: bool = False


Plan = Keep | ConvertLeaf | Make | EachItem | Unless | Same | Through


@frozen
class Problem:
    """Why a checkpoint cannot be read, or not surely."""

    rule: Literal["SILENT", "LOAD"]
    kind: SilentKind | LoadKind
    expected: str
    got: str
    path: Path = ()
    hint: str = ""

    def below(self, *keys: str) -> "Problem":
        return attrs.evolve(self, path=(*keys, *self.path))

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"expected {self.expected}, got {self.got} at {show(self.path)}{hint}"


@frozen
class Action:
    """What a leaf of the reader is made of: `was` are the leaves of the writer."""

    path: Path
    verb: Verb
    was: tuple[Path, ...] = ()
    note: str = ""
    type: str = ""  # of the leaf, as the reader declares it

    def __str__(self) -> str:
        source = f" from {', '.join(map(show, self.was))}" if self.was and self.was != (self.path,) else ""
        return f"{show(self.path)}: {self.verb}{source}{f' ({self.note})' if self.note else ''}"


@frozen(slots=False)
class Resolution:
    """How a state of the writer's schema becomes one of the reader's, or why it does not.

    `problems` follow from the schemas alone. `conditions` depend on what is stored: sizes that must agree now, a value that
    may be None. `revision` is that of the writer's root class, where its history knows it.
    """

    writer: ir.Schema
    reader: ir.Schema
    plan: Plan
    problems: tuple[Problem, ...] = ()
    conditions: tuple[Problem, ...] = ()
    revision: int | None = None
    present: int | None = None

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def is_as_is(self) -> bool:
        """Whether a state passes unchanged."""
        return self.ok and isinstance(self.plan, Keep)

    @cached_property
    def leaves(self) -> tuple[Action, ...]:
        """One action for each leaf of the reader; items of a list, tuple or dict are one, `[*]`."""
        from treaty.schema.evolution.leaves import actions  # for whoever looks: no restore needs the list

        return tuple(actions(self.reader, self.plan))

    @cached_property
    def dropped(self) -> tuple[Path, ...]:
        """The keys of the writer that are left out on purpose."""
        from treaty.schema.evolution.leaves import dropped

        return tuple(dict.fromkeys(dropped(self.plan, ())))

    def summary(self) -> str:
        """`2 renamed, 1 defaulted, 1 dropped`: all that is not as it is, counted."""
        counts: dict[str, int] = {}
        for one in self.leaves:
            counts[one.verb] = counts.get(one.verb, 0) + 1
        counts.pop("as-is", None)
        if self.dropped:
            counts["dropped"] = len(self.dropped)
        return ", ".join(f"{count} {verb}" for verb, count in counts.items()) or "all as it is"


def show(path: Path) -> str:
    """`$.blocks[*].up['a.b']`, and of items that lie beside other keys `$['block_*'].up`."""
    text = "$"
    for key in fused(path):
        if key == EACH or key.isdecimal():
            text += f"[{key}]"
        else:
            text += f".{key}" if key.isidentifier() else f"[{key!r}]"
    return text
