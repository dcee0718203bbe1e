"""The leaves of an open checkpoint, with what its writer's schema says of each."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from attrs import frozen

from treaty.runtime._report.roles import role_below, role_of_leaf
from treaty.runtime._trees import Path, is_stored_array, is_stored_key
from treaty.schema import Schema, ir

_MOST_TEXT: Final = 200  # letters of a value that are shown


@frozen
class ReportLeaf:
    """A leaf. `value` is an array, lazy or not, or a Python value; of a random key it is the array of its words."""

    path: Path
    value: Any
    role: str
    declared: str | None  # its type in the schema
    dims: tuple[str, ...] = ()  # as the schema names them
    key_impl: str | None = None  # of random keys

    @property
    def is_array(self) -> bool:
        return is_stored_array(self.value)

    @property
    def shape(self) -> tuple[int, ...]:
        shape = tuple(int(size) for size in self.value.shape) if self.is_array else ()
        return shape if self.key_impl is None else shape[:-1]

    @property
    def dtype(self) -> str | None:
        """None of what is not an array."""
        if not self.is_array:
            return None
        return str(self.value.dtype) if self.key_impl is None else f"key<{self.key_impl}>"

    @property
    def nbytes(self) -> int:
        return int(self.value.nbytes) if self.is_array else 0

    @property
    def kind(self) -> str:
        return "array" if self.is_array else "empty" if self.value == {} else "value"

    @property
    def form(self) -> str:
        """What alike leaves have in common: all that is shown of their type."""
        return f"{self.kind} {self.dtype or type(self.value).__name__} {self.shape} {self.dims}"

    @property
    def shown(self) -> str:
        """A value in short; nothing of an array."""
        if self.kind != "value":
            return ""
        text = repr(self.value.item() if isinstance(self.value, np.generic) else self.value)
        return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def leaves_of(schema: Schema | None, tree: Any) -> Iterator[ReportLeaf]:
    """In the order of the checkpoint."""
    root = None if schema is None else ir.Node(schema.root)
    pending: list[tuple[Path, Any, ir.Type | None, str | None]] = [((), tree, root, None)]
    while pending:
        path, value, type, role = pending.pop()
        if not isinstance(value, dict) or not value:
            yield _leaf(path, value, type, role)
        elif is_stored_key(value):
            yield _leaf(path, value["data"], type, "rng", value["impl"])
        else:
            parts = {} if schema is None or type is None else ir.parts(schema, type, value) or {}
            below = [((*path, key), child, parts.get(key)) for key, child in value.items()]
            pending += [
                (at, child, part, role_below(schema, part, at[-1], len(at), role))
                for at, child, part in reversed(below)
            ]


def _leaf(path: Path, value: Any, type: ir.Type | None, role: str | None, key_impl: str | None = None) -> ReportLeaf:
    if isinstance(type, ir.Optional) and value is not None:
        type = type.item
    dims = tuple(map(str, ir.own_dims(type))) if isinstance(type, (ir.Array, ir.Key)) else ()
    declared = None if type is None or isinstance(type, ir.Untyped) else ir.describe(type)
    value = np.asarray(value) if isinstance(value, np.generic) and value.dtype.kind not in "SU" else value
    return ReportLeaf(path, value, role_of_leaf(role, value), declared, dims, key_impl)
