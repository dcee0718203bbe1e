"""`validate`: what is wrong with a state, said at any moment by attributes alone: no array is moved, read or computed."""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from attrs import frozen

from treaty.runtime._errors import StateMismatchError
from treaty.runtime._state.arrays import outline_key
from treaty.runtime._state.explain import explain, of_values
from treaty.runtime._state.explain_value import explain_value
from treaty.runtime._state.registry import codec_for
from treaty.runtime._state.state_dict import check_arguments
from treaty.schema import Schema, ir
from treaty.schema._key_texts import key_text

_DICTS: Final = ("typeddict", "keywords")  # kinds of classes whose instances are dicts


def validate(state: object, cls: Any = None, *, dims: Mapping[str, int] | None = None) -> None:
    """Raise one StateMismatchError with all that a save of this state would refuse: shapes, dtypes, ties, containers, classes.

    Only attributes are looked at, so that it is cheap, and holds for arrays that are abstract, traced, donated or on other
    hosts. `cls` names the generic alias where the class of `state` alone does not say it; `dims` are sizes that it must have.
    """
    codec = codec_for(state, cls)
    check_arguments(codec, dims or {}, None)
    found = list(explain_value(codec.schema, state))
    wrong = {one.path for one in found}
    if () not in wrong:  # else there is nothing to look into
        told = explain(codec.schema, _Outline(codec.schema).cls(codec.schema.root_class, state), dims)
        found += [
            one._replace(expected=of_values(one.expected))
            for one in told
            if not any(one.path[:end] in wrong for end in range(len(one.path) + 1))
        ]
    if found:
        raise StateMismatchError(found)


@frozen
class _Outline:
    """The state dict that generated code would write, also of values that it refuses, and of keys without their words."""

    schema: Schema

    def cls(self, cls: ir.Class, value: Any) -> Any:
        is_dict = cls.kind in _DICTS
        state: dict[str, Any] = {}
        for field in cls.fields:
            if not (field.name in value if is_dict else hasattr(value, field.name)):
                continue
            one = self.type(field.type, value[field.name] if is_dict else getattr(value, field.name))
            if not field.spread:
                state[field.key] = one
            elif isinstance(one, dict):
                state |= key_text(field.key).spread(one)
        return state

    def type(self, type: ir.Type, value: Any) -> Any:
        """What is of another kind than declared is left as it is: `explain_value` tells of it."""
        if isinstance(type, ir.Optional):
            return None if value is None else self.type(type.item, value)
        if isinstance(type, ir.Node):
            cls = self.schema[type.cls]
            return self.cls(cls, value) if isinstance(value, dict) == (cls.kind in _DICTS) else value
        if isinstance(type, ir.Key):
            return outline_key(value)
        if isinstance(type, ir.Enum):
            return getattr(value, "_name_", value)
        if isinstance(type, (ir.Sequence, ir.Tuple, ir.Dict, ir.Partial)):
            return self._container(type, value)
        if isinstance(type, (ir.Array, ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Untyped)):
            return value
        assert_never(type)

    def _container(self, type: ir.Sequence | ir.Tuple | ir.Dict | ir.Partial, value: Any) -> Any:
        if isinstance(type, ir.Dict) and isinstance(value, dict):
            return {str(key): self.type(type.value, one) for key, one in value.items()}
        if isinstance(type, ir.Sequence) and isinstance(value, (list, tuple)):
            return {str(index): self.type(type.item, one) for index, one in enumerate(value)}
        if isinstance(type, ir.Tuple) and isinstance(value, tuple):
            pairs = zip(type.items, value, strict=False)
            return {str(index): self.type(item, one) for index, (item, one) in enumerate(pairs)}
        if isinstance(type, ir.Partial) and hasattr(value, "keywords"):
            return {"args": self.type(type.args, value.args), "keywords": self.type(type.keywords, value.keywords)}
        return value
