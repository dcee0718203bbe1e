"""Values in the form of state dicts by their schema alone: of stand-ins for arrays, and of values that generated code refuses."""

from collections.abc import Callable
from typing import Any, assert_never

from attrs import frozen

from treaty.schema import Schema, ir
from treaty.schema._key_texts import key_text
from treaty.schema.modules import symbol_of


@frozen
class StateForm:
    """What is of another kind than declared stays as it is: whoever checks the state tells of it."""

    schema: Schema
    of_key: Callable[[Any], Any]  # the form of what stands where a PRNG key is declared

    def root(self, value: Any) -> Any:
        return self._class(self.schema.root_class, value)

    def type(self, type: ir.Type, value: Any) -> Any:
        if isinstance(type, ir.Optional):
            return None if value is None else self.type(type.item, value)
        if isinstance(type, ir.Node):
            return self._class(self.schema[type.cls], value)
        if isinstance(type, ir.Key):
            return self.of_key(value)
        if isinstance(type, ir.Enum):
            return getattr(value, "_name_", value)  # `name` may be a member itself
        if isinstance(type, ir.Dict):
            is_dict = isinstance(value, dict)
            return {str(key): self.type(type.value, one) for key, one in value.items()} if is_dict else value
        if isinstance(type, ir.Sequence):
            is_sequence = isinstance(value, (list, tuple))
            return {str(index): self.type(type.item, one) for index, one in enumerate(value)} if is_sequence else value
        if isinstance(type, ir.Tuple):
            if not isinstance(value, tuple) or len(value) != len(type.items):
                return value
            pairs = zip(type.items, value, strict=True)
            return {str(index): self.type(item, one) for index, (item, one) in enumerate(pairs)}
        if isinstance(type, ir.Partial):
            if not hasattr(value, "keywords"):
                return value
            return {"args": self.type(type.args, value.args), "keywords": self.type(type.keywords, value.keywords)}
        if isinstance(type, (ir.Array, ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Untyped)):
            return value
        assert_never(type)

    def _class(self, cls: ir.Class, value: Any) -> Any:
        if not (isinstance(value, dict) if cls.is_dict else symbol_of(value.__class__) == cls.symbol):
            return value
        state: dict[str, Any] = {}
        for field in cls.fields:
            if not (field.name in value if cls.is_dict else hasattr(value, field.name)):
                continue
            one = self.type(field.type, cls.value_of(field, value))
            if not field.spread:
                state[field.key] = one
            elif isinstance(one, dict):
                state |= key_text(field.key).spread(one)
        return state
