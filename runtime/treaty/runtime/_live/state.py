"""The state dict of a class from the leaves of a live tree: the schema says what is asked for."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from treaty.runtime._errors import Mismatch, Path, show_path
from treaty.runtime._live.forms import ABSENT, Absent, Form, FormNode, LeafSlot, StaticValue
from treaty.runtime._live.frameworks import hides_arrays
from treaty.runtime._live.numbers import NUMBERS, as_array
from treaty.runtime._state.arrays import is_array, is_key, write_key
from treaty.runtime._state.explain import describe
from treaty.schema import Schema, ir
from treaty.schema.dtypes import BY_NAME

_Part: TypeAlias = Form | Absent


@frozen
class StateFill:
    """Makes one state dict. What the class does not declare is added where it is an array, so that it is reported."""

    schema: Schema
    leaves: Sequence[Any]
    repeats: Mapping[int, int]  # leaves that are others again
    used: dict[int, Path] = field(factory=dict)
    twice: list[Mismatch] = field(factory=list)  # a shared leaf in two fields
    _undeclared: list[tuple[dict[str, Any], str, Form]] = field(factory=list)

    def state(self, form: _Part) -> Any:
        made = self._type(ir.Node(self.schema.root), form, ())
        for state, key, rest in self._undeclared:
            found = self._arrays(rest)
            if not isinstance(found, Absent):
                state[key] = found
        return {} if isinstance(made, Absent) else made

    def _type(self, type: ir.Type, form: _Part, path: Path) -> Any:
        if isinstance(type, ir.Optional):
            return None if form is None or isinstance(form, Absent) else self._type(type.item, form, path)
        if isinstance(form, LeafSlot):
            self._use(form, path)
            return _leaf(type, self.leaves[form.index])
        if isinstance(form, StaticValue):
            return self._static(type, form, path)
        if form is None:
            return None
        return self._node(type, form, path)

    def _static(self, type: ir.Type, form: StaticValue, path: Path) -> Any:
        """A static value; of a tuple all items, so that one too many is told."""
        opened = form.opened() if isinstance(type, (ir.Sequence, ir.Tuple)) else None
        if opened is None:
            return _leaf(type, form.value)
        parts = ir.parts(self.schema, type, opened) or {}
        return {key: self._type(parts.get(key, ir.Untyped()), one, (*path, int(key))) for key, one in opened.items()}

    def _node(self, type: ir.Type, form: FormNode | Absent, path: Path) -> Any:
        """A node, or what stands for a node without leaves in a tree that does not have it."""
        if isinstance(type, ir.Untyped) and isinstance(form, FormNode):
            return self._untyped(form, path)
        if isinstance(type, ir.Scalar) and type.type == "none":
            return None
        children = form if isinstance(form, FormNode) else FormNode()
        parts = None if isinstance(type, ir.Key) else ir.parts(self.schema, type, children)
        if parts is None:
            return ABSENT if isinstance(form, Absent) else self._untyped(form, path)
        state: dict[str, Any] = {}
        for key, part in parts.items():
            child: _Part = children.get(key, ABSENT)
            if isinstance(child, Absent) and isinstance(form, FormNode):
                child = form.attribute(key)
            step = int(key) if isinstance(type, (ir.Sequence, ir.Tuple)) and key.isdecimal() else key
            found = self._type(part, child, (*path, step))
            if not isinstance(found, Absent):
                state[key] = found
        self._undeclared.extend((state, key, child) for key, child in children.items() if key not in parts)
        return ABSENT if isinstance(form, Absent) and len(state) < len(parts) else state

    def _untyped(self, form: Form, path: Path) -> Any:
        if isinstance(form, FormNode):
            return {key: self._untyped(child, (*path, key)) for key, child in form.items()}
        if isinstance(form, LeafSlot):
            self._use(form, path)
            return self.leaves[form.index]
        return form.value if isinstance(form, StaticValue) else None

    def _arrays(self, form: Form) -> Any:
        if isinstance(form, FormNode):
            found = {key: self._arrays(child) for key, child in form.items()}
            kept = {key: value for key, value in found.items() if not isinstance(value, Absent)}
            return kept or ABSENT
        if not isinstance(form, LeafSlot):
            return ABSENT
        if not is_array(self.leaves[form.index]) and not hides_arrays(self.leaves[form.index]):
            return ABSENT
        is_known = form.index in self.repeats or form.index in self.used
        return ABSENT if is_known else self.leaves[form.index]

    def _use(self, slot: LeafSlot, path: Path) -> None:
        first = self.repeats.get(slot.index, slot.index)
        if first in self.used:
            expected = f"no second field for the variable of {show_path(self.used[first])}"
            self.twice.append(Mismatch(expected, describe(self.leaves[first]), path))
        self.used[first] = path


def _leaf(type: ir.Type, value: Any) -> Any:
    """A leaf as a state dict has it. One that does not fit stays as it is, for `explain` to report."""
    if isinstance(type, ir.Array) and not type.dims and value.__class__ in NUMBERS:
        found = as_array(value, BY_NAME[type.dtype].numpy)
        return value if isinstance(found, Absent) else found
    if isinstance(type, ir.Key):
        return write_key(value) if is_key(value) else value
    if isinstance(type, ir.Enum) and isinstance(value, enum.Enum):
        return value._name_
    return value
