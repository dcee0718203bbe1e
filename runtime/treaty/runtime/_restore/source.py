"""An open checkpoint, as every format gives it and every reader takes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treaty.runtime._restore.fit import fit, python_scalars
from treaty.runtime._restore.select import At, select
from treaty.runtime._state.alike import AlikeRun
from treaty.runtime._trees import dotted, flatten, nest
from treaty.schema import Schema, ir


class Source:
    """What a checkpoint holds. Trees are state dicts: nested dicts with str keys, whose leaves are arrays and Python values.

    Arrays are lazy ones, or views of a mapped file: none is read before someone wants it.
    """

    where: str
    schema: Schema | None = None  # the writer's, where the format keeps it
    digest: str | None = None  # of the writer's schema, where the format keeps only that
    revisions: Mapping[str, int] = {}  # of the writer's classes, by symbol, where the format keeps them
    metadata: Mapping[str, Any] = {}
    step: int | None = None  # that was taken of a directory of steps
    note = ""  # what became of a checkpoint of an earlier revision, in words for the log
    is_exact = True  # whether the format says itself what is empty, and what was a Python value
    forgets_none = False  # whether it stores no None at all
    forgets_scalars = False  # whether numpy scalars, and arrays without axes, may be stored as Python numbers
    asks_schema = False  # whether names leave open what is a node, so that they fit one schema and not another
    is_mapped = False  # whether all of it can be had at once, as views of a file
    has_runs = False  # whether `mapped` can give alike items as runs
    scratch: Path | None = None  # a folder for what has to be unpacked; in memory where there is none

    def __init__(self, where: str, tree: Any = None, metadata: Mapping[str, Any] | None = None) -> None:
        self.where = where
        self._tree = tree
        self.metadata = metadata or {}

    def tree(self, schema: Schema | None = None, at: At = None) -> Any:
        """The state dict, or the part of it that `at` says. With the reader's schema, what a name leaves open is settled."""
        whole = self.whole(schema)
        return whole if at is None else nest(select(list(flatten(whole)), at, self.where))

    def whole(self, schema: Schema | None) -> Any:
        """All of the state dict."""
        return self._tree

    def settled(self, schema: Schema | None = None) -> Any:
        """The state dict, with what the format leaves open as a schema says, or else as it looks."""
        tree = self.tree(schema)
        if self.is_exact:
            return tree
        return python_scalars(tree) if schema is None else self.fitted(schema, tree)

    def fitted(self, schema: Schema, tree: Any) -> Any:
        """A state dict of this format in the forms that a schema knows."""
        return fit(schema, tree, forgets_none=self.forgets_none, forgets_scalars=self.forgets_scalars)

    def named(self) -> Mapping[str, Any]:
        """The leaves by the names that a key map speaks of."""
        return dotted(self.tree())

    def mapped(self, schema: Schema, *, alike: bool = False) -> tuple[Any, dict[int, list[AlikeRun]]]:
        """The state dict of a checkpoint that is mapped, for a reader that checks what it builds. `alike` items may be in runs."""
        return self.whole(schema), {}

    def require_files(self) -> None:
        """That all files are there, in full length, for whoever looks at no array. Most formats know when they are opened."""


def says_nothing(schema: Schema) -> bool:
    """Whether a directory was written without a class, by a conversion: all that is known is its keys."""
    return schema.root == "tree" and all(isinstance(field.type, ir.Untyped) for field in schema.root_class.fields)
