"""Why a value cannot be stored as its class declares it: one walk over schema and value that lists every mismatch.

Generated code refuses what would come back as something else, without saying where it is. Leaves are not looked at here:
in a state dict they are what they were, and `explain` knows them.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, assert_never

from attrs import frozen
from jax.tree_util import Partial

from treaty.runtime._errors import Mismatch, Path
from treaty.runtime._state.arrays import is_key
from treaty.runtime._state.explain import as_key, container_name, describe, expected_name, short
from treaty.runtime._state.registry import codec_of_instance, is_class_of
from treaty.schema import Schema, ir
from treaty.schema._declare import state_options
from treaty.schema._key_texts import key_text
from treaty.schema.modules import symbol_of

DICTS: Final = (dict, OrderedDict)  # optax's named_chain has the latter, of which nothing is lost but the name


def explain_value(schema: Schema, value: object) -> tuple[Mismatch, ...]:
    """Every place where containers and classes are other than declared."""
    try:
        return tuple(_ValueWalker(schema).cls(schema.root_class, value, ()))
    except RecursionError:
        return (Mismatch("a value that Python can walk", "nesting beyond the recursion limit", ()),)


def class_names(expected: str, value: object) -> tuple[str, str]:
    """What was expected and found, with their modules where the names alone are the same."""
    cls = type(value)
    found = cls.__name__
    if value is None or cls.__module__ == "builtins":
        return short(expected), describe(value)
    if short(expected).rpartition(".")[2] != found:
        return short(expected), f"an instance of {cls.__qualname__}"
    names = expected.replace(":", "."), f"{cls.__module__}.{cls.__qualname__}"
    again = (
        ", which was defined again since; run what declares the class around it again, too"
        if names[0] == names[1]
        else ""
    )
    return names[0], f"an instance of {names[1]}{again}"


@frozen
class _ValueWalker:
    schema: Schema

    def cls(self, cls: ir.Class, value: Any, path: Path) -> Iterator[Mismatch]:
        if cls.is_dict:
            name = short(cls.id) if cls.kind == "typeddict" else "the keywords of a Partial"
            yield from self._entries(cls, name, value, path)
        elif symbol_of(type(value)) != cls.symbol or not is_class_of(type(value), cls.id):
            yield Mismatch(*class_names(cls.symbol, value), path)
        else:
            for field in cls.fields:
                yield from self._field(field, getattr(value, field.name), path)

    def _entries(self, cls: ir.Class, name: str, value: Any, path: Path) -> Iterator[Mismatch]:
        if type(value) not in DICTS:
            yield Mismatch(f"{name} as a dict", describe(value), path)
            return
        for field in cls.fields:
            if field.name in value:
                yield from self._field(field, value[field.name], path)
            else:
                yield Mismatch(expected_name(field.type), "nothing", (*path, field.key))
        known = {field.name for field in cls.fields}
        for key in value:
            if key not in known:
                yield Mismatch(f"no such key in {name}", describe(value[key]), (*path, as_key(key)))

    def _field(self, field: ir.Field, value: Any, path: Path) -> Iterator[Mismatch]:
        for one in self.type(field.type, value, (*path, field.key)):
            item = one.path[len(path) + 1 :]
            if field.spread and item:  # told by the key that it has beside those of the class
                one = one._replace(path=(*path, key_text(field.key).key(str(item[0])), *item[1:]))
            yield one

    def type(self, type: ir.Type, value: Any, path: Path) -> Iterator[Mismatch]:
        if isinstance(type, ir.Optional):
            yield from () if value is None else self.type(type.item, value, path)
        elif isinstance(type, ir.Node):
            yield from self.cls(self.schema[type.cls], value, path)
        elif isinstance(type, ir.Key):
            if not is_key(value):
                yield Mismatch(expected_name(type), describe(value), path)
        elif isinstance(type, ir.Enum):
            if symbol_of(value.__class__) != type.symbol:
                expected, got = class_names(type.symbol, value)
                yield Mismatch(f"a member of {expected}", got, path)
        elif isinstance(type, ir.Untyped):
            yield from self._untyped(value, path)
        elif isinstance(type, ir.Dict):
            yield from self._dict(type, value, path)
        elif isinstance(type, ir.Partial):
            yield from self._partial(type, value, path)
        elif isinstance(type, (ir.Sequence, ir.Tuple)):
            yield from self._sequence(type, value, path)
        elif not isinstance(type, (ir.Array, ir.Fitted, ir.Scalar, ir.NumpyScalar)):
            assert_never(type)

    def _sequence(self, type: ir.Sequence | ir.Tuple, value: Any, path: Path) -> Iterator[Mismatch]:
        kind = list if isinstance(type, ir.Sequence) and not type.immutable else tuple
        fits = isinstance(type, ir.Sequence) or (value.__class__ is tuple and len(value) == len(type.items))
        if value.__class__ is not kind or not fits:
            got = f"tuple of {len(value)}" if value.__class__ is tuple and not fits else describe(value)
            yield Mismatch(container_name(type), got, path)
            return
        for index, one in enumerate(value):
            item = type.item if isinstance(type, ir.Sequence) else type.items[index]
            yield from self.type(item, one, (*path, index))

    def _dict(self, type: ir.Dict, value: Any, path: Path) -> Iterator[Mismatch]:
        if value.__class__ not in DICTS:
            yield Mismatch(container_name(type), describe(value), path)
            return
        kind, article = (int, "an") if type.key == "int" else (str, "a")
        for key, one in value.items():
            if key.__class__ is kind and not _is_huge(key):
                yield from self.type(type.value, one, (*path, str(key)))
            else:
                yield Mismatch(f"{article} {type.key} as key", describe(key), path)

    def _partial(self, type: ir.Partial, value: Any, path: Path) -> Iterator[Mismatch]:
        name = type.func.rpartition(":")[2]
        func = value.func if value.__class__ is Partial else None
        if func is None or not hasattr(func, "__qualname__") or symbol_of(func) != type.func:
            got = describe(value) if func is None else f"one of {getattr(func, '__qualname__', func)}"
            yield Mismatch(f"a Partial of {name}", got, path)
            return
        yield from self.type(type.args, value.args, (*path, "args"))
        yield from self.type(type.keywords, value.keywords, (*path, "keywords"))

    def _untyped(self, value: Any, path: Path) -> Iterator[Mismatch]:
        """What is inside is not checked, except for instances of state classes, which their own code stores."""
        if state_options(value.__class__) is not None:
            schema = codec_of_instance(value).schema
            yield from _ValueWalker(schema).cls(schema.root_class, value, path)
        elif isinstance(value, dict):
            for key, one in value.items():
                yield from self._untyped(one, (*path, str(key)))
        elif isinstance(value, (list, tuple)):
            names = getattr(value, "_fields", range(len(value)))
            for name, one in zip(names, value, strict=True):
                yield from self._untyped(one, (*path, name))


def _is_huge(key: str | int) -> bool:
    """Whether Python would not write an int as text."""
    try:
        str(key)
    except ValueError:
        return True
    return False
